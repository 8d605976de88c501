r"""Find the one answer of a mathematical reply: a `\boxed{…}`, or the slot `<answer>…</answer>`."""

from __future__ import annotations

from gnomon.types import Status
from gnomon.verifiers.extract import ANY, FINAL, MAX_SLOT, NEVER_CLOSES, Extraction, Strictness, after_reasoning, slots

__all__ = ["read_box"]

OPENING = "\\boxed{"
CLOSERS = " \t\r\n$.\\)]*"
"""Characters that may follow a box under `trimmed`: the end of a formula, of a sentence or of bold text."""


def read_box(reply: str, strictness: Strictness = Strictness.TRIMMED) -> Extraction:
    r"""The content of the one box or slot of a reply. Accepts every string, in linear time; skips reasoning.

    Several boxes with the same content count as one answer. If a slot contains only a box, the content of the box
    counts. Under `exact` nothing may follow; under `trimmed` only `$`, `\)`, `\]`, `*`, a full stop and white space.
    """
    begin = after_reasoning(reply)
    if begin is None:
        return Extraction(text=None, status=Status.NO_ANSWER, detail=NEVER_CLOSES)
    boxes, unclosed = _boxes(reply, begin)
    answers = _answers(reply, boxes, slots(reply, begin))
    if not answers:
        return Extraction(text=None, status=Status.NO_ANSWER, detail="no \\boxed{…} and no <answer>…</answer>")
    start, end, after = answers[0 if strictness is Strictness.FIRST else -1]
    if len({" ".join(reply[a:b].split()) for a, b, _ in answers}) > 1 and strictness not in ANY:
        detail = f"{len(answers)} answers that differ, one is allowed"
        return Extraction(text=None, status=Status.SEVERAL, span=(start, end), detail=detail)
    if strictness in FINAL and (unclosed > after or reply.find("<answer>", after) >= 0):
        return Extraction(text=None, status=Status.NO_ANSWER, detail="a later answer opens and never closes")
    behind = reply[after:]
    if (strictness is Strictness.EXACT and behind) or (strictness is Strictness.TRIMMED and behind.strip(CLOSERS)):
        return Extraction(text=None, status=Status.OUT_OF_PLACE, span=(start, end), detail="text follows the answer")
    if end - start > MAX_SLOT:
        detail = f"an answer of over {MAX_SLOT} characters"
        return Extraction(text=None, status=Status.MALFORMED, span=(start, end), detail=detail)
    text = reply[start:end]
    start += len(text) - len(text.lstrip())
    if not (text := text.strip()):
        return Extraction(text=None, status=Status.NO_ANSWER, span=(start, end), detail="the answer is empty")
    return Extraction(text=text, span=(start, start + len(text)))


def _answers(reply: str, boxes: list[tuple[int, int, int]], slots: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """For every answer, in order: its start, its end, and the start of the text that follows."""
    answers = []
    i = 0
    for start, end in slots:
        while i < len(boxes) and boxes[i][2] <= start:
            answers.append(boxes[i])
            i += 1
        answer = start, end
        while i < len(boxes) and boxes[i][2] <= end:
            a, b, after = boxes[i]
            if not reply[start : a - len(OPENING)].strip(" \n$") and not reply[after:end].strip(" \n$."):
                answer = a, b
            i += 1
        answers.append((*answer, end + len("</answer>")))
    return answers + boxes[i:]


def _boxes(reply: str, begin: int) -> tuple[list[tuple[int, int, int]], int]:
    r"""Every outermost `\boxed{…}`, and where one begins that never closes and contains the rest; −1 if all close."""
    boxes: list[tuple[int, int, int]] = []
    position = begin
    while (start := reply.find(OPENING, position)) >= 0:
        start += len(OPENING)
        end = _closing(reply, start)
        if end is None:
            return boxes, start
        boxes.append((start, end, end + 1))
        position = end + 1
    return boxes, -1


def _closing(reply: str, start: int) -> int | None:
    """Index of the brace that closes the one opened before `start`. Escaped braces do not count."""
    depth, i = 1, start
    while i < len(reply):
        char = reply[i]
        if char == "\\":
            i += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return i
        i += 1
    return None
