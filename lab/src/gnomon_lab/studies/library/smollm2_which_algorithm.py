"""Whether RLOO and GRPO end equal on a pretrained model."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Do RLOO and GRPO end within five points of each other on sums of SmolLM2?",
    why="`The exact algorithm does not matter here` (TinyZero). Both arms share the learning rate.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19,
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={name: {"objective": name} for name in ("rloo", "grpo")},
    seeds=range(3),
    claims=[Claim(measure="final", arm="grpo", than="rloo", within=0.05)],
    prediction={"PASS": 0.05, "FAIL": 0.1, "INCONCLUSIVE": 0.85},
)  # fmt: skip
