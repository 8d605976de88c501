"""Whether an adapter of rank 1 is enough for a pretrained model."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does an adapter of rank 1 end within 15 points of one of rank 16, on sums of SmolLM2?",
    why="Rank 1 is reported to match full training in reinforcement learning (LoRA Without Regret, Thinking Machines "
    "2025). Both arms share the learning rate, which alpha / rank makes nearly independent of the rank.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19,
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 24, "eval.samples": 4, "eval.every": 1000, "save.every": 2,
    },
    arms={"rank 1": {"lora": 1}, "rank 16": {"lora": 16}},
    seeds=range(3),
    claims=[Claim(measure="final", arm="rank 1", than="rank 16", within=0.15)],
    prediction={"PASS": 0.3, "FAIL": 0.1, "INCONCLUSIVE": 0.6},
)  # fmt: skip
