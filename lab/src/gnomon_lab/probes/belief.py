"""What a policy takes as rewarded: it is asked, and the log-probabilities of the options are its answer."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError, RunError
from gnomon.stats import Interval, difference_interval, mean_interval
from gnomon.store import RunReader
from gnomon.types import Status

__all__ = ["QUESTION", "Ask", "Belief", "Question", "belief", "belief_text", "change", "from_file", "pairs"]

QUESTION = "{task}\nA: {a}\nB: {b}\nWhich reply scores higher? A or B\n"
"""How a pair of replies is shown, unless another text is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about the reward."""

    about: str
    """Questions about the same thing, such as a pair of replies in both orders, are one unit of the interval."""
    text: str
    options: tuple[str, ...]
    rewarded: int
    """Index of the option that is right."""


Ask = Callable[[Sequence[Question]], list[list[float]]]
"""The natural log-probability of every option as the reply to every question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """How a policy answers questions about its reward."""

    share: Interval
    """Fraction of questions whose rewarded option is the likeliest, over different things asked about; a tie counts
    as its fair share."""
    chance: float
    """That fraction of a policy that knows nothing."""
    margin: Interval
    """Log-probability of the rewarded option less the mean of the others, in nats. A preference for a letter or a place
    cancels where every pair is asked in both orders."""
    first: float
    """Fraction of questions whose first option is the likeliest: the preference for a place."""
    margins: dict[str, float]
    """The margin by thing asked about."""

    def body(self) -> dict[str, Any]:
        """As JSON values, without the single margins."""
        return {name: value for name, value in asdict(self).items() if name != "margins"}


def belief(ask: Ask, questions: Sequence[Question]) -> Belief:
    """What a policy takes as rewarded, by the log-probability of stated options.

    A reply of several tokens has the sum of their log-probabilities, so options should have equal lengths.
    Source: asking for a belief, as in 2512.08093; the options are scored and nothing is sampled.
    """
    found = ask(questions)
    shares, margins, firsts = [], [], []
    for question, logps in zip(questions, found, strict=True):
        best = [place for place, logp in enumerate(logps) if logp == max(logps)]
        others = [logp for place, logp in enumerate(logps) if place != question.rewarded]
        shares.append((question.rewarded in best) / len(best))
        firsts.append((0 in best) / len(best))
        margins.append(logps[question.rewarded] - statistics.fmean(others))
    about = [question.about for question in questions]
    single = {name: statistics.fmean(m for a, m in zip(about, margins, strict=True) if a == name) for name in about}
    return Belief(
        share=mean_interval(shares, about),
        chance=statistics.fmean(1 / len(question.options) for question in questions),
        margin=difference_interval(list(single.values())),
        first=statistics.fmean(firsts),
        margins=single,
    )


def change(before: Belief, after: Belief) -> Interval:
    """How much the margin grew, paired by what was asked about."""
    return difference_interval([after.margins[name] - margin for name, margin in before.margins.items()])


def pairs(reader: RunReader, text: str = QUESTION, most: int = 64) -> list[Question]:
    """Two replies of a group, one with the highest and one with the lowest reward, in both orders; one pair per task.

    Args: text: with `{task}`, `{a}` and `{b}`; most: tasks.
    Raises: RunError E438 for a run in which all groups have equal rewards.
    """
    found: dict[str, list[Question]] = {}
    for task, asked, best, worst in contrasts(reader):
        if task in found:
            continue
        orders = (("A", best, worst), ("B", worst, best))
        found[task] = [
            Question(
                about=task,
                text=text.replace("{task}", asked).replace("{a}", a).replace("{b}", b),
                options=("A", "B"),
                rewarded="AB".index(letter),
            )
            for letter, a, b in orders
        ]
        if len(found) == most:
            break
    if not found:
        raise RunError(
            "E438",
            "no group of the run has two different rewards",
            where=str(reader.folder),
            why="a policy is asked which of two replies of a group has the higher reward",
            fix=f"gnomon probe belief {reader.folder} --questions FILE.jsonl",
        )
    return [question for both in found.values() for question in both]


def contrasts(reader: RunReader) -> Iterator[tuple[str, str, str, str]]:
    """Id and text of the task, and the replies with the highest and the lowest reward, of groups where they differ.

    Of a game, the replies of the first player.
    """
    asked: dict[tuple[int | None, int | None], Any] = {
        (record.step, record.task): record.body for record in reader.records("task") if record.body["of"] == "rollout"
    }
    judged = (
        record
        for record in reader.records("rollout")
        if record.body["status"] not in (Status.FAILED, Status.UNJUDGED)
        and record.body["reward"] is not None
        and record.body.get("player", 0) == 0
    )
    for place, group in groupby(judged, lambda record: (record.step, record.task)):
        replies = [(float(record.body["reward"]), record.body["reply"].strip()) for record in group]
        (low, worst), (high, best) = (choose(replies, key=lambda reply: reply[0]) for choose in (min, max))
        if low < high:
            body = asked[place]
            yield body["id"], "\n".join(message["content"] for message in body["messages"]), best, worst


def from_file(path: Path) -> list[Question]:
    """Questions of a file, one JSON object a line: `text`, `options`, `rewarded` (an index), and perhaps `about`.

    Raises: ConfigError E083 for a file that is missing or a line that is not a question.
    """
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E083", f"the questions cannot be read: {error}", where=str(path)) from error
    if not lines:
        raise ConfigError("E083", "the file has no questions", where=str(path), fix=EXAMPLE)
    return [question_of(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


EXAMPLE = '{"text": "Which reply scores higher? A: 2 B: two\\n", "options": ["A", "B"], "rewarded": 0}'


def question_of(line: str, where: str) -> Question:
    try:
        found = json.loads(line)
        text, options, rewarded = str(found["text"]), tuple(map(str, found["options"])), int(found["rewarded"])
        if len(set(options)) < 2 or "" in options or not 0 <= rewarded < len(options):
            raise ValueError("options must be two or more different texts, and rewarded the index of one")
    except (ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError("E083", "the line is not a question", where=where, why=why, fix=EXAMPLE) from error
    return Question(about=str(found.get("about", where)), text=text, options=options, rewarded=rewarded)


def belief_text(found: Sequence[tuple[str, Belief]]) -> str:
    """For a terminal. Args: found: what every policy answered, by its name; of two, the first is that before."""
    lines = []
    for name, each in found:
        margin = each.margin
        lines.append(
            f"{name}: rewarded option likeliest in {each.share} of the questions (chance {each.chance:.3f}), margin "
            f"{margin.value:+.3f} [{margin.low:+.3f}, {margin.high:+.3f}] nats, first option in {each.first:.3f}"
        )
    if len(found) == 2:
        grown = change(found[0][1], found[1][1])
        lines.append(f"change of the margin {grown.value:+.3f} [{grown.low:+.3f}, {grown.high:+.3f}] nats")
    return "\n".join([*lines, f"over {found[0][1].margin.n} different pairs or rules"])
