"""The text around an answer in a reply: learnt from correct replies, or tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KNOWN", "Frame", "find_frame", "learnt"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The text before and after an answer."""

    before: str
    after: str

    def put(self, answer: str) -> str:
        return f"{self.before}{answer}{self.after}"

    @property
    def bare(self) -> bool:
        return not self.before.strip() and not self.after.strip()


KNOWN = (
    Frame("<answer>", "</answer>"),
    Frame("\\boxed{", "}"),
    Frame("#### ", ""),
    Frame("The answer is ", "."),
    Frame("[", "]"),
    Frame("", ""),
)
"""Common frames, the most specific first; tried if no correct reply is known."""


def find_frame(reply: str) -> tuple[int, int] | None:
    """Span of the answer in a reply that ends with a specific frame; None without one."""
    for frame in KNOWN[:3]:
        start = reply.rfind(frame.before) + len(frame.before)
        end = (
            len(reply)
            if not frame.after
            else closing(reply, start)
            if frame.after == "}"
            else reply.find(frame.after, start)
        )
        answer = reply[start:end]
        if frame.before in reply and end >= 0 and answer.strip():
            return end - len(answer.lstrip()), start + len(answer.rstrip())
    return None


def closing(text: str, start: int) -> int:
    """Index of the brace that closes the one before `start`; -1 if it is not closed."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return -1


def learnt(places: Sequence[tuple[str, int, int]]) -> Frame:
    """The common frame of correct replies.

    Args: places: reply, and the start and end of the answer in it. At least one.
    """
    pairs = Counter((reply[:start], reply[end:]) for reply, start, end in places)
    (before, after), count = pairs.most_common(1)[0]
    if 2 * count >= len(places):
        return Frame(before, after)
    befores = [reply[:start][::-1] for reply, start, _ in places]
    afters = [reply[end:] for reply, _, end in places]
    return Frame(common_prefix(befores)[::-1], common_prefix(afters))


def common_prefix(texts: Sequence[str]) -> str:
    """The longest common prefix."""
    first, last = min(texts), max(texts)
    end = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:end]
