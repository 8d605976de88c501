"""Which details of a recipe matter: the template, the clip, how an answer is found, and how a reply ends."""

from gnomon_lab.studies import Claim, Study

FOUR: dict[str, object] = {"objective": "grpo", "optim.minibatches": 4}
CHANGED: dict[str, tuple[str, dict[str, object]]] = {
    "a template that was not practised": ("unchanged", {"env.template": "Question: {prompt}\nReply:"}),
    "the first of several answers": ("unchanged", {"env.strictness": "first"}),
    "an answer without its tags": ("unchanged", {"env.strictness": "lenient"}),
    "a reply ends by its own token": ("unchanged", {"rollout.stop": []}),
    "a penalty near the limit": ("unchanged", {"rollout.max_tokens": 48, "regularize.overlong": 0.5}),
    "a higher upper clip": ("four updates", {**FOUR, "objective.clip_high": 0.28}),
    "no clip": ("four updates", {**FOUR, "objective.clip_low": 1e9, "objective.clip_high": 1e9}),
}

study = Study(
    question="Do template, answer rule, end of reply and clip each move pass@1 by less than ten points?",
    why="`details` changes twelve other parts of the same recipe. The policy practised one template alone, and replies "
    "that end behind the answer, so these parts can only be as good as they were. A clip acts on later updates of a "
    "step, so it is compared within four updates.",
    base="char_count",
    settings={"steps": 40, "eval.every": 40, "prompts": 16},
    arms={"unchanged": {}, "four updates": FOUR} | {name: changed for name, (_, changed) in CHANGED.items()},
    seeds=range(6),
    claims=[Claim(measure="final", arm=name, than=than, within=0.1) for name, (than, _) in CHANGED.items()],
    prediction={"PASS": 0.1, "FAIL": 0.5, "INCONCLUSIVE": 0.4},
)
