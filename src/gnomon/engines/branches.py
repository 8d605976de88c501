"""Rows that have said the same so far are one branch: it passes through the model once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.models.attention import MIN_ROWS

__all__ = ["CROWD", "Branches"]

CROWD = 0.75
"""What ended leaves the batch once what goes on falls below this share."""


class Branches:
    """The branches that rows stand on, a prompt each to begin with; at least `MIN_ROWS`, some of them idle.

    Args: prompts, the index of the prompt of every row, in rising order; last, the last token of every prompt.
    """

    def __init__(self, prompts: Sequence[int], last: Sequence[int]) -> None:
        first = list(dict.fromkeys(prompts))
        spare = max(0, MIN_ROWS - len(first))
        self.prompt = [first[0]] * spare + first
        """Of every branch; those of a prompt stand together."""
        self.token = [last[prompt] for prompt in self.prompt]
        """What every branch said last."""
        self.of = [spare + first.index(prompt) for prompt in prompts]
        """Of every row."""

    def grow(self, said: Sequence[int], going: Sequence[int]) -> list[int] | None:
        """Every row that goes on says a token.

        Args: said, by every row; going, the rows that are not over.
        Returns: the branch before from which each branch comes; None where they are the same ones, each a token longer.
        """
        ends = list(dict.fromkeys((self.of[row], said[row]) for row in going))
        forked = len(ends) > len({branch for branch, _ in ends})
        if not forked and (len(self.prompt) == MIN_ROWS or len(ends) > CROWD * len(self.prompt)):
            for branch, token in ends:
                self.token[branch] = token
            return None
        ends = [ends[0]] * max(0, MIN_ROWS - len(ends)) + ends
        place = {end: at for at, end in enumerate(ends)}
        self.of = [place.get(end, 0) for end in zip(self.of, said, strict=True)]
        self.prompt, self.token = [self.prompt[branch] for branch, _ in ends], [token for _, token in ends]
        return [branch for branch, _ in ends]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        self.of = [self.of[row] for row in rows]
