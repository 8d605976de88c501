"""Whether samples of the weights before the last update cost a pretrained model accuracy."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does training SmolLM2 on samples that are one step old end within 15 points of training on new ones?",
    why="Asynchronous trainers sample while they train, and report no loss at small lags (prime-rl, Tinker). Ratios "
    "are taken to the policy that sampled.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19, "objective": "tis",
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={f"lag {lag}": {"rollout.lag": lag} for lag in (0, 1)},
    seeds=range(3),
    claims=[Claim(measure="final", arm="lag 1", than="lag 0", within=0.15)],
    prediction={"PASS": 0.3, "FAIL": 0.15, "INCONCLUSIVE": 0.55},
)  # fmt: skip
