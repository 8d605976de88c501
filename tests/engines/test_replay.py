"""Passes that are replayed compute what passes started from Python compute, in every bit.

Without a GPU, a captured pass is one that is started again from Python, but with the layout as it was when the pass was
captured: as in a graph, what a later pass needs must come from the tensors that are copied.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gnomon.engines.decoder import Decoder
from gnomon.engines.replay import Replay, Watched, capture_pass
from gnomon.keys import Key
from gnomon.models.decode import Decode
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.types import Completion, Request, Sampling
from models.kinds import KINDS, save
from models.test_families import FAMILIES, model_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXPERTS = ("mixtral", "qwen3 experts")
WAITING = ("gpt_oss", "deepseek_v3", *EXPERTS)
"""Families that wait for values of the device where torch has no kernel for a dtype."""


def requests(prompts: tuple[int, ...] = (3, 40, 150, 300), rows: int = 5, tokens: int = 70) -> list[Request]:
    """Completions of many lengths, so that rows leave and slots are closed up; spans and blocks are crossed."""
    rng = random.Random(0)
    texts = [tuple(rng.randrange(2, 100) for _ in range(length)) for length in prompts]
    return [
        Request(
            prompt_ids=text,
            key=Key(0).at("replay", prompt=place, row=row).bytes,
            sampling=Sampling(max_tokens=tokens - (11 * (place * rows + row)) % 40, temperature=1.0),
        )
        for place, text in enumerate(texts)
        for row in range(rows)
    ]


def frozen(decoder: Decoder) -> Callable[[Callable[[], Tensor]], Callable[[], Tensor]]:
    """In the place of `capture_pass` where there is no GPU."""

    def capture(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        replay, layout = decoder._replay, copy(decoder._layout)
        assert replay is not None
        read = replay._read
        return lambda: decoder.policy.hidden(read[0], layout)

    return capture


def decoded(policy: Policy, asked: list[Request], late: list[Request], replayed: bool) -> tuple[list[Completion], int]:
    """Completions, and how many passes were replayed. Args: late: requests that join after 20 tokens."""
    decoder = Decoder(policy)
    capture = capture_pass if DEVICE == "cuda" else frozen(decoder)
    decoder._replay = Replay(policy, decoder._layout, capture) if replayed else None
    found: dict[int, Completion] = {}
    for request in asked:
        decoder.admit(request)
    for step in range(400):
        if step == 20:
            for request in late:
                decoder.admit(request)
        if step == 30:
            with torch.no_grad():
                for value in policy.state().values():  # Weights change under way, as when they are loaded in flight.
                    value.mul_(1.01)
            decoder.renew(1)
        if step >= 30 and not decoder.rows:
            break
        found.update(decoder.step())
    with torch.no_grad():
        for value in policy.state().values():
            value.div_(1.01)
    return [found[number] for number in sorted(found)], decoder._replay.count if decoder._replay else 0


def folder_of(name: str, place: Path) -> Path:
    if name == "tiny":
        return TINY
    return model_of(FAMILIES[name], place) if name in EXPERTS else save(name, place)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["tiny", *KINDS, *EXPERTS])
def test_replayed_passes_have_the_bits_of_others(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path)
    if dtype is torch.float16 and name.startswith("gemma"):
        pytest.skip("it overflows in float16, and is refused")
    asked, late = requests(), requests((20, 130), 3, 40)
    found = []
    for replayed in (False, True):
        policy = Policy.load(folder, Precision.only(dtype), DEVICE)
        found.append(decoded(policy, asked, late, replayed))
    (plain, none), (same, count) = found
    assert none == 0 and len(plain) == len(asked) + len(late)
    assert count == 0 if name in WAITING else count > 20
    assert [(c.token_ids, c.logprobs) for c in plain] == [(c.token_ids, c.logprobs) for c in same]


@pytest.mark.parametrize("fails", ["a value is read", "the capture fails"])
def test_a_model_that_cannot_be_captured_is_not_tried_again(fails: str) -> None:
    policy, asked, tries = Policy.load("tiny", device=DEVICE), requests((5, 150), 3, 50), []
    hidden = policy.hidden

    def reading(ids: Tensor, layout: Decode) -> Tensor:
        return hidden(ids, layout) if ids[0].item() >= 0 else ids

    def capture(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        tries.append(work)
        raise RuntimeError("out of memory")

    if fails == "a value is read":
        policy.hidden = reading  # type: ignore[method-assign]
    decoder = Decoder(policy)
    decoder._replay = Replay(policy, decoder._layout, capture)
    for request in asked:
        decoder.admit(request)
    for _ in range(30):
        decoder.step()
    assert len(decoder.rows) > 0 and len(tries) == (fails == "the capture fails") and decoder._replay.count == 0


def test_operations_that_wait_for_the_device_are_noticed() -> None:
    """Those that no graph can hold, and none of the others."""
    x, where = torch.arange(6.0, device=DEVICE), torch.tensor([0, 2], device=DEVICE)
    waiting = [lambda: x[0].item(), lambda: x[x > 2], lambda: x.nonzero(), lambda: x.masked_select(x > 2)]
    waiting += [lambda: bool((x > 2).all()), lambda: x.unique()]
    for device in ("meta", "cuda") if DEVICE == "cuda" else ("meta",):
        waiting += [lambda to=device: torch.tensor([1.0], device=to), lambda to=device: torch.tensor(1.0).to(to)]
    waiting += [lambda: x.cpu()] if DEVICE == "cuda" else []
    free = [
        lambda: torch.tensor(2.0) * x,
        lambda: x[where],
        lambda: x.clone(),
        lambda: x * 2.0,
        lambda: x.masked_fill(x > 2, 0.0),
        lambda: x.bfloat16(),
    ]
    for works, expected in ((waiting, True), (free, False)):
        for work in works:
            with torch.inference_mode(), Watched() as watched:  # As the decoder does.
                work()
            assert watched.waits is expected
