"""Requests over the shipped policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from engines.asking import ask
from gnomon.engines import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.types import Completion, Request

PROMPTS = (
    "Compute 12 + 30 - 7. End with <answer>...</answer>\n",
    'How many "a" are in "banana"?\n',
    "Use 3, 4, 5\n",
    "z",
)


@pytest.fixture(scope="session")
def policy() -> Policy:
    return Policy.load(model_folder("tiny"))


@pytest.fixture()
def engine(policy: Policy) -> Embedded:
    return Embedded(policy)


@pytest.fixture()
def requests(policy: Policy) -> list[Request]:
    """Groups of unequal size, prompts of unequal length (one of a single token), limits from 1 to 90."""
    limits = (1, 90, 33, 2, 64, 17, 32, 31)
    return [
        ask(policy, prompt, s, limits[(s + i) % 8], entropy=s % 3 == 0)
        for i, prompt in enumerate(PROMPTS)
        for s in range(3 + 4 * i)
    ]


@pytest.fixture()
def sample() -> Callable[[Embedded, Sequence[Request]], list[Completion]]:
    return lambda engine, requests: asyncio.run(sample_all(engine, requests))
