"""Which details of a recipe matter: one is changed at a time."""

from gnomon_lab.studies import Claim, Study

CHANGED: dict[str, dict[str, object]] = {
    "no reward for the format": {"env.format": 0.0},
    "no hint in the prompt": {"env.hint": False},
    "at most 16 tokens": {"rollout.max_tokens": 16},
    "groups of 2": {"rollout.group": 2, "rollout.prompts": 64},
    "mean over tokens": {"objective": "dapo"},
    "divided by the deviation": {"objective": "grpo"},
    "temperature of .7": {"rollout.temperature": 0.7},
    "two epochs": {"optim.epochs": 2},
    "KL penalty": {"regularize.kl": 0.01},
    "entropy bonus": {"regularize.entropy": 0.01},
    "a third of the learning rate": {"optim.lr": 0.00033},
    "no warmup": {"optim.warmup": 0},
}

study = Study(
    question="Does each of twelve details of a recipe move pass@1 by less than ten points?",
    why="Guides to reasoning recipes ask which details matter. Here each is changed alone, from the recipe that counts "
    "letters; the learning rate was chosen for the unchanged one.",
    base="char_count",
    settings={"steps": 40, "eval.every": 40, "prompts": 16},
    arms={"unchanged": {}, **CHANGED},
    seeds=range(6),
    claims=[Claim(measure="final", arm=name, than="unchanged", within=0.1) for name in CHANGED],
    crashed={"final": 0.0},
    prediction={"PASS": 0.05, "FAIL": 0.65, "INCONCLUSIVE": 0.3},
)
