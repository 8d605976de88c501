"""A data set as an environment: a mapping of its columns, and a shipped verifier."""

from __future__ import annotations

import importlib
import json
import operator
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon.envs.base import SLOT, SPLITS, SingleTurn, identity, solved, split_of, user
from gnomon.envs.rows import Row, content_hash, is_file, located, read, stamp
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import Answered

__all__ = ["Dataset", "Rows"]


@dataclass(frozen=True, kw_only=True)
class Dataset(SingleTurn):
    """Questions and answers from a file or a hub data set. `seed` decides the order of the rows in a split.

    Held-out rows are those of `test`, or those with "test" in the column `split`, or else an eighth of the rows, by
    the hash of the question. A question that is in both splits is refused.
    """

    path: str = "questions"
    """`file.jsonl`, `file.parquet`, a folder in the hub's format, owner/name on the hub, or `questions` (ships)."""
    config: str = ""
    """Configuration (subset) of a hub data set; empty for its default."""
    revision: str = ""
    """Commit, tag or branch of a hub data set; empty for the newest."""
    train: str = ""
    """Split of a hub data set with the train rows; empty for `train` or the only split."""
    test: str = ""
    """Source of the held-out rows: a path, or a split of a hub data set. If empty, they come from `path`."""
    prompt: str = "prompt"
    """Column of the question: a text, or a list of messages with `role` and `content`."""
    answer: str = "answer"
    """Column of the reference answer for the verifier; a list if several answers are correct."""
    id: str = ""
    """Column of the row's id; if empty, the id is a hash of the content."""
    split: str = ""
    """Column that says `train` or `test`."""
    template: str = "{prompt} " + SLOT
    """The prompt, with the question inserted."""
    after: str = ""
    """Marker such as `####`. The reference answer is the text after its last occurrence in the column."""
    verifier: str = "text"
    """Name of a module of `gnomon.verifiers`, or `package.module:Class`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 that the rows of a hub data set must have, by option: `path`, `test`. A run on a hub data set records
    them in its manifest, under `data`. Empty accepts any rows."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the verifier."""
    rows: tuple[int, ...] = ()
    """Train rows to keep, by index from 0 in the file; empty keeps all."""
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Train rows to keep, by column and the values allowed in it, such as `{level = [3, 4, 5]}`; empty keeps all."""
    ranked: str = ""
    """A file of `gnomon rank`. The train rows are those of the file, in its order."""
    first: int = 0
    """Number of train rows to keep from the start; 0 keeps all."""
    repeat: int = 1
    """Number of times the train rows are repeated. One row repeated many times is one-shot training."""
    format: float = 0.0

    @property
    def contents(self) -> dict[str, str]:
        """SHA-256 of the rows from a hub data set, by option."""
        if is_file(located(self.path)) or Path(self.path).is_dir():
            return {}
        named = {"path": self.rows_of(self.train)}
        if self.test and not is_file(self.test):
            named["test"] = self.rows_of(self.test)
        return {option: content_hash(rows) for option, rows in named.items()}

    @property
    def remarks(self) -> list[str]:
        """Remarks on the rows for the user, shown before a run; one sentence each."""
        return [sentence for split in SPLITS for sentence in repeated(self, split)]

    def rows_of(self, split: str) -> tuple[Row, ...]:
        """The rows of `path`, or of one split if it has several."""
        return read(self.path, split, self.config, self.revision)

    @property
    def files(self) -> dict[str, str]:
        """The sources of the rows, by option: files, or a folder in the hub's format."""
        named = {"path": located(self.path), "test": self.test, "ranked": self.ranked}
        return {option: path for option, path in named.items() if path and (is_file(path) or Path(path).is_dir())}

    def make(self, rng: random.Random) -> Task:
        raise NotImplementedError("the tasks of a data set are its rows")

    def tasks(self, split: str) -> Rows:  # type: ignore[override]
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {SPLITS}")
        judge_of(self)
        if self.sha256:
            refuse_other_rows(self)
        stamps = [stamp(path) for path in (self.path, self.test, self.ranked) if is_file(path)]
        return rows_of(self, split, tuple(stamps))

    def __hash__(self) -> int:
        return hash(repr(self))

    def check(self, task: Task, answer: str) -> float:
        return judge_of(self).accepts(answer, task.answer)

    def verify(self, task: Task, reply: str) -> Verdict:
        return judge_of(self).verify(task, reply)

    def solution(self, task: Task) -> str:
        return str(task.answer[0] if isinstance(task.answer, list) else task.answer)

    def preview(self, split: str = "train", index: int = 0) -> str:
        """The prompt of a task as plain text, one message per line."""
        return "".join(message.content + "\n" for message in self.tasks(split)[index].messages)

    def task(self, place: int, row: Row) -> Task:
        """The task of a row. Raises: ConfigError E153 for a missing column."""
        asked, gold = self.column(row, self.prompt, place), self.gold(row, place)
        written = messages_of(asked)
        messages = (*written[:-1], *user(self.template.replace("{prompt}", written[-1].content)))
        own = str(self.column(row, self.id, place)) if self.id else identity("dataset", question(written), gold)
        return Task(id=own, messages=messages, answer=gold, info={"row": place})

    def worded(self, task: Task) -> Task:
        # `task` has inserted the question into the template.
        return replace(task, messages=self.hinted(task.messages))

    def gold(self, row: Row, place: int) -> str | list[str]:
        """The reference answer or answers of a row."""
        gold = self.column(row, self.answer, place)
        if self.after and isinstance(gold, str):
            gold = gold.rpartition(self.after)[2].strip()
        return [str(each) for each in gold] if isinstance(gold, list | tuple) else str(gold)

    def column(self, row: Row, name: str, place: int) -> Any:
        if row.get(name) is None:
            raise ConfigError(
                "E153", f"the data set has no column {name!r}", where=f"{self.path}, row {place}",
                why=f"its columns are {', '.join(row)}", fix="env.prompt=COLUMN env.answer=COLUMN",
            )  # fmt: skip
        return row[name]


@lru_cache(maxsize=8)
def rows_of(env: Dataset, split: str, stamps: tuple[tuple[int, int], ...]) -> Rows:
    """The rows of a split, cached. Args: stamps, of the source files, so that changed files are read again."""
    return Rows(env, split)


class Rows(Sequence[Task]):
    """The tasks of one split of a data set, in the order drawn by its seed."""

    def __init__(self, env: Dataset, split: str) -> None:
        parts = divided(env)
        refuse_overlap(env, parts)
        refuse_unmarked(env, parts)
        rows = parts[split]
        if split == "train":
            rows = chosen(env, rows)
        if not (env.ranked and split == "train"):
            Key(env.seed).at("dataset", split=split).random().shuffle(rows)
        if not rows:
            raise ConfigError("E155", f"the data set has no {split} rows", where=env.path, fix="env.test=FILE")
        self.env, self.split, self.rows = env, split, rows[: env.first or None] if split == "train" else rows
        self.size = len(self.rows) * (env.repeat if split == "train" else 1)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise IndexError(index)
        task = self.plain(index)
        if not self.env.shots:
            return task
        train = self if self.split == "train" else self.env.tasks("train")
        every = (train.plain(place) for place in range(len(train.rows)))
        examples = list(islice((example for example in every if example.id != task.id), self.env.shots))
        return replace(task, messages=(*solved(self.env, examples), *task.messages))

    def plain(self, index: int) -> Task:
        """A task without examples before it."""
        return self.env.worded(self.env.task(*self.rows[index % len(self.rows)]))


Placed = list[tuple[int, Row]]
"""Rows, each with its index in its file."""


def divided(env: Dataset) -> dict[str, Placed]:
    """The rows of both splits, in the order of their files."""
    rows = list(enumerate(env.rows_of(env.train)))
    refuse_without(env, rows)
    if env.test:
        named = not is_file(env.path) and not is_file(env.test)
        held_out = list(enumerate(env.rows_of(env.test) if named else read(env.test)))
        refuse_without(env, held_out)
        return {"train": rows, "test": held_out}
    found: dict[str, Placed] = {name: [] for name in SPLITS}
    for place, row in rows:
        stated = env.column(row, env.split, place) if env.split else None
        if stated is not None and stated not in SPLITS:
            why = f"the column {env.split!r} is {stated!r} and must be train or test"
            raise ConfigError("E154", "a row belongs to no split", where=f"{env.path}, row {place}", why=why)
        asked = messages_of(env.column(row, env.prompt, place))
        found[stated or split_of(identity(question(asked)))].append((place, row))
    return found


def refuse_other_rows(env: Dataset) -> None:
    """Raises: ConfigError E164 for rows whose hash is not that of `sha256`."""
    for option, known in env.sha256.items():
        found = content_hash(env.rows_of(env.test if option == "test" else env.train))
        if found != known:
            raise ConfigError(
                "E164", f"the rows of {option} do not have the hash that env.sha256 states", where=env.path,
                why=f"their SHA-256 is {found}",
                fix="set env.revision to the commit that had these rows, or change env.sha256",
            )  # fmt: skip


def refuse_without(env: Dataset, rows: Placed) -> None:
    """Raises: ConfigError E153, with row numbers, if rows are empty in a required column."""
    for name in filter(None, (env.prompt, env.answer, env.id)):
        if missing := [place for place, row in rows if row.get(name) is None or row[name] == []]:
            columns = dict.fromkeys(column for _, row in rows for column in row)
            raise ConfigError(
                "E153", f"the column {name!r} is empty in {numbered(missing)} of {len(rows)}", where=env.path,
                why=f"the columns of the data set are {', '.join(columns)}", fix="env.prompt=COLUMN env.answer=COLUMN",
            )  # fmt: skip


def refuse_unmarked(env: Dataset, parts: Mapping[str, Placed]) -> None:
    """Raises: ConfigError E153, with row numbers, if answers lack the marker `after`."""
    for split, rows in parts.items():
        texts = [(place, row[env.answer]) for place, row in rows if env.after and isinstance(row[env.answer], str)]
        for problem, missing in (
            (f"have no {env.after!r} in {env.answer!r}", [place for place, text in texts if env.after not in text]),
            (
                f"have nothing after {env.after!r} in {env.answer!r}",
                [place for place, text in texts if not text.rpartition(env.after)[2].strip()],
            ),
        ):
            if missing:
                raise ConfigError(
                    "E153", f"{numbered(missing)} of the {split} split {problem}", where=env.path,
                    why="env.after marks the start of the reference answer", fix="correct these rows, or env.after=''",
                )  # fmt: skip


def repeated(env: Dataset, split: str) -> Iterator[str]:
    """Sentences on questions that occur more than once in a split, with the numbers of the rows."""
    asked: dict[str, Placed] = {}
    for place, row in divided(env)[split]:
        asked.setdefault(question(messages_of(env.column(row, env.prompt, place))), []).append((place, row))
    several = [rows for rows in asked.values() if len(rows) > 1]
    apart = [rows for rows in several if len({repr(env.gold(row, place)) for place, row in rows}) > 1]
    for found, what in (
        (apart, "with different answers"),
        ([rows for rows in several if rows not in apart], "with the same answer"),
    ):
        if found:
            shown = "; ".join(" = ".join(str(place) for place, _ in rows[:4]) for rows in found[:5])
            more = f", and {len(found) - 5} more" if len(found) > 5 else ""
            yield f"The {split} split repeats {len(found)} question{'s' * (len(found) > 1)} {what}: rows {shown}{more}."


def numbered(places: Sequence[int]) -> str:
    """Rows by their numbers."""
    shown = ", ".join(map(str, places[:10])) + (f" and {len(places) - 10} more" if len(places) > 10 else "")
    return f"row{'s' if len(places) > 1 else ''} {shown}"


def refuse_overlap(env: Dataset, parts: Mapping[str, Placed]) -> None:
    """Raises: ConfigError E151, with row numbers, if a question is in both splits."""
    asked = {
        split: [(identity(question(messages_of(env.column(row, env.prompt, place)))), place) for place, row in rows]
        for split, rows in parts.items()
    }
    train = dict(reversed(asked["train"]))
    if both := [(train[name], place) for name, place in asked["test"] if name in train]:
        shown = ", ".join(f"train row {a} = test row {b}" for a, b in both[:10])
        more = f", and {len(both) - 10} more" if len(both) > 10 else ""
        raise ConfigError(
            "E151", f"{len(both)} held-out questions are also train questions", where=env.path, why=shown + more,
            fix="remove these rows from one split; a score on questions from training does not measure generalisation",
        )  # fmt: skip


def chosen(env: Dataset, rows: Placed) -> Placed:
    """The train rows selected by the options. Raises: ConfigError E155 for a row that does not exist."""
    if env.rows:
        there = dict(rows)
        if missing := [place for place in env.rows if place not in there]:
            why = f"{env.path} has {len(rows)} train rows"
            raise ConfigError("E155", f"train row {missing[0]} does not exist", where="env.rows", why=why)
        rows = [(place, there[place]) for place in env.rows]
    for name, values in env.where.items():
        rows = [(place, row) for place, row in rows if env.column(row, name, place) in values]
        if not rows:
            why = f"no train row has one of the values {', '.join(map(repr, values))} in the column {name!r}"
            raise ConfigError("E155", "the data set has no train rows", where="env.where", why=why)
    if env.ranked:
        by_id = {env.task(place, row).id: (place, row) for place, row in rows}
        rows = [by_id[name] for name in ranking(env.ranked) if name in by_id]
        if not rows:
            raise ConfigError(
                "E155", "no row of the data set is in the ranking", where=env.ranked, fix="gnomon rank RUN --out FILE"
            )
    return rows


def ranking(path: str) -> list[str]:
    """The ids of a file of `gnomon rank`, best first."""
    try:
        return [str(entry["id"]) for entry in json.loads(Path(path).read_text("utf-8"))["tasks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "E152", "the ranking cannot be read", where=path, why=why, fix="gnomon rank RUN --out FILE"
        ) from error


def messages_of(asked: Any) -> tuple[Message, ...]:
    """A question as messages. The last one is the question itself."""
    if isinstance(asked, list | tuple) and asked:
        return tuple(Message(role=str(m["role"]), content=str(m["content"])) for m in asked)
    return (Message(role="user", content=str(asked)),)


def question(messages: Sequence[Message]) -> str:
    """The words of a question, without case and spacing. Equal texts are the same question."""
    return "\n".join(" ".join(message.content.casefold().split()) for message in messages)


def judge_of(env: Dataset) -> Answered:
    """The verifier of a data set. Raises: ConfigError E156 if no verifier has that name."""
    options = tuple(sorted((key, tuple(v) if isinstance(v, list) else v) for key, v in env.options.items()))
    slot = (("strictness", env.strictness), ("correct", env.correct), ("format", env.format), ("gate", env.gate))
    return built(env.verifier, (*slot, *options))


@lru_cache(maxsize=64)
def built(name: str, options: tuple[tuple[str, Any], ...]) -> Answered:
    module, colon, kind = name.partition(":")
    if not colon:
        module, kind = f"gnomon.verifiers.{name}", name.title().replace("_", "")
    try:
        verifier = getattr(importlib.import_module(module), kind)(**dict(options))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "E156", f"the verifier {name!r} cannot be made", where="env.verifier", why=why, fix="env.verifier=text"
        ) from error
    if not isinstance(verifier, Answered):
        why = "it does not compare an answer slot with a reference answer"
        raise ConfigError("E156", f"{name!r} cannot judge a data set", where="env.verifier", why=why)
    return verifier
