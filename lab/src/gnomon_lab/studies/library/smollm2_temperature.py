"""Which sampling temperature a pretrained model learns from."""

from gnomon_lab.studies import Claim, Study, final_of

study = Study(
    question="Is a sampling temperature of 1 better than .6 for SmolLM2, evaluated at 1?",
    why="GSM8K went from 40.6 to 55.7 with the right temperature (oat, rho-1b). A cold sampler is right more often and "
    "sees fewer replies.",
    base="gnomon_lab.addition:Addition",
    settings={
        "env.low": 1, "env.high": 19,
        "policy": "smollm2", "lora": 16, "lr": 6e-4, "optim.warmup": 1, "steps": 6, "prompts": 8, "group": 8,
        "max_tokens": 12, "rollout.stop": [], "eval.tasks": 8, "eval.samples": 1, "eval.every": 1000, "save.every": 2,
        "eval.sets.at_1.tasks": 24, "eval.sets.at_1.samples": 4, "eval.sets.at_1.temperature": 1.0,
    },
    arms={f"{value:g}": {"temperature": value} for value in (0.6, 1.0)},
    seeds=range(3),
    measures={"final": final_of("at_1")},
    claims=[Claim(measure="final", arm="1", than="0.6", above=0.0)],
    prediction={"PASS": 0.2, "FAIL": 0.15, "INCONCLUSIVE": 0.65},
)  # fmt: skip
