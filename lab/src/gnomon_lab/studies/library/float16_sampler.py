"""Whether float16 without a correction is as good as bfloat16 with one."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Is a float16 sampler without a correction as good as a bfloat16 sampler with one?",
    why="Precision alone is claimed to remove the mismatch (Qi et al. 2025, arXiv 2510.26788). Only the sampler's "
    "weights are rounded here; the learner stays in float32.",
    base="char_count",
    settings={"steps": 60},
    arms={
        "float16": {"engine.round_weights": "float16", "objective": "dr_grpo"},
        "bfloat16, corrected": {"engine.round_weights": "bfloat16", "objective": "tis"},
    },
    claims=[Claim(measure="final", arm="float16", than="bfloat16, corrected", above=-0.02)],
    prediction={"PASS": 0.5, "FAIL": 0.05, "INCONCLUSIVE": 0.45},
)
