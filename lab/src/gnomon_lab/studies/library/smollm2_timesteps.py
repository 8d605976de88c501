"""Whether a pretrained model learns more from old samples with a ratio per token or per reply."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does training SmolLM2 on samples two steps old end higher with a ratio per token than per reply?",
    why="One ratio for the whole reply is the only one without bias, and its noise grows with the lag. In the study "
    "`timesteps`, by enumeration, bias falls with the tokens of a timestep, and noise does not rise steadily.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19, "objective": "sequence_is", "rollout.lag": 2,
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 8, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={"token": {"objective.timestep": 1}, "two": {"objective.timestep": 2}, "reply": {"objective.timestep": 0}},
    seeds=range(3),
    claims=[
        Claim(measure="final", arm="token", than="reply", above=0.0),
        Claim(measure="final", arm="two", than="token", within=0.15),
    ],
    prediction={"PASS": 0.05, "FAIL": 0.1, "INCONCLUSIVE": 0.85},
)  # fmt: skip
