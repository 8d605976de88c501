"""Answers that a question rules out: copies of a piece of it, and answers without the form it asks for."""

from __future__ import annotations

import re
from collections import Counter

from gnomon.verifiers.mathematics.node import Node, walk
from gnomon.verifiers.mathematics.notation import BASES
from gnomon.verifiers.mathematics.signs import GREEK, LAYOUT, RENAMED, SIGNS, SUPERSCRIPT
from gnomon.verifiers.mathematics.value import variables

__all__ = ["complete", "misses_form", "repeats"]

PIECE = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:[.,][0-9]+)*|[a-zA-Z]+|\*\*|[^\s]")
IN_BASE = re.compile(r"[0-9A-Fa-f]+_\{?(?P<base>[0-9]+)\}?")
RESIDUE = re.compile(r"(?:.*\\equiv|.*≡)?(?P<value>.+?)\(? *\\?[pb]?mod *\{? *(?P<modulus>[0-9]+) *\}? *\)?")
SAME = {"\\frac": "/", ":": "/", "to": "/", "over": "/", "plus": "+", "minus": "-", "times": "*"}
EXPAND = re.compile(r"expand|multipl|distribut|simplif", re.I)
FACTOR = re.compile(r"factor", re.I)
SIMPLIFY = re.compile(r"simplif|reduce|cancel", re.I)
MAX_QUESTION = 20_000
"""Characters of a question that are searched."""


def complete(answer: str, gold: str, question: str) -> str:
    """The answer with what it may leave to the question: a base that the question names is added, a modulus removed."""
    plain = answer.strip(" $")
    if (based := IN_BASE.fullmatch(gold.strip(" $"))) and plain.isalnum():
        base = based["base"]
        names = "|".join(name for name, value in BASES.items() if str(value) == base)
        if re.search(rf"base[-\s$]*(?:{base}|{names})\b|_\{{?{base}(?![0-9])", question):
            return f"{plain}_{{{base}}}"
    residue = None if "mod" in gold else RESIDUE.fullmatch(plain)
    if residue and re.search(rf"(?:mod|modulo|divided by)[-\s${{}}]*{residue['modulus']}\b", question):
        return residue["value"]
    return answer


def repeats(answer: str, question: str) -> bool:
    """Whether the symbols of the answer are adjacent in the question, in any order."""
    pieces, question_pieces = _pieces(answer), _pieces(question[:MAX_QUESTION])
    if not pieces or len(pieces) > len(question_pieces):
        return False
    counts, window = Counter(pieces), Counter(question_pieces[: len(pieces)])
    for start in range(len(question_pieces) - len(pieces) + 1):
        if start:
            window[question_pieces[start - 1]] -= 1
            window[question_pieces[start + len(pieces) - 1]] += 1
        if all(window[piece] == count for piece, count in counts.items()):
            return True
    return False


def misses_form(answer: Node, right: Node, question: str) -> str:
    """The form that the question asks for and the answer lacks although the reference has it; empty if none."""
    if EXPAND.search(question) and right.kind == "sum" and _bracketed(answer) and not _bracketed(right):
        return "it is not multiplied out"
    if FACTOR.search(question) and right.kind in ("product", "power") and answer.kind == "sum":
        return "it is not factored"
    if SIMPLIFY.search(question) and _divided(answer) and not _divided(right):
        return "it is not simplified"
    return ""


def _bracketed(node: Node) -> bool:
    """Whether a sum with a variable is multiplied or raised to a power."""
    return any(
        part.kind in ("product", "power") and any(one.kind == "sum" and variables(one) for one in part.parts[:2])
        for part in walk(node)
        if part.kind != "power" or part.parts[0].kind == "sum"
    )


def _divided(node: Node) -> bool:
    """Whether something is divided by a formula with a variable."""
    return any(part.kind == "quotient" and variables(part.parts[1]) for part in walk(node))


def _pieces(text: str) -> list[str]:
    """Normalised symbols, without layout, braces and formula delimiters."""
    for sign, plain in {**SIGNS, **{sign: f"\\{name} " for sign, name in GREEK.items()}}.items():
        text = text.replace(sign, plain)
    text = re.sub(f"[{''.join(SUPERSCRIPT)}]", lambda match: "^" + SUPERSCRIPT[match.group()], text)
    text = re.sub(r"\\[dt]?frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}", text)
    pieces = list[str]()
    for piece in PIECE.findall(text):
        piece = RENAMED.get(piece, piece)
        piece = SAME.get(piece.lower(), piece)
        if piece in LAYOUT or piece in ("{", "}", "$", "\\(", "\\)", "\\[", "\\]", "\\,", "\\ ", "~", ".", ""):
            continue
        whole = piece.startswith("\\") or not piece.isalpha() or len(piece) > 3
        pieces += [piece] if whole else list(piece)
    return pieces
