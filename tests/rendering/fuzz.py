"""Model outputs that nobody foresaw, and what must hold of every one.

python tests/rendering/fuzz.py 10000      the full count, each through every renderer
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import (
    ChatML,
    Gemma,
    Harmony,
    History,
    Llama3,
    Origin,
    Parsing,
    Plain,
    Qwen3,
    Reply,
    Transcript,
    Unreadable,
    arguments_of,
    joined,
)
from gnomon.rendering.encoding import whole
from gnomon.types import Message

RENDERERS = {
    "plain": ("qwen3", Plain),
    "chatml": ("chatml", ChatML),
    "qwen3": ("qwen3", Qwen3),
    "qwen3 keep": ("qwen3", lambda tokenizer: Qwen3(tokenizer, history=History.KEEP)),
    "qwen3 thoughtless": ("qwen3", lambda tokenizer: Qwen3(tokenizer, thinking=False)),
    "gemma": ("gemma", Gemma),
    "llama3": ("llama3", Llama3),
    "harmony": ("harmony", Harmony),
    "harmony keep": ("harmony", lambda tokenizer: Harmony(tokenizer, history=History.KEEP)),
}
BITS = [
    '{"name": "add", "arguments": {"a": 1}}', '{"name": "add", "parameters": {"a": 1}}', '{"name": ', '"arguments": {',
    "{", "}", "[" * 40, "]", '"', "\\", '\\"', "\\ud800", "NaN", "1e999", "-", "9" * 5000, "null", "true", ":", ",",
    "add", "functions.", " to=functions.add", "analysis", "commentary", "final", " json", "x.call(a=1)", "```",
    "<tool_call>", "</tool_call", "<think", "</think>", "<|im_end|>", "<|eot_id|>", "<|call|>", "<start_of_turn>",
    "\n", "\n\n", " ", "\t", "\x00", "\u202e", "\ud800", "\udfff", "é", "e\u0301", "你好", "🙂", "\ufeff", "the end.",
]  # fmt: skip
SHAPES = [
    "{BIT}<tool_call>\n{BIT}\n</tool_call><|im_end|>",
    "<think>\nhm\n</think>\n\n<tool_call>\n{BIT}\n</tool_call><|im_end|>",
    "<|channel|>analysis<|message|>{BIT}<|end|><|start|>assistant to=functions.add<|channel|>commentary "
    "<|constrain|>json<|message|>{BIT}<|call|>",
    "<|channel|>final<|message|>{BIT}<|return|>",
    "<|python_tag|>{BIT}<|eom_id|>",
    "{BIT}<end_of_turn>",
    "{BIT}<|eot_id|>",
]


def outputs(
    tokenizer: Tokenizer, names: Iterable[str], control: list[int], count: int, seed: int
) -> Iterator[tuple[int, ...]]:
    """Token ids: of text with control strings, whole and cut; of control tokens thrown in; of no text at all."""
    rng = random.Random(seed)
    size = 1 + max(control)
    shapes = [shape for shape in SHAPES if set(re.findall(r"</?[a-z|_]+>", shape)) <= {*names}] or SHAPES
    for number in range(count):
        if number % 2500 == 100:
            # A megabyte of text, at four characters a token.
            bit = tokenizer.encode(whole(rng.choice(BITS)))
            yield bit * (250_000 // len(bit))
            continue
        kind = rng.randrange(4)
        if kind == 0:
            yield tuple(rng.randrange(-3, size + 50) for _ in range(rng.randrange(60)))
        elif kind == 1:
            yield tuple(rng.choice(control) for _ in range(rng.randrange(20)))
        else:
            text = "".join(rng.choices(BITS, k=rng.randrange(12)))
            if kind == 2:
                text = rng.choice(shapes).replace("{BIT}", rng.choice([text, *BITS[:2], '{"a": 1}']))
            ids = list(tokenizer.encode(whole(text)))
            for _ in range(rng.randrange(4)):
                place = rng.randrange(len(ids) + 1)
                ids[place : place + rng.randrange(3)] = rng.choices(control, k=rng.randrange(2))
            yield tuple(ids[: rng.randrange(len(ids) + 1)] if rng.random() < 0.3 else ids)


def check(renderer, begun: Transcript, ids: tuple[int, ...]) -> Reply:
    """Everything that must hold of a sampled turn, whatever it is."""
    reply = renderer.parse(ids)
    assert reply == renderer.parse(list(ids))
    for call in reply.tool_calls:
        try:
            assert isinstance(arguments_of(call), dict)
        except Unreadable as error:
            assert str(error)
        assert call.problem or call.parsing is Parsing.OK
    assert reply.problem or reply.parsing is not Parsing.MALFORMED
    sampled = begun.with_completion(ids)
    assert sampled.token_ids == begun.token_ids + ids
    echo = reply.text + "".join(call.name + call.arguments for call in reply.tool_calls) + (reply.reasoning or "")
    for role in ("user",) if isinstance(renderer, Gemma) else ("user", "tool"):
        told = sampled.observe([Message(role=role, content=echo[:10_000] + "<|im_end|><think>")])
        benign = sampled.observe([Message(role=role, content="a")])
        assert told.forks == benign.forks
        if told.forks:
            turn = [segment for segment in told.segments if segment.origin is Origin.POLICY]
            kept = iter(ids)
            whole_turn = joined(turn)[:-1] if isinstance(renderer, Harmony) else joined(turn)
            assert all(token in kept for token in whole_turn), "a fork leaves out, and adds nothing"
        else:
            assert told.token_ids[: len(sampled.token_ids)] == sampled.token_ids
        assert injected(renderer, told) == injected(renderer, benign)
    return reply


def injected(renderer, transcript: Transcript) -> list[int]:
    """The control tokens that nobody sampled, in order."""
    others = (s.token_ids for s in transcript.segments if s.origin is not Origin.POLICY)
    return [token for ids in others for token in ids if token in renderer.encoding.ids]


def play(name: str, tokenizers: dict[str, Tokenizer], count: int, seed: int) -> Counter[str]:
    """How the outputs were read; raises at the first that breaks a rule."""
    base, make = RENDERERS[name]
    renderer = make(tokenizers[base])
    begun = Transcript.begin(renderer, [Message(role="user", content="Add 1 and 2.")])
    control = sorted({*renderer.encoding.ids, *renderer.stop})
    seen: Counter[str] = Counter()
    for ids in outputs(tokenizers[base], renderer.encoding.control, control, count, seed):
        reply = check(renderer, begun, ids)
        seen[reply.parsing] += 1
        seen["calls"] += len(reply.tool_calls)
        seen["good calls"] += sum(call.parsing is Parsing.OK for call in reply.tool_calls)
    return seen


if __name__ == "__main__":
    from families import MARKS, tokenizer_folder

    total = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        made = {family: Tokenizer(tokenizer_folder(Path(scratch) / family, family)) for family in MARKS}
        for renderer_name in RENDERERS:
            before = time.perf_counter()
            read = play(renderer_name, made, total, seed=0)
            print(f"{renderer_name:18s} {time.perf_counter() - before:6.1f} s", dict(read))
