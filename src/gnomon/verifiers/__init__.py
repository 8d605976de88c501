"""The judge's tools: find the answer in a reply, read it, say what it is worth."""

from gnomon.verifiers.expression import Expression, Malformed, evaluate, integer
from gnomon.verifiers.extract import Extraction, Strictness, extract
from gnomon.verifiers.pool import Died, Exceeded, Outcome, Pool, Raised, Returned

__all__ = [
    "Died",
    "Exceeded",
    "Expression",
    "Extraction",
    "Malformed",
    "Outcome",
    "Pool",
    "Raised",
    "Returned",
    "Strictness",
    "evaluate",
    "extract",
    "integer",
]
