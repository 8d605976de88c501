r"""The calls of math-verify and of TRL's `accuracy_reward`, with the verifier `Math`.

    from gnomon.integrations.math_verify import parse, verify

    verify(parse("$\\frac{1}{2}$"), parse("So the answer is \\boxed{0.5}."))  # True

They have no timeouts, because every step of `Math` has a limit, and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.verifiers import Malformed, Math, Rejected, Several, Strictness
from gnomon.verifiers.boxes import read_box
from gnomon.verifiers.mathematics.answer import parse_answer

__all__ = ["accuracy_reward", "parse", "verify"]


def parse(text: str) -> list[str]:
    r"""The answer of a text: the last `\boxed{…}` or `<answer>…</answer>`, else the whole text if it is an answer.

    Returns: one text, or an empty list if there is no answer.
    """
    if (extraction := read_box(text, Strictness.LAST)).text is not None:
        return [extraction.text]
    try:
        return [] if "\\boxed" in text or parse_answer(text).node is None else [text]
    except (Malformed, Rejected, Several):
        return []


def verify(gold: str | Sequence[str], target: str | Sequence[str], **options: Any) -> bool:
    """Whether an answer equals the gold. Each is a text, or what `parse` returned; the gold is first.

    Args: options: of `Math`; the form is `any` by default.
    """
    math = Math(**{"form": "any", **options})
    golds, targets = ([one] if isinstance(one, str) else one for one in (gold, target))
    return any(_accepts(math, mine, right) for right in golds for mine in targets)


def accuracy_reward(completions: Sequence[Any], solution: Sequence[str], **columns: Any) -> list[float | None]:
    """1.0 for every completion whose answer equals its solution, else 0.0; None if a solution has no answer.

    Args:
        completions: texts, or lists of messages, of which the last counts.
        columns: the other columns that TRL passes; they are ignored.
    """
    texts = [reply if isinstance(reply, str) else reply[-1]["content"] for reply in completions]
    golds = [parse(text) for text in solution]
    return [float(verify(gold, parse(text))) if gold else None for text, gold in zip(texts, golds, strict=True)]


def _accepts(math: Math, answer: str, gold: str) -> bool:
    try:
        return math.accepts(answer, gold)
    except (Malformed, Rejected, Several):
        return False
