"""Questions as files: arms, seeds, what is measured and the pass line are on record before the first run."""

from gnomon.comparison.measures import (
    at_flops,
    at_step,
    at_tokens,
    bits,
    final,
    final_length,
    final_of,
    gain,
    gain_of,
    last_steps,
    metric,
    pass_at,
)  # fmt: skip
from gnomon_lab.studies.design import Claim, Study, load

__all__ = [
    "Claim", "Study", "at_flops", "at_step", "at_tokens", "bits", "final", "final_length", "final_of", "gain",
    "gain_of", "last_steps", "load", "metric", "pass_at",
]  # fmt: skip
