"""Multiple choice from the rows of a data set, such as ARC, MMLU or CommonsenseQA."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from gnomon.envs.base import SLOT, identity
from gnomon.envs.dataset import Dataset
from gnomon.envs.messages import text_of
from gnomon.envs.row_checks import question
from gnomon.envs.rows import Row
from gnomon.types import Task, Verdict
from gnomon.verifiers import Choice
from gnomon.verifiers.choice import LETTERS, choice
from gnomon.verifiers.text import Rule, normal

__all__ = ["ChoiceRows", "Gold"]


class Gold(StrEnum):
    """What the reference answer of a row is."""

    ANY = "any"
    """Its label, its text or its index from 0, if all that apply are the same option. An integer is an index."""
    LABEL = "label"
    """Its label; A, B, C, … if the data set has no labels."""
    INDEX = "index"
    """Its place, counted from 0."""
    NUMBER = "number"
    """Its place, counted from 1."""
    TEXT = "text"
    """Its text."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChoiceRows(Dataset):
    """Every row has options, shown as A) B) C). A right reply names the letter or the text of the right one."""

    path: str = "allenai/ai2_arc"
    prompt: str = "question"
    answer: str = "answerKey"
    """Column of the right option: its label, its text or its index from 0, as `gold` says."""
    choices: str = "choices"
    """Column of the options: a list of texts, or texts with labels as `{"label": ["A", …], "text": ["red", …]}` or as
    `[{"label": "A", "text": "red"}, …]`; in a CSV file the JSON of it. Or the columns of single options, separated by
    commas; these are shown in an order drawn from their texts."""
    gold_is: Gold = Gold.ANY
    """What the column `answer` contains: `any`, `label`, `index` (from 0), `number` (from 1) or `text`."""
    template: str = "{prompt}\n{choices}\n" + SLOT
    other_readings: ClassVar[tuple[dict[str, Any], ...]] = tuple({"gold_is": kind.value} for kind in Gold)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gold_is", Gold(self.gold_is))

    def task(self, index: int, row: Row) -> Task:
        texts, task = self.options_of(row)[1], super().task(index, row)
        choices = "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, texts, strict=False))
        last = task.messages[-1]
        messages = replace(last, content=last.content.replace("{choices}", choices))
        name = identity("choice", question(self.question_messages(row)), texts, task.answer)
        return Task(
            id=task.id if self.id else name, messages=(*task.messages[:-1], messages), answer=task.answer,
            info={**task.info, "options": texts},
        )  # fmt: skip

    def gold(self, row: Row, index: int) -> str:
        """The letter of the right option. Raises: ValueError if the row does not say which it is."""
        labels, texts = self.options_of(row)
        gold = self.column(row, self.answer, index)
        gold = gold.tolist() if callable(getattr(gold, "tolist", None)) else gold
        meanings = self.options_meant(gold, labels, texts)
        if len(set(meanings.values())) == 1:
            return LETTERS[next(iter(meanings.values()))]
        if meanings:
            readings = " and ".join(f"the {kind} of {texts[option]!r:.40}" for kind, option in meanings.items())
            raise ValueError(f"the answer {gold!r:.60} is {readings}; env.gold_is says which is meant")
        what = "label, text or index from 0" if self.gold_is is Gold.ANY else self.gold_is.value
        raise ValueError(f"the answer {gold!r:.60} is not the {what} of one of the {len(texts)} options")

    def options_meant(self, gold: Any, labels: list[str], texts: tuple[str, ...]) -> dict[str, int]:
        """The options that a reference answer names, by what it is of them."""
        text = str(gold).strip()
        index = int(text) if text.isascii() and text.isdigit() and not isinstance(gold, bool) else -1
        numbered = labels[0].isdigit()
        indices = {
            "label": [i for i, label in enumerate(labels) if label.casefold() == text.casefold()],
            "text": [i for i, option in enumerate(texts) if plain(option) == plain(text)],
            "index": [index] if 0 <= index < len(texts) and not numbered else [],
        }
        if self.gold_is is Gold.NUMBER:
            return {"number": index - 1} if 1 <= index <= len(texts) else {}
        if self.gold_is is Gold.INDEX:
            return {"index": index} if 0 <= index < len(texts) else {}
        kinds = indices.keys() if self.gold_is is Gold.ANY else {self.gold_is.value}
        if self.gold_is is Gold.ANY and isinstance(gold, int) and not numbered:
            kinds = {"index"}
        return {kind: indices[kind][0] for kind in sorted(kinds) if len(indices[kind]) == 1}

    def options_of(self, row: Row) -> tuple[list[str], tuple[str, ...]]:
        """Labels and texts of the options of a row. Raises: ValueError if it has none."""
        value = row.get(self.choices)
        if value is None and "," in self.choices:
            options = [str(self.column(row, name.strip(), 0)) for name in self.choices.split(",")]
            value = sorted(options, key=lambda text: identity("option", row[self.prompt], text))
        if value is None:
            raise ValueError(f"there is no column {self.choices!r} of options; the columns are {', '.join(row)}")
        value = value.tolist() if callable(getattr(value, "tolist", None)) else value
        if isinstance(value, str):
            value = parse(value)
        if isinstance(value, Mapping):
            value = [{"label": label, "text": text} for label, text in zip(*columns(value), strict=True)]
        each = [option if isinstance(option, Mapping) else {"text": option} for option in value]
        texts = tuple(text_of(option.get("text")).strip() for option in each)
        if not 2 <= len(texts) <= len(LETTERS) or len({plain(text) for text in texts} - {""}) < len(texts):
            raise ValueError(f"the options {texts!r:.100} must be 2 to {len(LETTERS)} different texts")
        return [str(option.get("label", letter)) for option, letter in zip(each, LETTERS, strict=False)], texts

    def require_gold(self, gold: Any) -> None:
        """`gold` has read it."""

    def verify(self, task: Task, reply: str) -> Verdict:
        judge = Choice(strictness=self.strictness, correct=self.correct, format=self.format, gate=self.gate)
        return judge.verify(task, reply)

    def check(self, task: Task, answer: str) -> float:
        return float(choice(answer, task.info["options"]) == LETTERS.index(task.answer))

    def solution(self, task: Task) -> str:
        return str(task.answer)


def parse(text: str) -> Any:
    """The options from JSON. Raises: ValueError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the options {text!r:.60} must be a list of texts, or the JSON of one") from error
    if not isinstance(value, list | Mapping):
        raise ValueError(f"the options {text!r:.60} must be a list of texts")
    return value


def columns(value: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Labels and texts from a mapping of both. Raises: ValueError."""
    texts = value.get("text")
    if texts is None or len(texts) != len(labels := value.get("label", LETTERS[: len(texts)])):
        raise ValueError(f"the options have the keys {', '.join(map(str, value))} and must have label and text")
    return list(labels), list(texts)


def plain(text: str) -> str:
    """A text as options are compared."""
    return normal(text, (Rule.NFKC, Rule.CASE, Rule.SPACES))
