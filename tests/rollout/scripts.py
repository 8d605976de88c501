"""Scripted policies that know which reply of which episode they are asked for."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.keys import Key

__all__ = ["by_sample"]

MOST = 12
"""Turns that a script can tell apart."""
CALL = Key(0)


def by_sample(
    script: Callable[[int, int, int], str], key: Key = CALL, tasks: int = 16, samples: int = 6
) -> Callable[[str, bytes], str]:
    """A reply for a scripted engine from a function of task, sample and turn of the episode.

    Args: key: of the call that the actor plays for.
    """
    known = {
        key.at("sample", task=task, sample=sample, turn=turn).bytes: (task, sample, turn)
        for task in range(tasks)
        for sample in range(samples)
        for turn in range(MOST)
    }
    return lambda prompt, asked: script(*known[asked])
