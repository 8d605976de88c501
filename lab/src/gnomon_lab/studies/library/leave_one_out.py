"""Whether the factor N/(N−1) of leave-one-out matters in training."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Do RLOO and Dr. GRPO end at the same pass@1?",
    why="Their expected gradients differ by a constant, N/(N-1) over the length limit, which AdamW and the clip of the "
    "gradient's norm take out again (Kool et al. 2019; Ahmadian et al. 2024, arXiv 2402.14740).",
    base="char_count",
    settings={"steps": 20},
    arms={"rloo": {"objective": "rloo"}, "dr_grpo": {"objective": "dr_grpo"}},
    claims=[Claim(measure="final", arm="rloo", than="dr_grpo", within=0.05)],
    prediction={"PASS": 0.7, "FAIL": 0.02, "INCONCLUSIVE": 0.28},
)
