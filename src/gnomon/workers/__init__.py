"""Worker processes that can be killed: pools, fork servers, and serialisation of values."""

from __future__ import annotations

from gnomon.workers.import_time import own_cpu
from gnomon.workers.outcomes import Died, Exceeded, Lost, Outcome, Raised, Resource, Returned
from gnomon.workers.pool import Affinity, Pool
from gnomon.workers.serialise import Carried, pack_value

__all__ = [
    "Affinity",
    "Carried",
    "Died",
    "Exceeded",
    "Lost",
    "Outcome",
    "Pool",
    "Raised",
    "Resource",
    "Returned",
    "own_cpu",
    "pack_value",
]
