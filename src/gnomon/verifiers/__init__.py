"""The judge's tools: find the answer in a reply, read it, say what it is worth."""

from gnomon.verifiers.expression import Expression, Malformed, evaluate, integer
from gnomon.verifiers.extract import Extraction, Strictness, extract

__all__ = ["Expression", "Extraction", "Malformed", "Strictness", "evaluate", "extract", "integer"]
