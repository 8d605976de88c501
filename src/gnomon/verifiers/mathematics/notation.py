r"""Tokenise LaTeX, plain text and mathematical Unicode characters into one notation.

Layout is removed. Characters that an answer never needs are refused, such as invisible characters or letters that look
like others.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from gnomon.verifiers.mathematics.signs import ASCII, GREEK, LAYOUT, RENAMED, SIGNS, SUBSCRIPT, SUPERSCRIPT
from gnomon.verifiers.slot import Malformed

__all__ = ["BASES", "Token", "one_line", "tokens"]

MAX_LENGTH = 1000
"""Characters of an answer."""
MAX_DIGITS = 512
"""Digits of one number."""
MAX_DEPTH = 32
"""Brackets inside one another."""

TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|textnormal|textsf|textup|mbox|hbox|emph)\s*\{")
ROMAN = re.compile(
    r"\\(?:mathrm|underline|mathbf|mathit|mathsf|boldsymbol|bm|operatorname\*?|pmb|vec|overrightarrow|hat)"
    r"(?:\s*\{|\s+(?=[a-zA-Z]))"
)
SPACE = re.compile(r"(?:[ ~\n\t]|\\[,;: ]|\\q?quad(?![a-zA-Z]))")
NUMBER = re.compile(
    r"(?P<digits>[0-9]{1,3}(?:(?P<apart>,|\{,\}|\\,| )[0-9]{3}(?![0-9]))(?:(?P=apart)[0-9]{3}(?![0-9]))*|[0-9]+)?"
    r"(?P<decimals>(?:\.|(?<=[0-9])\{,\})[0-9]*)?"
)
ONE_OR_MORE = r"(?:\{[0-9]+\}|[0-9])"
BEHIND = re.compile(
    # A cycle of repeating digits, an ellipsis, or a power of ten.
    rf"\\(?:overline|bar)\s*{ONE_OR_MORE}|\\dot\s*{ONE_OR_MORE}(?:[0-9]*\\dot\s*{ONE_OR_MORE})?|\([0-9]+\)"
    rf"|{SPACE.pattern}*(?:\.\.\.|\\[lc]?dots(?![a-zA-Z]))|[eE][+-]?[0-9]+(?![0-9a-zA-Z.])"
)
BASED = re.compile(
    r"(?P<bracket>\()?(?P<digits>[0-9][0-9A-Fa-f]*)(?(bracket)\))_"
    r"(?:\{\s*(?:\\(?:text|mathrm)\s*\{)?\s*\(?(?P<base>[0-9]+|[a-z]+)\)?\s*\}{1,2}|(?P<digit>[0-9]))"
)
BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
         "eleven": 11, "twelve": 12, "sixteen": 16}  # fmt: skip
TEXT_DIGITS = re.compile(r"\\(?:text|mathrm)\{([0-9][0-9A-Fa-f]*)\}_")
IN_BASE = re.compile(
    r"(?<![0-9A-Za-z_])(?P<digits>[0-9][0-9A-Fa-f]*)(?: |~|\\[ ,])*(?:\\text\{ *)?\(?(?:in )?base[ -]*(?:\} *)?"
    r"(?P<base>[0-9]+|[a-z]+)\)? *\}?"
)
"""Digits with their base in words: `2516 (base 8)`."""
CHOSEN = re.compile(r"(?:\{\} *)?[_^]\{?([0-9]+)\}? *C *_\{?([0-9]+)\}?")
"""A binomial coefficient such as `_{10}C_3`."""
JOINED = re.compile(r"(?<=[)\]]) *U *(?=[(\[])")
"""The letter U between two intervals."""
RAISED = re.compile(r"\^\{?([0-9]+)\}?/_\{?([0-9]+)\}?")
"""A fraction of small digits."""
RELATION = frozenset(("=", ",", ";", "<", ">", "\\le", "\\ge", "\\in", "\\equiv", "&", "\\\\"))
GROUP_ENDS = (RELATION | set("{(["), RELATION | set("})]"))
"""What ends the left and the right side of `a \\over b`, outside of brackets."""
SINGLE = re.compile(r"\{ ([^ {}]+) \}")
NEGATIVE_SPACE = re.compile(r"(?<!\\)\\!(?: +(?=[0-9]{3}))?")
PIECE = re.compile(
    r"\\begin\s*\{[a-zA-Z]+\*?\}(?:\{[lcr|]*\})?|\\end\s*\{[a-zA-Z]+\*?\}|\\\\(?:\[[^\]]*\])?|\\[a-zA-Z]+|\\.|\*\*|<=|>=|!=|"
    r"\.\.\.|[a-zA-Z]+|.",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """number, based, letters, word (of a text), command, or sign."""
    text: str
    spaced: bool = False
    """Whether white space precedes the token."""


def tokens(text: str, *, thousands: bool = True) -> list[Token]:
    r"""The tokens of an answer.

    Args: thousands: whether `1,234` outside of brackets is one number.
    Raises: Malformed for characters that answers cannot contain, and beyond the limits of this module.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"an answer of over {MAX_LENGTH} characters")
    text = _strip_delimiters(NEGATIVE_SPACE.sub("", _plain(text)).strip())
    text = TEXT_DIGITS.sub(r"\1_", RAISED.sub(r"\\frac{\1}{\2}", text))
    text = JOINED.sub(r"\\cup ", CHOSEN.sub(r"\\binom{\1}{\2}", IN_BASE.sub(r"\g<digits>_{\g<base>}", text)))
    return _with_fractions(_Reader(text, thousands).read())


def one_line(tokens: list[Token]) -> str:
    """The tokens as one line, equal for texts that differ only in layout. Braces around one token are layout."""
    return SINGLE.sub(r"\1", " ".join(token.text for token in tokens))


def _plain(text: str) -> str:
    """The text in ASCII. Raises: Malformed for a character that an answer cannot contain."""
    pieces = list[str]()
    for i, char in enumerate(text):
        before = text[i - 1] if i else ""
        if char in ASCII:
            pieces.append(char)
        elif char in "\n\t\r" or unicodedata.category(char) == "Zs":
            pieces.append(" ")
        elif char in SIGNS:
            pieces.append(SIGNS[char])
        elif char in GREEK:
            pieces.append(f"\\{GREEK[char]} ")
        elif char in SUPERSCRIPT or char in SUBSCRIPT:
            table, sign = (SUPERSCRIPT, "^") if char in SUPERSCRIPT else (SUBSCRIPT, "_")
            if before in table and before:
                pieces[-1] = pieces[-1][:-1] + table[char] + "}"
            else:
                pieces.append(f"{sign}{{{table[char]}}}")
        elif "FRACTION" in unicodedata.name(char, "") and unicodedata.decomposition(char).startswith("<fraction>"):
            top, _, bottom = unicodedata.normalize("NFKC", char).partition("⁄")
            pieces.append(f"\\frac{{{top}}}{{{bottom}}}")
        elif "\uff01" <= char <= "\uff5e" or "\U0001d400" <= char <= "\U0001d7ff":
            pieces.append(_plain(unicodedata.normalize("NFKC", char)))
        else:
            raise Malformed(f"{char!r} is not part of a mathematical answer")
    return "".join(pieces)


def _strip_delimiters(text: str) -> str:
    """The text without formula delimiters and without a final full stop."""
    for opening, closing in (("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]"), ("$", "$")):
        bare = text.rstrip(" .")
        if bare.startswith(opening) and bare.endswith(closing) and len(bare) > len(opening + closing):
            inner = bare[len(opening) : -len(closing)]
            if "$" not in inner.replace("\\$", "") and not inner.endswith("\\"):
                return inner.strip()
    return text


class _Reader:
    """One pass from left to right."""

    def __init__(self, text: str, thousands: bool) -> None:
        self.text, self.thousands = text, thousands
        self.position, self.spaced = 0, False
        self.tokens = list[Token]()
        self.braces = list[str]()
        """The kind of each open brace: group, text or Roman letters."""
        self.brackets = 0

    def read(self) -> list[Token]:
        while self.position < len(self.text):
            if match := SPACE.match(self.text, self.position):
                self.spaced, self.position = True, match.end()
            elif match := TEXT.match(self.text, self.position):
                self.open("text", match)
            elif match := ROMAN.match(self.text, self.position):
                self.open("roman", match)
            elif not self.number():
                self.piece()
        tokens = self.tokens
        while tokens and tokens[-1].text in (".", "\\\\"):
            tokens.pop()
        if any(token.text == "__" for token in tokens):
            raise Malformed("'__' is not part of a mathematical answer")
        return tokens

    def open(self, mode: str, match: re.Match[str]) -> None:
        self.position = match.end()
        if match.group().endswith("{"):
            self.braces.append(mode)
            self.spaced = self.spaced or mode == "text"

    def add(self, kind: str, text: str) -> None:
        self.tokens.append(Token(kind, text, self.spaced))
        self.spaced = False

    def number(self) -> bool:
        """Consume a number if one is next. Returns: whether it was."""
        based = BASED.match(self.text, self.position)
        if based is not None and (number := _with_base(based)):
            self.add("based", number)
            self.position = based.end()
            return True
        match = NUMBER.match(self.text, self.position)
        if match is None or not match.group().strip(".,{}\\ "):
            return False
        text, apart = match.group(), match["apart"]
        self.position = match.end()
        if apart == "," and (self.brackets or not self.thousands):
            text = text[: text.index(",")]  # The comma separates elements.
            self.position = match.start() + len(text)
        elif apart is not None:
            if apart == " " and self.tokens and self.tokens[-1].kind == "number":
                raise Malformed("numbers side by side")
            text = match["digits"].replace(apart, "") + (match["decimals"] or "")
        behind = BEHIND.match(self.text, self.position)
        if behind is not None and ("." in text or behind.group()[0] in "eE"):
            text += behind.group()
            self.position = behind.end()
        if sum(char.isdigit() for char in text) > MAX_DIGITS:
            raise Malformed(f"a number of over {MAX_DIGITS} digits")
        self.add("number", text.replace("{,}", "."))
        return True

    def piece(self) -> None:
        match = PIECE.match(self.text, self.position)
        assert match is not None
        text, self.position = match.group(), match.end()
        mode = next((mode for mode in reversed(self.braces) if mode != "group"), "math")
        if text.startswith("\\\\"):
            text = "\\\\"
        if text == "$" and mode == "text":  # A formula inside of a text.
            return
        text = RENAMED.get(text, text)
        if text in LAYOUT or not text:
            return
        if text == "{":
            self.braces.append("group")
        elif text == "}":
            if not self.braces:
                raise Malformed("a brace closes that never opened")
            if self.braces.pop() != "group":
                self.spaced = self.spaced or mode == "text"
                return
        self.brackets += (text in ("(", "[", "\\{", "\\langle")) - (text in (")", "]", "\\}", "\\rangle"))
        if max(self.brackets, len(self.braces)) > MAX_DEPTH:
            raise Malformed(f"brackets nested over {MAX_DEPTH} deep")
        if text.isalpha() and text.isascii():
            if mode == "math" or (mode == "roman" and len(text) == 1):
                self.add("letters", text)
            else:
                self.add("letters" if mode == "text" and len(text) == 1 and text.isupper() else "word", text)
        elif text.startswith("\\begin") or text.startswith("\\end"):
            self.add("command", re.sub(r"\s|\*|\}\{[lcr|]*(?=\})", "", text))
        else:
            self.add("command" if re.fullmatch(r"\\[a-zA-Z]+", text) else "sign", text)


def _with_fractions(tokens: list[Token]) -> list[Token]:
    r"""The tokens with `a \over b`, which divides all of its group, as `\frac{a}{b}`."""
    places = [middle for middle, token in enumerate(tokens) if token.text == "\\over"]
    if not places:
        return tokens
    middle, around = places[0], [0, len(tokens)]
    for side, step in ((0, -1), (1, 1)):
        depth, at = 0, middle + step
        while 0 <= at < len(tokens) and not (depth == 0 and tokens[at].text in GROUP_ENDS[side]):
            depth += (tokens[at].text in "{([") - (tokens[at].text in "})]")
            if depth == 0 and tokens[at].text == "\\over":
                raise Malformed("two \\over in one group")
            at += step
        around[side] = at + 1 if side == 0 else at
    start, end = around
    opening, closing = Token("sign", "{"), Token("sign", "}")
    parts = [opening, *tokens[start:middle], closing, opening, *tokens[middle + 1 : end], closing]
    return _with_fractions([*tokens[:start], Token("command", "\\frac", tokens[start].spaced), *parts, *tokens[end:]])


def _with_base(match: re.Match[str]) -> str:
    """Digits with their base, `2516_8`; empty if the base does not have these digits."""
    spelled = match["base"] or match["digit"]
    base = int(spelled[:4]) if spelled.isdigit() else BASES.get(spelled, 0)
    digits = match["digits"].upper()
    if not 2 <= base <= 36 or not all(int(digit, 36) < base for digit in digits):
        return ""
    return f"{digits}_{base}"
