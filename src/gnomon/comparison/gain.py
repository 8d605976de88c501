"""What the training of runs added: the card of `gnomon gain`, measured once and kept in the folder of each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gnomon.comparison.gain_card import Card, Cost, card_of, write_card
from gnomon.comparison.gain_replies import OTHER, USUAL, Measured, Sizes, replies_by_evaluation
from gnomon.comparison.gain_scores import format_of, gain_of, transfer_of
from gnomon.comparison.runs import group_runs
from gnomon.config import recorded_recipe, resolve
from gnomon.errors import RunError
from gnomon.run.trust import require_trusted
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["Sizes", "gain"]


def gain(
    folders: Sequence[Path],
    request: Sizes,
    price: float | None = None,
    *,
    trust: bool = False,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Card:
    """The card of runs whose settings differ in the seed alone.

    A card of the same runs and numbers is taken from their folder. Apart from its cost it is always the same.

    Args: price: of an hour by the clock; trust: as in `gnomon.rejudge.replay.replay`; tell: is called before sampling.
    Raises: RunError E440 for runs that have no gain in common; E429; as `replies_by_evaluation`; ConfigError E052 for
        code that is not trusted.
    """
    runs = open_runs(folders, request, trust)
    question: dict[str, str | int] = {
        "samples": runs.samples, "tasks": runs.tasks, "shots": request.shots, "transfer": request.transfer
    }  # fmt: skip
    prints = {str(seed): fingerprint(folder) for seed, folder in runs.folders.items()}
    card = card_of(folders[0])
    if card is None or (card.asked, card.runs) != (question, prints):
        replies = replies_by_evaluation(runs, tell)
        if not all(each.tasks for each in replies.values()):
            why = "no held-out task was judged under every prompt, before and after training"
            raise no_gain(folders[0], why, f"gnomon show {folders[0]}")
        card = Card(
            asked=question,
            runs=prints,
            env=runs.config.env.type,
            policy=runs.config.policy.path,
            steps=runs.config.budget.steps,
            gain=gain_of(replies[USUAL], "prompt of the run", f"{request.shots} solved examples"),
            format=format_of(replies[USUAL]) if runs.lenient else None,
            transfer=transfer_of(replies[OTHER], request.transfer) if request.transfer else None,
            cost=cost(folders, price),
        )
    card = replace(card, cost=cost(folders, price))
    for folder in folders:
        try:
            write_card(folder, card)
        except OSError as error:
            tell(f"the card is not kept: {folder} cannot be written ({error.strerror})")
    return card


def open_runs(folders: Sequence[Path], request: Sizes, trust: bool) -> Measured:
    """Raises: RunError E440, E429; ConfigError E052."""
    for folder in folders:
        with RunReader(folder) as reader:
            if reader.import_format:
                why = f"it was imported from {reader.import_format}, without the policies that wrote its replies"
                raise no_gain(folder, why, f"gnomon show {folder}")
            config, _ = resolve([recorded_recipe(folder / RECIPE)])
            require_trusted(reader, config, trust)
    groups = group_runs(folders)
    if len(groups) > 1:
        first, other = (next(iter(group.folders.values())) for group in groups[:2])
        raise no_gain(other, f"its settings differ from those of {first} in more than the seed", f"gnomon gain {other}")
    return Measured(folders=dict(sorted(groups[0].folders.items())), config=config, sizes=request)


def no_gain(folder: Path, why: str, fix: str) -> RunError:
    return RunError("E440", "these runs have no gain in common", where=str(folder), why=why, fix=fix)


def fingerprint(folder: Path) -> str:
    with RunReader(folder) as reader:
        return reader.fingerprint


def cost(folders: Sequence[Path], price: float | None) -> Cost:
    """Of all runs together."""
    rows = []
    for folder in folders:
        with RunReader(folder) as reader:
            rows += reader.timings()
    seconds = sum(float(row["seconds"]) for row in rows)
    has_cpu = all("cpu_seconds" in row for row in rows)
    return Cost(
        cpu_seconds=sum(float(row["cpu_seconds"]) for row in rows) if has_cpu else None,
        seconds=seconds,
        money=None if price is None else price * seconds / 3600,
    )
