"""Deep models from shallow ones: layers are alike, so what they need grows evenly with their number."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.models.policy import Policy
from gnomon.plans.passes import Cost

__all__ = ["Deep"]

FEW, MORE = 2, 4
"""Layers of the models that are counted."""


class Deep:
    """A policy without numbers. Args: make: it, with so many layers; 0 for all."""

    def __init__(self, make: Callable[[int], Policy]) -> None:
        self.whole, self._make = make(0), make
        config = self.whole.model.config
        self.layers = int(config.num_hidden_layers)
        kinds = set(getattr(config, "layer_types", None) or [""])
        self._shallow = (make(FEW), make(MORE)) if self.layers > MORE and len(kinds) == 1 else None

    def cost(self, work: Callable[[Policy], Cost]) -> Cost:
        """What some work takes with the whole model."""
        if self._shallow is None:
            return work(self.whole)
        few, more = map(work, self._shallow)
        times = (self.layers - FEW) / (MORE - FEW)

        def at(one: float, other: float) -> float:
            return one + times * (other - one)

        return Cost(
            seconds=at(few.seconds, more.seconds),
            peak=at(few.peak, more.peak),
            cache=at(few.cache, more.cache),
            head=at(few.head, more.head),
            small=at(few.small, more.small),
            large=at(few.large, more.large),
        )
