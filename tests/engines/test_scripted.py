"""The scripted engine keeps the same protocol."""

from __future__ import annotations

import asyncio

from engines.asking import ask
from gnomon.engines import Engine, sample_all
from gnomon.engines.scripted import Scripted
from gnomon.types import Finish


def test_it_replies_as_it_is_written(policy):
    engine: Engine = Scripted(policy.tokenizer, lambda prompt, key: f"{len(prompt)}#{len(key)}")
    first, second = asyncio.run(sample_all(engine, [ask(policy, "abc"), ask(policy, "abcd", limit=2)]))
    assert first.text == "3#16" and first.finish is Finish.STOP and first.logprobs == (0.0,) * 4
    assert second.text == "4#" and second.finish is Finish.LENGTH
