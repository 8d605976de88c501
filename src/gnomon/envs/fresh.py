"""Environments whose tasks can be divided between a base policy's corpus and the train split."""

from __future__ import annotations

from dataclasses import dataclass

from gnomon.envs.base import SPLITS, SingleTurn, Tasks, split_of

__all__ = ["Divided"]


class Corpus(Tasks):
    """The tasks that a base policy is taught."""

    splits = (*SPLITS, "corpus")


@dataclass(frozen=True, kw_only=True)
class Divided(SingleTurn):
    """An environment that the built-in base policies are taught."""

    fresh: bool = False
    """Whether the train split leaves out the tasks that the policy `tiny-fresh` was taught: all with an odd id."""

    def split_of(self, identity: str) -> str:
        split = split_of(identity)
        return "corpus" if self.fresh and split == "train" and int(identity, 16) % 2 else split

    def corpus(self) -> Corpus:
        """The tasks that `fresh` leaves out; without it, the train split."""
        return Corpus(self, "corpus" if self.fresh else "train")
