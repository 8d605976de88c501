"""Where a completion ends: the same rule for every engine."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.models.tokenizer import Tokenizer
from gnomon.types import Finish, Sampling

__all__ = ["Endings"]


class Endings:
    """Reads the tokens of completions as they grow."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._pieces: dict[int, str] = {}
        """The text of tokens that were sampled, each alone."""

    def finish(self, ids: Sequence[int], sampling: Sampling) -> Finish | None:
        """How the last token ends a completion; None where it goes on."""
        if ids[-1] in self.tokenizer.eos or ids[-1] in sampling.stop_ids:
            return Finish.EOS
        if sampling.stop and self._stops(ids, sampling.stop):
            return Finish.STOP
        return Finish.LENGTH if len(ids) == sampling.max_tokens else None

    def _stops(self, ids: Sequence[int], stop: tuple[str, ...]) -> bool:
        """Whether the last token completes a stop string; the tail is read only when its piece could."""
        piece = self._pieces.get(ids[-1])
        if piece is None:
            piece = self._pieces[ids[-1]] = self.tokenizer.decode(ids[-1:])
        ends = [text for text in stop if text[-1] in piece]
        return bool(ends) and any(text in self.tokenizer.decode(ids[-len(text) - 1 :]) for text in ends)
