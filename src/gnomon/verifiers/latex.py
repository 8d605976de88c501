r"""Mathematical text brought to few signs: what is only layout goes, what only looks like mathematics is refused."""

from __future__ import annotations

import re

from gnomon.verifiers.slot import Malformed, Rejected, Several

__all__ = ["assigned", "elements", "plain", "refuse", "tidy", "worded"]

MAX_LENGTH = 1000
"""Characters of an answer."""
MAX_DEPTH = 32
"""Brackets inside one another."""
MAX_DIGITS = 512
"""Digits of one number."""
MAX_ELEMENTS = 64
"""Elements of a list."""
MAX_EXPONENT = 10_000

LAYOUT = (
    ("\\left", ""), ("\\right", ""), ("\\displaystyle", ""), ("\\,", " "), ("\\!", ""), ("\\;", " "), ("\\:", " "),
    ("\\ ", " "), ("~", " "), ("\\quad", " "), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\cfrac", "\\frac"),
    ("\\$", "$"), ("\\%", "%"), ("^{\\circ}", "°"), ("^\\circ", "°"), ("{,}", ","), ("−", "-"), ("**", "^"),
    ("\\lbrace", "\\{"), ("\\rbrace", "\\}"), ("\\cdot", "*"), ("\\times", "*"), ("\\div", "/"),
)  # fmt: skip
WORKS = ("\\int", "\\oint", "\\sum", "\\prod", "\\lim", "\\binom", "\\frac{d}", "\\det", "\\max", "\\min", "!")
"""Signs of work that is left to whoever reads the answer."""
ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 +-*/^_=(){}[]<>|,.;!%$°\\&\n")
PAIRS = {"(": ")", "[": "]"}
SPELLED = r"\\(?:text|textbf|textit|mathrm|mathbf|operatorname|mbox)\{([^{}\\]{0,200})\}"
NUMERIC_TOWER = r"\^\{[^{}a-zA-Z\\]*\^|\^[0-9a-zA-Z]\^|\^[0-9]+\^|\^\{?\(?-?[0-9.]*[0-9]\^"


def tidy(text: str) -> str:
    """The text without what is only layout; `\\text{…}` becomes its words.

    Raises: Malformed, for signs that no answer has, and for anything beyond the caps of this module.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise Malformed(f"an answer of over {MAX_LENGTH} characters")
    for opening, closing in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing):
            inner = text[len(opening) : -len(closing)]
            text = inner if "$" not in inner.replace("\\$", "") else text
            break
    for old, new in LAYOUT:
        text = text.replace(old, new)
    text = " ".join(re.sub(SPELLED, r" \1 ", text).split()).rstrip(".") or text
    if not ALLOWED.issuperset(text):
        strange = next(char for char in text if char not in ALLOWED)
        raise Malformed(f"{strange!r} is no part of a mathematical answer")
    if "__" in text:
        raise Malformed("'__' is no part of a mathematical answer")
    if "\\boxed" in text:
        raise Malformed("a box inside the box")
    depth = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        if depth > MAX_DEPTH:
            raise Malformed(f"brackets nested over {MAX_DEPTH} deep")
    if any(len(digits) > MAX_DIGITS for digits in re.findall("[0-9]+", text)):
        raise Malformed(f"a number of over {MAX_DIGITS} digits")
    return text


def refuse(answer: str, gold: str) -> None:
    """Turn away what is not one worked-out answer, unless the gold is written so itself.

    Raises: Rejected, for work left undone and numbers too large to write; Several, for two answers in one.
    """
    for work in WORKS:
        if work in answer and work not in gold:
            raise Rejected(f"the answer leaves work undone: {work}")
    for sign in ("\\pm", "\\mp"):
        if sign in answer and "\\pm" not in gold and "\\mp" not in gold:
            raise Several(f"{sign} names two values")
    words = answer.lower().replace(",", " ").split()
    for word in ("or", "and"):
        if word in words and word not in gold.lower().split():
            raise Several(f"more than one answer: {word!r}")
    if "not" in words and "not" not in gold.lower().split():
        raise Malformed("a denial is no answer")
    large = [int(digits) for digits in re.findall(r"\^\{?\(?-?([0-9]+)", answer)]
    if any(power > MAX_EXPONENT for power in large) or (re.search(NUMERIC_TOWER, answer) and answer != gold):
        raise Rejected("a number too large to be written out")


def assigned(text: str) -> tuple[str, str]:
    """The name in front of `x = …`, if there is one, and the rest. Raises: Malformed, for any other equation."""
    if text.count("=") != 1 or any(sign in text for sign in ("<=", ">=", "!=")):
        if text.count("=") > 1:
            raise Malformed("more than one equation")
        return "", text
    name, _, value = (part.strip() for part in text.partition("="))
    if re.fullmatch(r"[a-zA-Z](?:_\{?[0-9a-zA-Z]\}?)?(?:\([a-z]\))?", name) is None:
        return "", text
    return name, value


def elements(text: str) -> tuple[str, list[str]] | None:
    r"""The brackets and the elements of `(a, b)`, `[a, b)`, `\{a, b\}` or the bare `a, b`; None for a single value."""
    opening, closing, inner = "", "", text
    if text.startswith("\\{") and text.endswith("\\}") and len(text) >= 4:
        opening, closing, inner = "{", "}", text[2:-2]
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]") and len(text) > 2 and _wraps(text):
        opening, closing, inner = text[0], text[-1], text[1:-1]
    parts, depth, start = list[str](), 0, 0
    for place, char in enumerate(inner):
        depth += (char in "({[") - (char in ")}]")
        # A comma between groups of three digits belongs to a number, in a text that has no brackets.
        thousands = not opening and re.match(r",[0-9]{3}(?![0-9])", inner[place : place + 5]) is not None
        if char == "," and depth == 0 and not (thousands and inner[place - 1 : place].isdigit()):
            parts.append(inner[start:place].strip())
            start = place + 1
    parts.append(inner[start:].strip())
    if len(parts) == 1 and opening != "{":
        return None
    if len(parts) > MAX_ELEMENTS:
        raise Malformed(f"over {MAX_ELEMENTS} elements")
    if not all(parts):
        raise Malformed("an empty element")
    return opening + closing, parts


def _wraps(text: str) -> bool:
    """Whether the first bracket closes with the last one."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0:
            return place == len(text) - 1
    return False


def worded(text: str) -> tuple[str, str]:
    """The value and the words of two letters or more that stand behind it."""
    tokens = text.split()
    place = len(tokens)
    while place and len(tokens[place - 1]) > 1 and tokens[place - 1].isalpha():
        place -= 1
    return " ".join(tokens[:place]), " ".join(tokens[place:])


def plain(text: str) -> str:
    r"""The text as a polynomial is written: fractions with `/`, braces as parentheses.

    A number in front of a fraction is a mixed number. Raises: Malformed, where another command is left.
    """
    for _ in range(MAX_DEPTH):
        start = text.rfind("\\frac")
        if start < 0:
            break
        top, middle = _group(text, start + len("\\frac"))
        bottom, end = _group(text, middle)
        sign = "+" if text[:start].rstrip()[-1:].isdigit() else ""
        text = f"{text[:start]}{sign}(({top})/({bottom})){text[end:]}"
        if sign:
            whole = re.search(r"[0-9.]+\s*$", text[:start])
            assert whole is not None
            close = start + len(f"+(({top})/({bottom}))")
            text = f"{text[: whole.start()]}({text[whole.start() : close]}){text[close:]}"
    if "\\" in text:
        raise Malformed("a command that no polynomial has")
    return text.replace("{", "(").replace("}", ")")


def _group(text: str, place: int) -> tuple[str, int]:
    """The argument of a command and where it ends: a group in braces, or one sign."""
    while text[place : place + 1] == " ":
        place += 1
    if text[place : place + 1] != "{":
        if not text[place : place + 1]:
            raise Malformed("a fraction without its parts")
        return text[place], place + 1
    depth = 0
    for end in range(place, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return text[place + 1 : end], end + 1
    raise Malformed("a brace never closes")
