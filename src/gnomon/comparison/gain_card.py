"""The card of `gnomon gain`: kept in a run's folder, and written for a reader.

Nothing that a run records or verifies depends on the file. It can be deleted.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gnomon.stats import Interval
from gnomon.terminal import one_line

__all__ = [
    "Beside",
    "Card",
    "Cost",
    "Format",
    "Gain",
    "Rates",
    "Transfer",
    "card_of",
    "card_text",
    "interval_text",
    "row_name",
    "sentences",
    "title",
    "write_card",
]  # fmt: skip

FILE = "gain.json"
UNREAD = "not measured, because the verifier of this environment does not read one answer in a frame"
ONE = "not measured, because the run recorded one reply to each task; eval.samples=8 records more"
SOLVED = 0.95
"""pass@k of a base model that leaves too few tasks to say whether training solves new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often a policy is right under a prompt, over different tasks."""

    prompt: str
    trained: bool
    pass_1: Interval
    pass_k: Interval
    majority: Interval | None
    """Of the most frequent answer of k replies (self-consistency). None where the verifier reads no answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The trained policy less the base model under its best prompt."""

    prompt: str
    """The best one on these tasks, which favours prompting a little."""
    difference: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Differences are paired: of the same tasks, each averaged over the runs, with an interval over tasks."""

    k: int
    """Replies to every task."""
    tasks: int
    rows: tuple[Rates, ...]
    """The base model under each prompt, then the trained policy."""
    pass_1: Interval
    pass_k: Interval
    by_run: tuple[float, ...]
    """Gain in pass@1 of each run."""
    over_runs: Interval | None
    """Their mean with an interval over runs; None for one run."""
    beside_1: Beside
    """By pass@1."""
    beside_k: Beside | None
    """By the majority of k replies, for both; None where the verifier reads no answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The gain in pass@1, divided into replies that took a readable form and replies that became right."""

    before: Interval
    """pass@1 of the base model if a right answer counts in any usual form."""
    after: Interval
    form: Interval
    """The part of the gain that is gone where every form counts."""
    answers: Interval
    """The part that remains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """pass@1 of the same two policies on another environment."""

    env: str
    before: Interval
    after: Interval
    gain: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the training of all runs took."""

    cpu_seconds: float | None
    """Processor time of the training processes, without evaluations. None where a run did not record it."""
    seconds: float
    """By the clock, with evaluations."""
    money: float | None = None
    """The same at the price of an hour that was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What training added."""

    asked: Mapping[str, str | int]
    """What determines the card beside its runs: options of the command."""
    runs: Mapping[str, str]
    """Fingerprint of every run, by its seed."""
    env: str
    policy: str
    steps: int
    gain: Gain
    format: Format | None
    """None where the verifier of the environment reads no answer in a frame."""
    transfer: Transfer | None
    cost: Cost

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        body: dict[str, Any] = ADAPTER.dump_python(self, mode="json")
        return body


ADAPTER = TypeAdapter(Card)


def card_of(folder: Path) -> Card | None:
    """The card in a run's folder; None if there is none or it cannot be read."""
    try:
        card = ADAPTER.validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return card if card.gain.rows and card.runs else None


def write_card(folder: Path, card: Card) -> None:
    """Replace the card in a run's folder. Raises: OSError."""
    fresh = folder / f".{FILE}.{secrets.token_hex(4)}"
    fresh.write_text(json.dumps(card.body(), indent=1) + "\n", encoding="utf-8")
    fresh.replace(folder / FILE)


def card_text(card: Card) -> str:
    """For a terminal: a table, then what it says."""
    gain = card.gain
    names = [row_name(row) for row in gain.rows]
    width = max(map(len, names))
    columns = 3 if gain.k > 1 else 1  # Of one reply, pass@k and the majority say nothing more.
    lines = [title(card), table_line("", width, ["pass@1", f"pass@{gain.k}", f"majority of {gain.k}"][:columns])]
    for name, row in zip(names, gain.rows, strict=True):
        lines.append(table_line(name, width, [row.pass_1, row.pass_k, row.majority][:columns]))
    return "\n".join([*lines, *(f"{label:<12}  {text}" for label, text in sentences(card))])


def table_line(name: str, width: int, cells: Sequence[Interval | str | None]) -> str:
    return "  ".join([f"{name:<{width}}", *(f"{'-' if cell is None else str(cell):<20}" for cell in cells)]).rstrip()


def title(card: Card) -> str:
    """What was trained, and what was measured."""
    runs = f"{len(card.runs)} runs (seeds {', '.join(card.runs)})" if len(card.runs) > 1 else "1 run"
    gain = card.gain
    return (
        f"{one_line(card.policy)} on {one_line(card.env)}: {runs} of {card.steps} steps; "
        f"{gain.k} {'replies' if gain.k > 1 else 'reply'} to each of {gain.tasks} held-out tasks"
    )


def row_name(row: Rates) -> str:
    return f"{'trained' if row.trained else 'base'}, {row.prompt}"


def sentences(card: Card) -> Iterator[tuple[str, str]]:
    """What the card says, no more than its intervals allow: a label and a text each."""
    gain = card.gain
    yield "pass@1", f"{interval_text(gain.pass_1)}. {outcome(gain.pass_1)}"
    if gain.over_runs is not None:
        each = ", ".join(f"{value:+.3f}" for value in gain.by_run)
        yield "runs", f"{each}; their mean with an interval over runs is {interval_text(gain.over_runs)}"
    if gain.k > 1:
        yield f"pass@{gain.k}", f"{interval_text(gain.pass_k)}. {sharpening(gain)}"
    else:
        yield "pass@k", ONE
    yield "prompting", " ".join(prompting(gain))
    yield "format", UNREAD if card.format is None else form(card.format)
    if card.transfer is not None:
        yield "transfer", transfer(card.transfer)
    yield "cost", cost(card.cost)


def interval_text(difference: Interval) -> str:
    return f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


def sign(difference: Interval) -> int:
    """1 or −1 where the whole interval is on one side of 0; else 0."""
    return (difference.low > 0) - (difference.high < 0)


def outcome(difference: Interval) -> str:
    sides = {1: "Training raised it.", 0: "These tasks do not show a change.", -1: "Training lowered it."}
    return sides[sign(difference)]


def sharpening(gain: Gain) -> str:
    """Whether training solves tasks that the base model does not solve in k replies."""
    if sign(gain.pass_k) > 0:
        return f"The trained policy solves tasks that the base model does not solve in {gain.k} replies."
    if sign(gain.pass_k) < 0:
        return f"The trained policy solves fewer tasks in {gain.k} replies than the base model."
    if gain.rows[0].pass_k.value >= SOLVED:
        return f"The base model solves nearly all of these tasks in {gain.k} replies, so they cannot show new ones."
    if sign(gain.pass_1) > 0:
        return (
            "Training made right answers more frequent; these tasks do not show that it solves any which the base "
            f"model does not solve in {gain.k} replies."
        )
    return outcome(gain.pass_k)


def prompting(gain: Gain) -> Iterator[str]:
    """The trained policy beside the best prompt of the base model."""
    counts = [("With one reply", gain.beside_1)]
    counts += [(f"By majority of {gain.k} replies", gain.beside_k)] if gain.beside_k and gain.k > 1 else []
    for count, beside in counts:
        end = {1: ".", 0: ", so prompting alone may give as much.", -1: ", so prompting alone gives more."}
        yield (
            f"{count}, the best prompt of the base model is: {one_line(beside.prompt)}. "
            f"Training adds {interval_text(beside.difference)} to it{end[sign(beside.difference)]}"
        )
    if len(gain.rows) == 2:
        yield "No prompt with solved examples was measured."


def form(formats: Format) -> str:
    """How much of the gain is format."""
    return (
        f"{interval_text(formats.form)} of the gain is replies that were right in another form before; "
        f"{interval_text(formats.answers)} is right answers. If every usual form counted, pass@1 would be "
        f"{formats.before} before and {formats.after} after."
    )


def transfer(result: Transfer) -> str:
    text = (
        f"{one_line(result.env)}: pass@1 {result.before} before and {result.after} after, {interval_text(result.gain)}."
    )
    return f"{text} {outcome(result.gain)}"


def cost(costs: Cost) -> str:
    """Of the training."""
    cpu = "" if costs.cpu_seconds is None else f"{costs.cpu_seconds:,.0f} s of processor time in training steps; "
    money = "" if costs.money is None else f"; {costs.money:,.2f} at the price that was named"
    return f"{cpu}{costs.seconds:,.0f} s by the clock with evaluations{money}"
