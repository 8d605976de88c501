"""Questions as files: arms, seeds, what is measured and the pass line are on record before the first run."""

from gnomon.studies.design import Claim, Study, load
from gnomon.studies.measures import final, gain, last_steps, metric

__all__ = ["Claim", "Study", "final", "gain", "last_steps", "load", "metric"]
