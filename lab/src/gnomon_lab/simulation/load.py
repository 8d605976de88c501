"""What a simulated run meets: its engines, the lengths of its replies, and the times of its calls and updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log

from gnomon.keys import Key
from gnomon.types import Request, Task
from gnomon_lab.simulation.server import Speed

__all__ = ["CallSeconds", "Load"]

CallSeconds = Callable[[Task, Key, int], float]
"""Seconds of the environment's call after reply t of an episode with this task and key."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a run meets, apart from its own settings."""

    servers: int = 1
    """Engines that share the requests. With `launch=ray`, every sampler has one, and this is not used."""
    speed: Speed = field(default_factory=Speed)
    reply: float = 200.0
    """Tokens of a reply at the median; `rollout.max_tokens` is the most."""
    reply_spread: float = 0.5
    """σ of the log-normal distribution of lengths."""
    turns: int = 1
    """Replies per episode."""
    call: float = 0.0
    """Seconds of a call of the environment at the median."""
    call_spread: float = 1.0
    """σ of the log-normal distribution of these times."""
    right: float = 0.5
    """Probability that a rollout succeeds."""
    train: float = 1.0
    """Seconds of training per step, beside `train_token`."""
    train_token: float = 0.0
    """Seconds that every sampled token adds to that."""

    @property
    def calls(self) -> CallSeconds:
        """The times of the environment's calls."""
        if not self.call:
            return lambda task, key, turn: 0.0
        place = log(self.call)
        return lambda task, key, turn: key.at("call", turn=turn).random().lognormvariate(place, self.call_spread)

    def length(self, request: Request) -> int:
        """Tokens of the completion of a request, drawn by its key."""
        rng = Key(int.from_bytes(request.key, "little") >> 64).random()
        drawn = round(rng.lognormvariate(log(self.reply), self.reply_spread))
        return max(1, min(request.sampling.max_tokens, drawn))
