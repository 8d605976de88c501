"""A data set as an environment: a mapping of its columns, and a shipped verifier."""

from __future__ import annotations

import difflib
import importlib
import json
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from gnomon import verifiers
from gnomon.envs.agent import CALLS, AgentEpisode, End, Launch, launch_of, over
from gnomon.envs.base import SLOT, SPLITS, Episode, SingleTurn, identity, split_of, with_examples
from gnomon.envs.golds import reference, refuse_unreadable, require_earnable
from gnomon.envs.messages import images_of, messages_of
from gnomon.envs.row_checks import (
    Placed,
    compared_as_text,
    double_formats,
    question,
    questions,
    refuse_empty,
    refuse_other_rows,
    refuse_overlap,
    refuse_unmarked,
    repetitions,
)
from gnomon.envs.rows import Row, content_hash, is_file, locate, read_rows, stamp
from gnomon.envs.wording import EXAMPLE
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import Answered

__all__ = ["EVERY", "Dataset", "Rows"]

EVERY = "*"
"""Value of `test` for a data set whose rows are all held out."""


@dataclass(frozen=True, kw_only=True)
class Dataset(SingleTurn):
    """Questions and answers from a file or a hub data set. `seed` decides the order of the rows in a split.

    Held-out rows are those of `test`, or those with "test" in the column `split`, or else an eighth of the rows, by
    the hash of the question; of two or more questions, at least one is in each split. A question that is in both splits
    is refused.
    """

    path: str = "questions"
    """A file (.jsonl, .json, .csv, .tsv, also compressed as .gz, or .parquet), a folder in the hub's format, owner/name
    on the hub, or `questions` (ships)."""
    config: str = ""
    """Configuration (subset) of a hub data set; empty for its default."""
    revision: str = ""
    """Commit, tag or branch of a hub data set; empty for the newest."""
    train: str = ""
    """Split of a hub data set with the train rows; empty for `train` or the only split."""
    test: str = ""
    """Source of the held-out rows: a path, or a split of a hub data set. If empty, they come from `path`. `*` holds out
    every row of `path`, so that the data set can only be evaluated."""
    prompt: str = "prompt"
    """Column of the question: a text, or a list of messages with `role` and `content`."""
    answer: str = "answer"
    """Column of the reference answer for the verifier; a list if several answers are correct."""
    image: str = ""
    """Column of the question's image: the name of a PNG or JPEG file, relative to the folder of `path`, its bytes, or a
    list of these. A question that is a list of messages may also have images as parts of their contents."""
    id: str = ""
    """Column of the row's id; if empty, the id is a hash of the content."""
    split: str = ""
    """Column that says `train` or `test`."""
    template: str = "{prompt} " + SLOT
    """The prompt, with the question inserted. The answer format is left out for a row whose own messages show it."""
    after: str = ""
    """Marker such as `####`. The reference answer is the text after its last occurrence in the column."""
    verifier: str = "text"
    """`text`, `number`, `math`, `sets`, `pattern`, `polynomial`, `schema`, or `package.module:Class`."""
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
    agent: str = ""
    """Command of a program that plays every row and calls the policy over HTTP, such as `python agent.py`. What it
    prints is judged. Empty: the policy replies itself."""
    format: float = 0.0
    other_readings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Options under which other reference answers can be read, for the fix of an error."""

    @property
    def contents(self) -> dict[str, str]:
        """SHA-256 of the rows from a hub data set, by option."""
        if is_file(locate(self.path)) or Path(self.path).is_dir():
            return {}
        sources = {"path": self.rows_of(self.train)}
        if self.apart and not is_file(self.test):
            sources["test"] = self.rows_of(self.test)
        return {option: content_hash(rows) for option, rows in sources.items()}

    @property
    def remarks(self) -> list[str]:
        """Remarks on the rows for the user, shown before a run; one sentence each.

        Raises: ConfigError E151 for a data set that can only be evaluated.
        """
        if self.test == EVERY:
            raise ConfigError(
                "E151", "every held-out question is also a train question", where="env.test",
                why="env.test='*' holds out every row, so no row is left to train on", fix="env.test=''",
            )  # fmt: skip
        rows = check_rows(self, self.stamps)
        again = (sentence for split in SPLITS for sentence in repetitions(self, split, rows[split]))
        return [*double_formats(self, self.tasks("train")[0]), *compared_as_text(self, rows["train"]), *again]

    def rows_of(self, split: str) -> tuple[Row, ...]:
        """The rows of `path`, or of one split if it has several."""
        return read_rows(self.path, split, self.config, self.revision)

    @property
    def apart(self) -> bool:
        """Whether the held-out rows have a source of their own."""
        return self.test not in ("", EVERY)

    @property
    def files(self) -> dict[str, str]:
        """The sources of the rows, by option: files, or a folder in the hub's format."""
        sources = {"path": locate(self.path), "test": self.test, "ranked": self.ranked}
        return {option: path for option, path in sources.items() if path and (is_file(path) or Path(path).is_dir())}

    @property
    def stamps(self) -> tuple[tuple[int, int], ...]:
        """Modification time and size of the source files."""
        return tuple(stamp(path) for path in (self.path, self.test, self.ranked) if is_file(path))

    def source(self, split: str) -> str:
        """Where the rows of a split come from, for an error."""
        if split == "train" or not self.apart:
            return self.path
        return self.test if is_file(self.test) else f"{self.path}, split {self.test}"

    def make(self, rng: random.Random) -> Task:
        raise NotImplementedError("the tasks of a data set are its rows")

    @property
    def max_turns(self) -> int:
        return CALLS if self.agent else 1

    @property
    def isolation(self) -> tuple[str, ...]:
        return ("session",) if self.agent else ()

    def start(self, task: Task, key: Key) -> Episode:  # type: ignore[override]
        if self.launch is None:
            return super().start(task, key)
        return AgentEpisode(task, self.launch(task), lambda end: self._end_verdict(task, end))

    @property
    def launch(self) -> Callable[[Task], Launch] | None:
        """Returns the program of a task; None if the policy replies itself."""
        return partial(launch_of, self.agent) if self.agent else None

    def _end_verdict(self, task: Task, end: End) -> Verdict:
        return over(end, self.reward_range) if end.limit else self.verify(task, end.output)

    def tasks(self, split: str) -> Rows:  # type: ignore[override]
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {SPLITS}")
        judge_of(self)
        if self.sha256:
            refuse_other_rows(self)
        return rows_of(self, split, self.stamps)

    def __hash__(self) -> int:
        return hash(repr(self))

    def check(self, task: Task, answer: str) -> float:
        return judge_of(self).accepts(answer, task.answer)

    def verify(self, task: Task, reply: str) -> Verdict:
        return judge_of(self).verify(task, reply)

    def solution(self, task: Task) -> str:
        return judge_of(self).correct_text(task.answer)

    def preview(self, split: str = "train", index: int = 0) -> str:
        """The prompt of a task as plain text, one message per line."""
        return "".join(message.content + "\n" for message in self.tasks(split)[index].messages)

    def task(self, index: int, row: Row) -> Task:
        """The task of a row. Raises: ConfigError E153 for a missing column."""
        self.column(row, self.prompt, index)
        row_messages, gold = self.question_messages(row, f"{self.path}, row {index}"), self.gold(row, index)
        # A row that shows the answer format itself needs no second one.
        has_format = any(self.frame[0] in message.content for message in row_messages if message.role != "assistant")
        template = EXAMPLE.sub("", self.template) if has_format else self.template
        messages = (
            *row_messages[:-1],
            replace(row_messages[-1], content=template.replace("{prompt}", row_messages[-1].content)),
        )
        own = str(self.column(row, self.id, index)) if self.id else identity("dataset", question(row_messages), gold)
        return Task(id=own, messages=messages, answer=gold, info={"row": index})

    def question_messages(self, row: Row, where: str = "") -> tuple[Message, ...]:
        """The question of a row. Args: where: it stands. Raises: as `messages_of` and `images_of`."""
        path = Path(locate(self.path))
        folder = path if path.is_dir() else path.parent
        messages = messages_of(row[self.prompt], folder, where)
        if not self.image:
            return messages
        images = images_of(row[self.image], folder, where)
        return (*messages[:-1], replace(messages[-1], images=(*messages[-1].images, *images)))

    def word(self, task: Task) -> Task:
        # `task` has inserted the question into the template.
        return replace(task, messages=self.without_hint(task.messages))

    def gold(self, row: Row, index: int) -> Any:
        """The reference answer or answers of a row. Raises: ValueError for a missing value."""
        gold = self.column(row, self.answer, index)
        if self.after and isinstance(gold, str):
            gold = gold.rpartition(self.after)[2].strip()
        return reference(gold)

    def require_gold(self, gold: Any) -> None:
        """See that the verifier can read a reference answer. Raises: ValueError, or what the verifier raises."""
        verifier = judge_of(self)
        verifier.require_gold(gold)
        require_earnable(self, verifier.correct_text(gold))

    def column(self, row: Row, name: str, index: int) -> Any:
        if row.get(name) is None:
            what = f"the column {name!r} is empty" if name in row else f"the data set has no column {name!r}"
            raise ConfigError(
                "E153", what, where=f"{self.path}, row {index}", why=f"its columns are {', '.join(row)}",
                fix="name one of these columns, or fill it in this row",
            )  # fmt: skip
        return row[name]


@lru_cache(maxsize=8)
def rows_of(env: Dataset, split: str, stamps: tuple[tuple[int, int], ...]) -> Rows:
    """The rows of a split, cached. Args: stamps, of the source files, so that changed files are read again."""
    return Rows(env, split)


class Rows(Sequence[Task]):
    """The tasks of one split of a data set, in the order drawn by its seed."""

    def __init__(self, env: Dataset, split: str) -> None:
        rows = list(check_rows(env, env.stamps)[split])
        if not (env.ranked and split == "train"):
            Key(env.seed).at("dataset", split=split).random().shuffle(rows)
        if not rows:
            raise no_rows(env, split)
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
        every = (train.plain(i) for i in range(len(train.rows)))
        examples = list(islice((example for example in every if example.id != task.id), self.env.shots))
        return with_examples(self.env, task, examples)

    def plain(self, index: int) -> Task:
        """A task without examples before it."""
        return self.env.word(self.env.task(*self.rows[index % len(self.rows)]))


def no_rows(env: Dataset, split: str) -> ConfigError:
    """Error E155 for a split without rows."""
    rows = list(enumerate(env.rows_of(env.train)))
    why = "the file has no rows"
    if rows and not env.test:
        count = len(set(questions(env, env.path, rows)))
        reason = f"no row has {split!r} in the column {env.split!r}" if env.split else "each split needs a question"
        why = f"rows: {len(rows)}, different questions: {count}; {reason}"
    fix = "add questions, or name a file of others to hold out: env.test=FILE" if split == "test" else "add questions"
    return ConfigError("E155", f"the data set has no {split} rows", where=env.source(split), why=why, fix=fix)


@lru_cache(maxsize=8)
def check_rows(env: Dataset, stamps: tuple[tuple[int, int], ...]) -> dict[str, Placed]:
    """The rows of both splits, in the order of their files, after every check. Args: stamps: as in `rows_of`."""
    rows = list(enumerate(env.rows_of(env.train)))
    refuse_empty(env, env.path, rows)
    keys = questions(env, env.path, rows)
    parts: dict[str, Placed] = {name: [] for name in SPLITS}
    names: dict[str, list[tuple[str, int]]] = {name: [] for name in SPLITS}
    by_hash = divide(keys)
    for name, (index, row) in zip(keys, rows, strict=True):
        split = "train" if env.test else side(env, row, index) or by_hash[name]
        parts[split].append((index, row))
        names[split].append((name, index))
    if env.apart:
        from_hub = not is_file(env.path) and not is_file(env.test)
        parts["test"] = list(enumerate(env.rows_of(env.test) if from_hub else read_rows(env.test)))
        refuse_empty(env, env.source("test"), parts["test"])
        keys = questions(env, env.source("test"), parts["test"])
        names["test"] = [(name, index) for name, (index, _) in zip(keys, parts["test"], strict=True)]
    refuse_overlap(env, names)
    refuse_unmarked(env, parts)
    selected = {"train": select_rows(env, parts["train"]), "test": parts["test"]}
    sources: dict[str, Placed] = {}
    for split in SPLITS:
        sources[env.source(split)] = sorted(sources.get(env.source(split), []) + selected[split], key=itemgetter(0))
    for source, some in sources.items():
        refuse_unreadable(env, source, some)
    return selected if env.test != EVERY else {**selected, "test": selected["train"]}


def divide(keys: Sequence[str]) -> dict[str, str]:
    """The split of every question by its hash: about an eighth is held out, and of two or more at least one in each."""
    splits = {key: split_of(key) for key in sorted(keys)}
    if len(splits) > 1 and len(sides := set(splits.values())) == 1:
        splits[min(splits)] = "test" if "train" in sides else "train"
    return splits


def side(env: Dataset, row: Row, index: int) -> str:
    """The split that a row states; empty if it states none. Raises: ConfigError E154 for another value."""
    split = env.column(row, env.split, index) if env.split else ""
    if split not in ("", *SPLITS):
        why = f"the column {env.split!r} is {split!r} but must be train or test"
        raise ConfigError("E154", "a row belongs to no split", where=f"{env.path}, row {index}", why=why)
    return str(split)


def select_rows(env: Dataset, rows: Placed) -> Placed:
    """The train rows selected by the options. Raises: ConfigError E155 for a row that does not exist."""
    if env.rows:
        there = dict(rows)
        if missing := [index for index in env.rows if index not in there]:
            raise ConfigError(
                "E155", f"train row {missing[0]} does not exist", where="env.rows",
                why=f"{env.path} has {len(rows)} train rows", fix=f"env.rows=[{next(iter(there), 0)}]",
            )  # fmt: skip
        rows = [(index, there[index]) for index in env.rows]
    for name, values in env.where.items():
        texts = {str(value) for value in values}  # Every value of a CSV file is text.
        cells = [env.column(row, name, index) for index, row in rows]
        rows = [row for row, cell in zip(rows, cells, strict=True) if cell in values or cell in texts]
        if not rows:
            why = f"no train row has one of the values {', '.join(map(repr, values))} in the column {name!r}"
            examples = ", ".join(list(dict.fromkeys(json.dumps(cell, default=str) for cell in cells))[:8])
            fix = f"choose among the values of the column: env.where={{{name}=[{examples}]}}"
            raise ConfigError("E155", "the data set has no train rows", where="env.where", why=why, fix=fix)
    if env.ranked:
        by_id = {env.task(index, row).id: (index, row) for index, row in rows}
        rows = [by_id[name] for name in ranking(env.ranked) if name in by_id]
        if not rows:
            raise ConfigError(
                "E155",
                "no row of the data set is in the ranking",
                where=env.ranked,
                fix=f"rank a run of this data set: gnomon rank RUN --out {env.ranked}",
            )
    return rows


def ranking(path: str) -> list[str]:
    """The ids of a file of `gnomon rank`, best first."""
    try:
        return [str(entry["id"]) for entry in json.loads(Path(path).read_text("utf-8"))["tasks"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "E152", "the ranking cannot be read", where=path, why=why, fix="gnomon rank RUN --out FILE"
        ) from error


@lru_cache(maxsize=64)
def judge_of(env: Dataset) -> Answered:
    """The verifier of a data set. Raises: ConfigError E156 if no verifier has that name."""
    if not isinstance(env.verifier, str):
        raise not_answered(type(env.verifier).__name__)
    slot = {"strictness": env.strictness, "correct": env.correct, "format": env.format, "gate": env.gate}
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in env.options.items()}
    return verifier_of(env.verifier, {**slot, **options})


SHIPPED = {
    kind.__module__.rpartition(".")[2]: kind
    for kind in vars(verifiers).values()
    if isinstance(kind, type) and issubclass(kind, Answered) and kind is not Answered
}
"""The verifiers that compare an answer slot with a reference answer, by the name of their module."""


def verifier_of(name: str, options: Mapping[str, Any]) -> Answered:
    module, colon, attribute = name.partition(":")
    if not colon and name not in SHIPPED:
        spec = find_spec(f"gnomon.verifiers.{name}") if name.isidentifier() else None
        near = difflib.get_close_matches(name, SHIPPED, 1)
        raise ConfigError(
            "E156",
            f"the verifier {name!r} cannot judge a data set" if spec else f"there is no verifier {name!r}",
            where="env.verifier",
            why=f"{', '.join(sorted(SHIPPED))} and package.module:Class compare an answer with a reference answer",
            fix="env=gnomon.envs.choice_rows:ChoiceRows, without env.verifier"
            if name == "choice"
            else f"env.verifier={near[0] if near else 'text'}",
        )
    try:
        kind = getattr(importlib.import_module(module), attribute) if colon else SHIPPED[name]
        if isinstance(kind, type) and not issubclass(kind, Answered):
            raise not_answered(name)
        verifier = kind(**options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            "E156", f"the verifier {name!r} cannot be made", where="env.verifier", why=why, fix="env.verifier=text"
        ) from error
    if not isinstance(verifier, Answered):
        raise not_answered(name)
    return verifier


def not_answered(name: str) -> ConfigError:
    """Error E156 for a verifier that does not compare an answer slot with a reference answer."""
    return ConfigError(
        "E156", f"{name!r} cannot judge a data set", where="env.verifier",
        why="it does not compare an answer slot with a reference answer, as classes derived from "
        "gnomon.verifiers.Answered do",
        fix="in Python, gnomon.train(rows, reward=lambda reply, task: judge.verify(task, reply).reward)",
    )  # fmt: skip
