"""Checks of the rows of a data set before a run. An error lists the numbers of the invalid rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gnomon.envs.base import identity
from gnomon.envs.messages import require_prompt
from gnomon.envs.rows import Row, content_hash
from gnomon.errors import ConfigError
from gnomon.types import Message, Task
from gnomon.verifiers import Number

if TYPE_CHECKING:
    from gnomon.envs.dataset import Dataset

__all__ = [
    "USUAL",
    "Placed",
    "compared_as_text",
    "double_formats",
    "number_rows",
    "question",
    "questions",
    "refuse_empty",
    "refuse_other_rows",
    "refuse_overlap",
    "refuse_unmarked",
    "repetitions",
]

Placed = list[tuple[int, Row]]
"""Rows, each with its index in its file."""
USUAL = {
    "prompt": ("prompt", "question", "problem", "instruction", "messages", "input"),
    "answer": ("answer", "solution", "gold", "ground_truth", "target", "final_answer", "expected", "label"),
    "id": ("id",),
    "image": ("image", "images"),
}
"""Names that data sets give to the column of an option."""
PROMPTS = 'write text, or messages such as [{"role": "user", "content": "2 + 2?"}], or env.prompt=COLUMN'


def refuse_other_rows(env: Dataset) -> None:
    """Raises: ConfigError E164 for rows whose hash is not that of `sha256`."""
    for option, expected in env.sha256.items():
        digest = content_hash(env.rows_of(env.test if option == "test" else env.train))
        if digest != expected:
            raise ConfigError(
                "E164", f"the rows of {option} do not have the hash that env.sha256 states", where=env.path,
                why=f"their SHA-256 is {digest}",
                fix="set env.revision to the commit that had these rows, or change env.sha256",
            )  # fmt: skip


def refuse_empty(env: Dataset, source: str, rows: Placed) -> None:
    """Raises: ConfigError E153 for a required column that is not there, or with the numbers of rows that lack it."""
    columns = dict.fromkeys(column for _, row in rows for column in row)
    required = {option: name for option in USUAL if (name := getattr(env, option))}
    absent = [option for option, name in required.items() if name not in columns]
    if rows and absent:
        raise ConfigError(
            "E153", f"the data set has no column {required[absent[0]]!r}", where=source,
            why=f"the columns of the data set are {', '.join(columns)}",
            fix=" ".join(f"env.{option}={column_like(option, columns)}" for option in absent),
        )  # fmt: skip
    for option, name in required.items():
        if missing := [index for index, row in rows if row.get(name) is None or row[name] == []]:
            like = column_like(option, columns) if len(missing) == len(rows) else name
            raise ConfigError(
                "E153", f"the column {name!r} is empty in {number_rows(missing)} of {len(rows)}", where=source,
                why=f"the columns of the data set are {', '.join(columns)}",
                fix="correct or remove these rows" if like == name else f"env.{option}={like}",
            )  # fmt: skip


def column_like(option: str, columns: Mapping[str, object]) -> str:
    """The column that an option most likely means, or a word for the one that only the user knows."""
    return next((name for name in USUAL[option] if name in columns), "COLUMN")


def questions(env: Dataset, source: str, rows: Placed) -> list[str]:
    """The identity of the question of every row. Raises: ConfigError E153, with row numbers, for invalid prompts."""
    result, problems = list[str](), list[tuple[int, ValueError]]()
    for index, row in rows:
        try:
            messages = env.question_messages(row, f"{source}, row {index}")
            result.append(identity(question(require_prompt(messages, row[env.prompt]))))
        except ValueError as error:
            problems.append((index, error))
    if problems:
        index, why = problems[0]
        raise ConfigError(
            "E153", f"{len(problems)} of {len(rows)} prompts are not text or messages of text",
            where=f"{source}, column {env.prompt!r}, {number_rows([index for index, _ in problems])}",
            why=f"row {index}: {why}", fix=PROMPTS,
        )  # fmt: skip
    return result


def refuse_unmarked(env: Dataset, parts: Mapping[str, Placed]) -> None:
    """Raises: ConfigError E153, with row numbers, if answers lack the marker `after`."""
    for split, rows in parts.items():
        texts = [(index, row[env.answer]) for index, row in rows if env.after and isinstance(row[env.answer], str)]
        for problem, missing in (
            (f"have no {env.after!r} in {env.answer!r}", [index for index, text in texts if env.after not in text]),
            (
                f"have nothing after {env.after!r} in {env.answer!r}",
                [index for index, text in texts if not text.rpartition(env.after)[2].strip()],
            ),
        ):
            if missing:
                raise ConfigError(
                    "E153", f"{number_rows(missing)} of the {split} split {problem}", where=env.path,
                    why="env.after marks the start of the reference answer", fix="correct these rows, or env.after=''",
                )  # fmt: skip


def refuse_overlap(env: Dataset, questions: Mapping[str, Sequence[tuple[str, int]]]) -> None:
    """Raises: ConfigError E151, with row numbers, if a question is in both splits.

    Args: questions: by split, the identity of every question, with the index of its row.
    """
    train = dict(reversed(questions["train"]))
    if both := [(train[name], index) for name, index in questions["test"] if name in train]:
        pairs = ", ".join(f"train row {a} = test row {b}" for a, b in both[:10])
        more = f", and {len(both) - 10} more" if len(both) > 10 else ""
        raise ConfigError(
            "E151", f"{len(both)} held-out questions are also train questions", where=env.path, why=pairs + more,
            fix="env.test='', which holds out rows of env.path, or remove these rows from one split",
        )  # fmt: skip


def double_formats(env: Dataset, task: Task) -> Iterator[str]:
    """A sentence on a prompt that shows the answer format more than once."""
    messages = [message for message in task.messages if message.role == "system" or message is task.messages[-1]]
    if (times := "\n".join(message.content for message in messages).count(env.frame[0].strip())) > 1:
        yield f"The prompt of a task shows the answer format {times} times; once is enough."


def compared_as_text(env: Dataset, rows: Placed) -> Iterator[str]:
    """A sentence on decimals and numbers with units whose form counts, since the verifier compares texts."""
    golds = [str(env.gold(row, index)) for index, row in rows if env.verifier == "text" and not env.options]
    example = next((gold for gold in golds if not gold.strip().removeprefix("-").isdigit()), None)
    if example is None:
        return
    for verifier, settings in (
        (Number(), "env.verifier=number"),
        (Number(units="optional"), "env.verifier=number env.options.units=optional"),  # type: ignore[arg-type]
    ):
        try:
            for gold in golds:
                verifier.require_gold(gold)
        except ValueError:
            continue
        yield (
            f"The answers are numbers, such as {example!r}, and the verifier compares texts: another form of the same "
            f"number is wrong. {settings} compares values."
        )
        return


def repetitions(env: Dataset, split: str, rows: Placed) -> Iterator[str]:
    """Sentences on questions that occur more than once in a split, with the numbers of the rows."""
    by_question: dict[str, Placed] = {}
    for index, row in rows:
        by_question.setdefault(question(env.question_messages(row)), []).append((index, row))
    several: dict[str, list[Placed]] = {"with different answers": [], "with the same answer": []}
    for same in by_question.values():
        if len(same) > 1:
            golds = {repr(env.gold(row, index)) for index, row in same}
            several["with different answers" if len(golds) > 1 else "with the same answer"].append(same)
    for what, groups in several.items():
        if groups:
            pairs = "; ".join(" = ".join(str(index) for index, _ in same[:4]) for same in groups[:5])
            more = f", and {len(groups) - 5} more" if len(groups) > 5 else ""
            count = f"{len(groups)} question{'s' * (len(groups) > 1)}"
            yield f"The {split} split repeats {count} {what}: rows {pairs}{more}."


def question(messages: Sequence[Message]) -> str:
    """The words of a question, without case and spacing, and its images. Equal texts are the same question."""
    words = (" ".join(message.content.casefold().split()) for message in messages)
    return "\n".join([*words, *(image.sha256 for message in messages for image in message.images)])


def number_rows(indices: Sequence[int]) -> str:
    """Rows by their numbers."""
    numbers = ", ".join(map(str, indices[:10])) + (f" and {len(indices) - 10} more" if len(indices) > 10 else "")
    return f"row{'s' if len(indices) > 1 else ''} {numbers}"
