"""Whether AdamW hides what the division by the standard deviation does to a gradient."""

from gnomon_lab.studies import Claim, Study

RATES = {
    "adamw, grpo": (3e-4, 1e-3, 3e-3),
    "adamw, dr_grpo": (3e-4, 1e-3, 3e-3),
    "sgd, grpo": (0.3, 1.0, 3.0),
    "sgd, dr_grpo": (10.0, 30.0, 100.0),
}

study = Study(
    question="Do GRPO and Dr. GRPO end within five points under AdamW, and GRPO five points ahead under SGD?",
    why="AdamW divides a gradient by its own recent size, so a factor that all groups share is gone. SGD keeps it. "
    "GRPO divides the rewards of each group by their standard deviation and Dr. GRPO does not (Liu et al. 2025, arXiv "
    "2503.20783). Each arm has the best of three rates, so only the weights of tasks beside each other are left.",
    base="char_count",
    settings={"steps": 20, "optim.max_grad_norm": 1e9},
    arms={arm: {"optim.type": arm.partition(",")[0], "objective": arm.rpartition(" ")[2]} for arm in RATES},
    rates=RATES,
    claims=[
        Claim(measure="final", arm="adamw, grpo", than="adamw, dr_grpo", within=0.05),
        Claim(measure="final", arm="sgd, grpo", than="sgd, dr_grpo", above=0.05),
    ],
    prediction={"PASS": 0.1, "FAIL": 0.45, "INCONCLUSIVE": 0.45},
)
