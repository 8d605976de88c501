"""Whether correcting for a sampler that rounds its weights cures a loss that the rounding causes."""

from gnomon_lab.studies import Claim, Study

study = Study(
    question="Does truncated importance sampling win back ten points that a bfloat16 sampler loses?",
    why="A mismatch between sampler and learner was named as the cause of collapses, and a correction as the cure (Yao "
    "et al. 2025; Ionides 2008 for the truncation). A tiny policy has little to round, so the loss may be small here.",
    base="char_count",
    settings={"steps": 120, "engine.round_weights": "bfloat16"},
    arms={"uncorrected": {"objective": "dr_grpo"}, "corrected": {"objective": "tis"}},
    claims=[Claim(measure="final", arm="corrected", than="uncorrected", above=0.1)],
    prediction={"PASS": 0.05, "FAIL": 0.7, "INCONCLUSIVE": 0.25},
)
