"""What a run did to its model: the card of `gnomon probe change`, kept in the run's folder, and its panel.

Nothing that a run records or verifies depends on the file. It can be deleted.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gnomon.extensions import Panel
from gnomon.stats import Interval
from gnomon.store import RunReader

__all__ = ["Card", "Moved", "panel", "write_card"]

FILE = "change.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How far some weights are from their first values."""

    name: str
    """A layer, such as `layer 3`, or the matrices of one name in all layers, such as `q_proj`."""
    norm: float
    """Frobenius norm of the change, over all of these weights."""
    relative: float
    """The same divided by the norm of the first values."""
    stable_rank: float | None
    """‖Δ‖²_F / ‖Δ‖²_2 of a matrix, the median over these matrices: 1 for a change of rank 1. 0 if nothing changed, None
    for vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A checkpoint beside the policy that its run began with."""

    run: str
    """Fingerprint of the run."""
    step: int
    """Finished steps of the checkpoint."""
    sampled: int
    """Finished steps of the policy that sampled the replies."""
    replies: int
    kl: Interval
    """KL(checkpoint‖first) of a whole reply, in nats: the sum over its tokens of the divergence over the vocabulary."""
    tokens: int
    kl_token: float
    flipped: int
    """Tokens at whose place another token is the likeliest."""
    whole: Moved
    layers: tuple[Moved, ...]
    kinds: tuple[Moved, ...]
    cpu_seconds: float
    """Processor time of the measurement."""

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        body: dict[str, Any] = ADAPTER.dump_python(self, mode="json")
        return body

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the card says."""
        source = "which it sampled" if self.sampled == self.step else f"which the policy of step {self.sampled} sampled"
        whole, rank = self.whole, self.whole.stable_rank or 0.0
        return (
            f"After step {self.step}, the policy differs from the first one by a KL of {self.kl} nats per reply, "
            f"{self.kl_token:.3f} per token, over {self.replies} replies to {self.kl.n} held-out tasks, {source}.",
            f"Another token is the likeliest at {self.flipped} of the {self.tokens} places of these replies, "
            f"{self.flipped / self.tokens:.1%}.",
            f"The weights changed by a norm of {whole.norm:.3g}, {whole.relative:.3%} of the norm of the weights that "
            f"were trained or adapted. The stable rank of the change is {rank:.2f}, the median over "
            "matrices.",
        )


ADAPTER = TypeAdapter(Card)


def write_card(folder: Path, card: Card) -> None:
    """Replace the card in a run's folder. Raises: OSError."""
    fresh = folder / f".{FILE}.{secrets.token_hex(4)}"
    fresh.write_text(json.dumps(card.body(), indent=1) + "\n", encoding="utf-8")
    fresh.replace(folder / FILE)


def panel(reader: RunReader) -> list[Panel]:
    """The card of a run for a terminal and a page; empty if there is none of the run as it is now."""
    try:
        card = ADAPTER.validate_json((reader.folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return []
    if card.run != reader.fingerprint:
        return []
    text = "\n".join(f"{'change' if index == 0 else '':<12} {line}" for index, line in enumerate(card.sentences))
    rows = tuple(
        (each.name, f"{each.norm:.3g}", f"{each.relative:.3%}", rank_text(each.stable_rank))
        for each in (*card.kinds, *card.layers)
    )
    head = ("weights", "norm of the change", "relative to the first weights", "stable rank, median")
    return [Panel(name="change", facts=card.body(), text=text, sentences=card.sentences, head=head, rows=rows)]


def rank_text(rank: float | None) -> str:
    return "" if rank is None else f"{rank:.2f}"
