"""The scripted engine keeps the same protocol."""

from __future__ import annotations

import asyncio

from engines.asking import ask
from gnomon.engines import Engine
from gnomon.engines.scripted import Scripted
from gnomon.types import Finish


def test_it_says_what_it_is_told(policy):
    engine: Engine = Scripted(policy.tokenizer, lambda prompt, place: f"{len(prompt)}#{place}")
    first, second = asyncio.run(engine.sample([ask(policy, "abc"), ask(policy, "abcd", limit=2)]))
    assert first.text == "3#0" and first.finish is Finish.STOP and first.logprobs == (0.0, 0.0, 0.0)
    assert second.text == "4#" and second.finish is Finish.LENGTH
