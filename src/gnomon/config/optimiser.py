"""Which settings of an optimiser fit which optimiser."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from gnomon.config.sections import RunConfig
from gnomon.errors import ConfigError

__all__ = ["optimiser"]

OWN: Mapping[str, Mapping[str, object]] = {
    "adamw": {"weight_decay": 0.0, "states": "float32"},
    "sgd": {"momentum": 0.0},
}
"""Settings that only one optimiser has, with the values that change nothing."""


def optimiser(config: RunConfig, supplied: Container[str]) -> Iterator[ConfigError]:
    """A setting of one optimiser beside another one, a learning rate that nothing suggests, and states in 8 bits where
    they cannot be."""
    optim = config.optim
    for kind, settings in OWN.items():
        for name, unused in settings.items():
            if kind != optim.type and getattr(optim, name) != unused:
                yield ConfigError(
                    "E056",
                    f"optim.{name} cannot be used with optim.type={optim.type}",
                    where=f"optim.{name}",
                    why=f"only {kind} has this setting",
                    fix=f"optim.{name}={unused}, or optim.type={kind}",
                )
    if optim.type == "sgd" and "optim.lr" not in supplied:
        yield ConfigError(
            "E057",
            "optim.type=sgd needs optim.lr",
            where="optim.type",
            why="its steps are as large as the gradient, whose size depends on the model and the objective",
            fix="optim.lr=10, or 0.1 for a pretrained model, then three times more or less (docs/numerics.md)",
        )
    if optim.states == "8bit" and config.ranks:
        yield ConfigError(
            "E059",
            "optim.states=8bit cannot be used with ranks",
            where="optim.states",
            why="numbers in 8 bits share a scale in blocks of 256, which would depend on the number of ranks",
            fix="optim.states=float32, or ranks=0",
        )
