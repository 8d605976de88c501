"""Verifiers: find the answer in a reply, parse it, and score it."""

from gnomon.verifiers.canaries import Watch, watch
from gnomon.verifiers.choice import Choice
from gnomon.verifiers.code import UnitTests, code_judged
from gnomon.verifiers.controls import FormatOnly, Noisy, Random, Shuffled, WrongLabel
from gnomon.verifiers.expression import Expression, calculate, evaluate, integer
from gnomon.verifiers.extract import Extraction, Strictness, extract
from gnomon.verifiers.judging import Judge, Retry, ajudge_all, asettle_all, judge, judge_all, settle, settle_all
from gnomon.verifiers.llm import LLMJudge
from gnomon.verifiers.math import Math
from gnomon.verifiers.number import Number
from gnomon.verifiers.pattern import Pattern
from gnomon.verifiers.polynomial import PolynomialAnswer
from gnomon.verifiers.prices import Pay, Price, pay
from gnomon.verifiers.proxy import Proxy
from gnomon.verifiers.schema import JsonSchema
from gnomon.verifiers.sets import SetMatch
from gnomon.verifiers.slot import Answered, Importing, Malformed, NoScore, Rejected, Several, Slot, Verifier
from gnomon.verifiers.text import Text

__all__ = [
    "Answered",
    "Choice",
    "Expression",
    "Extraction",
    "FormatOnly",
    "Importing",
    "JsonSchema",
    "Judge",
    "LLMJudge",
    "Malformed",
    "Math",
    "NoScore",
    "Noisy",
    "Number",
    "Pattern",
    "Pay",
    "PolynomialAnswer",
    "Price",
    "Proxy",
    "Random",
    "Rejected",
    "Retry",
    "SetMatch",
    "Several",
    "Shuffled",
    "Slot",
    "Strictness",
    "Text",
    "UnitTests",
    "Verifier",
    "Watch",
    "WrongLabel",
    "ajudge_all",
    "asettle_all",
    "calculate",
    "code_judged",
    "evaluate",
    "extract",
    "integer",
    "judge",
    "judge_all",
    "pay",
    "settle",
    "settle_all",
    "watch",
]
