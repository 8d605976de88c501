"""Words and commands that an answer may contain, by meaning."""

from __future__ import annotations

__all__ = [
    "CONNECTING", "ENDS", "FUNCTIONS", "FUNCTION_WORDS", "LETTERS", "NUMBERS", "ONES", "PHRASES", "SCALES", "SPELLED",
    "TENS", "WORK",
]  # fmt: skip


def _words(text: str) -> list[str]:
    return text.split()


FUNCTIONS = frozenset(
    _words("sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh ln log lg exp cis")
)
SPELLED = {"sqrt": r"\sqrt", "cbrt": r"\cbrt", "pi": r"\pi", "inf": r"\infty", "infty": r"\infty", "oo": r"\infty",
           "mod": r"\bmod", "choose": r"\choose", "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan",
           "infinity": r"\infty"}  # fmt: skip
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
ONES = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
CONNECTING = {"or": r"\lor", "and": r"\land", "nor": r"\lor"}
ENDS = frozenset(_words(r", ; ) ] } \} & \\ = < > \le \ge \ne \lor \land \approx \rangle"))
"""What may follow a unit."""
LETTERS = frozenset("abcdhkmnpqrstuvwxyz")
"""Letters used in formulas. Two or three of them are a product; a run that contains another letter is a word."""
FUNCTION_WORDS = frozenset(
    _words(
        "is isnt are was were be been not no none nor never without but if then else maybe perhaps probably "
        "possibly about approximately roughly nearly almost around circa so yet though although however actually "
        "instead rather than more less fewer over under between within from until till through up down off out only "
        "just also again still wrong incorrect false untrue right correct true sure unsure guess answer answers "
        "question either neither both any all some other others another or and to of as at by for in on with plus "
        "minus times divided multiplied squared cubed half halves third thirds quarter quarters fifth fifths sixth "
        "sixths tenth tenths hundredth hundredths thousandth thousandths millionth millionths mod modulo base "
        "factorial choose power root hundreds thousands millions billions trillions dozens score gross hundred "
        "thousand million billion trillion dozen double triple twice thrice one two three four five six seven eight "
        "nine ten the this that it they we you i hence therefore because since when where which who what do does "
        "did dont doesnt can cannot could should would may might must will shall k m b bn mn"
    )
)
"""Words that change, hedge or deny the preceding number. All other words are nouns."""


NUMBERS = {"R": "reals", "Z": "integers", "Q": "rationals", "N": "naturals", "C": "complexes"}
PHRASES = {
    "none": "no solution", "no solutions": "no solution", "no real solution": "no solution", "empty set": "no solution",
    "no real solutions": "no solution", "no answer": "no solution", "null": "no solution",
    "does not exist": "dne", "undefined": "dne", "all real numbers": "reals", "all reals": "reals",
    "real numbers": "reals", "all integers": "integers", "infinitely many solutions": "infinitely many",
    "infinite": "infinitely many", "positive infinity": "infinity",
}  # fmt: skip
WORK = {
    r"\int": "an integral", r"\iint": "an integral", r"\iiint": "an integral", r"\oint": "an integral",
    r"\sum": "a sum", r"\prod": "a product", r"\lim": "a limit", r"\det": "a determinant", r"\max": "a maximum",
    r"\min": "a minimum", r"\gcd": "a greatest common divisor", r"\lcm": "a least common multiple",
    r"\partial": "a derivative", r"\nabla": "a derivative", r"\ldots": "what an ellipsis leaves out",
}  # fmt: skip
