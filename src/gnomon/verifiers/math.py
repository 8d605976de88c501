r"""Mathematical equality: parse the answer, compare its kind, then compare the value of every part."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gnomon.errors import ResourceError
from gnomon.types import Task, Verdict
from gnomon.verifiers.boxes import read_box
from gnomon.verifiers.extract import Extraction
from gnomon.verifiers.mathematics.answer import (
    USUAL,
    Answer,
    Reading,
    normalise,
    option,
    parse_answer,
    readings,
    worded,
    words_of,
)
from gnomon.verifiers.mathematics.calendar import parse_date
from gnomon.verifiers.mathematics.compare import Comparison, Form
from gnomon.verifiers.mathematics.naming import strip_name
from gnomon.verifiers.mathematics.node import Node, key
from gnomon.verifiers.mathematics.question import complete, misses_form, repeats
from gnomon.verifiers.mathematics.words import noun
from gnomon.verifiers.number import Percent, Units
from gnomon.verifiers.slot import Answered, Malformed, Rejected, Several, require_shallow
from gnomon.verifiers.text import strip_marks

__all__ = ["Math"]

LETTER = re.compile(r"\([A-J]\)")
NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class Math(Answered):
    r"""The answer is a number, a formula, or a list of them, in one `\boxed{…}` or `<answer>…</answer>`.

    With the form `reduced`, the answer must be fully evaluated if the reference is: `6 \cdot 7` and `2x + 3x` are
    rejected. An answer that copies a piece of the task's messages is rejected, unless the reference has the same form.

    Brackets decide the kind of a list: `(1, 2)` is ordered; `\{1, 2\}` and `1, 2` are in any order.
    Raises: ResourceError E111 if the package mpmath is not installed.
    """

    units: Units = Units.OPTIONAL
    percent: Percent = Percent.SHARE
    form: Form = Form.REDUCED
    """How an answer must be written: `any`, `reduced` or `exact`."""
    decimals: int = 0
    """Places from which a decimal is accepted for an irrational number, rounded or truncated; 0: never."""

    imports: ClassVar[tuple[str, ...]] = ("mpmath",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "units", Units(self.units))
        object.__setattr__(self, "percent", Percent(self.percent))
        object.__setattr__(self, "form", Form(self.form))
        if importlib.util.find_spec("mpmath") is None:
            fix = 'pip install "gnomon[math]"'
            raise ResourceError("E111", "the verifier Math needs the package mpmath", fix=fix)

    def extract(self, reply: str) -> Extraction:
        return read_box(reply, self.strictness)

    def verify(self, task: Task, reply: str) -> Verdict:
        require_shallow(task.answer)
        question = "\n".join(message.content for message in task.messages if message.role != "assistant")

        def accepts(answer: str) -> bool:
            right = self.accepts(complete(answer, str(task.answer), question), task.answer)
            if right and question and (why := self._ruled_out(answer, str(task.answer), question)):
                raise Rejected(why)
            return right

        return self.judge(reply, accepts)

    def require_gold(self, gold: Any) -> None:
        _gold(gold)  # A text that cannot be parsed is correct if the answer is the same text.

    def accepts(self, answer: str, gold: Any) -> bool:
        answer, reference = strip_marks(answer), _gold(gold)
        if (mine := parse_date(answer)) is not None and (right := parse_date(reference)) is not None:
            return _same_date(mine, right)
        if (right_option := option(reference)) is not None and (answer_option := option(answer)) is not None:
            return self._chosen(answer_option, right_option)
        if right_option is not None and right_option[1]:
            reference = right_option[1]
        problem: Malformed | Rejected | Several | None = None
        for reading in readings(answer, reference):
            try:
                if self._same(answer, reference, reading):
                    return True
            except (Malformed, Rejected, Several) as error:
                problem = error if reading is USUAL else problem
        if problem is not None:
            raise problem
        return False

    def _same(self, answer: str, reference: str, reading: Reading = USUAL) -> bool:
        right = _read_gold(reference, reading)
        if not right.text:  # Only characters that mathematical text cannot contain.
            return words_of(answer) == words_of(reference)
        # Identical text is correct, even if it cannot be parsed.
        if normalise(answer, reading) == right.text:
            return True
        if worded(reference) and words_of(answer) == words_of(reference):
            return True
        parsed = parse_answer(answer, reading)
        if right.node is None or parsed.node is None:
            return False
        return Comparison(self.units, self.percent, self.decimals, self.form).same(parsed.node, right.node)

    def _chosen(self, parsed: tuple[str, str], right: tuple[str, str]) -> bool:
        """Whether two options have the same letter, and the same text where both have one."""
        if parsed[0] != right[0]:
            return False
        if parsed[1] and right[1]:
            return self._same(parsed[1], right[1])
        if parsed[1]:
            node = None if option(parsed[1]) is not None or LETTER.search(parsed[1]) else parse_answer(parsed[1]).node
            if node is None or node.kind == "list" or (node.kind == "words" and not noun(node.text)):
                raise Several("an option and another answer")
        return True

    def _ruled_out(self, answer: str, gold: str, question: str) -> str:
        """Why an answer with the correct value does not answer this question; empty if it does. Options are exempt."""
        if option(gold) is not None:
            return ""
        try:
            parsed, right = parse_answer(answer).node, parse_answer(gold).node
        except (Malformed, Rejected, Several):
            return ""
        if parsed is None or right is None:
            return ""
        mine, theirs = _bare(parsed), _bare(right)
        other = key(mine) != key(theirs) or (mine.kind == "number" and mine.text != theirs.text)
        if other and parsed.kind == right.kind == "quantity" and (number := NUMBER.search(answer)):
            answer = number.group()  # The unit may be written in other words.
        if other and repeats(answer, question):
            return "the answer repeats a piece of the question"
        return "" if self.form is Form.ANY else misses_form(mine, theirs, question)


def _gold(gold: Any) -> str:
    """The task's answer as text. Raises: ValueError if it is not text or a number."""
    if isinstance(gold, bool) or not isinstance(gold, str | int | float | Fraction):
        raise ValueError(f"the task's own answer {gold!r:.100} is not mathematical text")
    text = repr(gold) if isinstance(gold, float) else str(gold)
    if not words_of(text):
        raise ValueError("the task's own answer is empty")
    return text


def _read_gold(text: str, reading: Reading) -> Answer:
    try:
        return parse_answer(text, reading)
    except (Malformed, Rejected, Several):
        pass
    try:
        return Answer(normalise(text, reading), None)
    except Malformed:
        return Answer("", None)


def _same_date(parsed: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether two times or dates are the same. Either may omit a.m./p.m. or the year."""
    if parsed[0] != right[0]:
        return False
    optional = 3 if parsed[0] == "time" else 1
    return all(
        mine == theirs or (i == optional and not (mine and theirs))
        for i, (mine, theirs) in enumerate(zip(parsed, right, strict=True))
    )


def _bare(node: Node) -> Node:
    """The value without its name, its unit and the brackets of a set."""
    node = strip_name(node)[1]
    if node.kind == "quantity":
        return node.parts[0]
    return Node("set", node.parts) if node.kind == "list" else node
