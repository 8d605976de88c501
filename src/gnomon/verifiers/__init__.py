"""The judge's tools: find the answer in a reply, read it, say what it is worth."""

from gnomon.verifiers.expression import Expression, evaluate, integer
from gnomon.verifiers.extract import Extraction, Strictness, extract
from gnomon.verifiers.judging import Judge, Retry, ajudged, asettled, judge, judged, settle, settled
from gnomon.verifiers.pool import Died, Exceeded, Outcome, Pool, Raised, Returned
from gnomon.verifiers.prices import Pay, Price, pay
from gnomon.verifiers.slot import Answered, Malformed, Rejected, Slot, Verifier

__all__ = [
    "Answered",
    "Died",
    "Exceeded",
    "Expression",
    "Extraction",
    "Judge",
    "Malformed",
    "Outcome",
    "Pay",
    "Pool",
    "Price",
    "Raised",
    "Rejected",
    "Retry",
    "Returned",
    "Slot",
    "Strictness",
    "Verifier",
    "ajudged",
    "asettled",
    "evaluate",
    "extract",
    "integer",
    "judge",
    "judged",
    "pay",
    "settle",
    "settled",
]
