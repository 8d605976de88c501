"""Any decoder of transformers, through our one attention: the same numbers as its own, twice to the bit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from gnomon.engines import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import packed_logp, score
from gnomon.types import Completion, Request, Sampling
from models.characters import tokenizer
from models.kinds import KINDS, WINDOW, save, text
from models.small import small

Row = tuple[int, tuple[int, ...]]


PROMPTS = tuple(text(place, length) for place, length in enumerate((1, 5, 40, 33)))
BATCHES: dict[str, list[tuple[int, int]]] = {
    "one row": [(1, 37)],
    "one row of one token": [(1, 1)],
    "one token after one token": [(0, 1)],
    "a prompt of one token": [(0, 40), (0, 3), (0, 32)],
    "one row after a prompt of one token": [(0, 9)],
    "one prompt, ragged rows": [(2, length) for length in (1, 70, 33, 32, 31, 64, 5, 2, 40)],
    "several prompts": [(prompt, 1 + 13 * row % 50) for prompt in range(4) for row in range(2 + prompt)],
    "no two rows share": [(0, 20), (1, 35), (2, 33), (3, 50)],
}
"""For every row, the index of its prompt and its length."""


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(request.param, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    torch.set_num_threads(1)
    return Policy.load(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """The same weights under transformers' own attention."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def plain(model: Any, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row]) -> Tensor:
    """Log-probabilities of the rows' tokens, one sequence at a time."""
    found = []
    for prompt, row in rows:
        whole = torch.tensor(prompts[prompt] + row)
        logp = torch.log_softmax(model(whole[None]).logits[0, :-1], -1)
        found.append(logp.gather(1, whole[1:, None])[len(prompts[prompt]) - 1 :, 0])
    return torch.cat(found)


def rows_of(batch: str) -> tuple[list[tuple[int, ...]], list[Row]]:
    """The prompts that the batch uses, and its rows."""
    used = sorted({prompt for prompt, _ in BATCHES[batch]})
    return [PROMPTS[p] for p in used], [(used.index(p), text(9 * i + p, n)) for i, (p, n) in enumerate(BATCHES[batch])]


def sample(policy: Policy, batch: str, temperature: float = 1.0) -> tuple[list[tuple[int, ...]], list[Completion]]:
    requests = [
        Request(
            prompt_ids=PROMPTS[prompt],
            key=Key(0).at("test", row=row).bytes,
            sampling=Sampling(max_tokens=length, temperature=temperature),
        )
        for row, (prompt, length) in enumerate(BATCHES[batch])
    ]
    return [request.prompt_ids for request in requests], asyncio.run(sample_all(Embedded(policy), requests))


@pytest.mark.parametrize("batch", BATCHES)
def test_scoring_equals_transformers(policy: Policy, model: Any, batch: str) -> None:
    prompts, rows = rows_of(batch)
    with torch.inference_mode():
        expected = plain(model, prompts, rows)
    found = score(policy, prompts, rows)
    assert len(found) == 1 or found.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_decoding_equals_scoring_in_every_bit(policy: Policy, batch: str, temperature: float) -> None:
    prompts, completions = sample(policy, batch, temperature)
    used = list(dict.fromkeys(prompts))
    rows = [(used.index(prompt), c.token_ids) for prompt, c in zip(prompts, completions, strict=True)]
    found = score(policy, used, rows, temperature)
    assert found.tolist() == [logp for c in completions for logp in c.logprobs]


@pytest.mark.parametrize("batch", ["one prompt, ragged rows", "several prompts"])
def test_a_shared_prompt_counts_as_one_of_its_own(policy: Policy, batch: str) -> None:
    prompts, rows = rows_of(batch)
    alone = torch.cat([score(policy, [prompts[prompt]], [(0, row)]) for prompt, row in rows])
    torch.testing.assert_close(score(policy, prompts, rows), alone, rtol=0, atol=1e-5)


def test_gradients_equal_transformers(policy: Policy, model: Any) -> None:
    prompts, rows = rows_of("several prompts")
    weight = torch.linspace(-1, 1, sum(len(row) for _, row in rows))
    for held in (policy.model, model):
        held.zero_grad()
    (packed_logp(policy, prompts, rows)[0] * weight).sum().backward()  # type: ignore[no-untyped-call]
    (plain(model, prompts, rows) * weight).sum().backward()  # type: ignore[no-untyped-call]
    for (name, mine), theirs in zip(policy.state().items(), model.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4, msg=f"the gradient of {name} differs")


def test_the_window_ends_where_it_should(tmp_path: Path) -> None:
    """Three sliding layers see 3 · (window − 1) tokens back, and not one more."""
    policy = Policy.load(save("gemma3 with a cap", tmp_path))
    near, row = text(1, 3 * (WINDOW - 1)), text(7, 40)
    one, other = (score(policy, [(first, *near)], [(0, row)]) for first in (5, 90))
    assert one[0] != other[0]
    assert torch.equal(one[1:], other[1:])


def test_the_gradient_of_sinks_equals_transformers_in_float64(tmp_path: Path) -> None:
    """And of every other parameter, over texts that share a beginning and are longer than a window and than a span."""
    saved("gpt_oss", tmp_path)
    policy = Policy.load(tmp_path, Precision.only(torch.float64), whole=Packed)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
    )
    prompts, rows = [text(3, 150)], [(0, text(seed, length)) for seed, length in ((5, 3), (6, 140), (7, 40))]
    packed_logp(policy, prompts, rows)[0].sum().backward()  # type: ignore[no-untyped-call]
    plain(model.eval(), prompts, rows).sum().backward()  # type: ignore[no-untyped-call]
    theirs = {name: value.grad for name, value in model.named_parameters()}
    sinks = [name for name in theirs if name.endswith("sinks")]
    assert len(sinks) == model.config.num_hidden_layers
    for name, mine in policy.state().items():
        # Norms and rotary angles are computed in float32 in both.
        bound = 1e-6 * float(theirs[name].abs().max())
        torch.testing.assert_close(mine.grad, theirs[name], rtol=0, atol=bound, msg=f"the gradient of {name} differs")


def test_keys_that_are_of_no_token_are_refused(tmp_path: Path) -> None:
    """DeepSeek-V4 attends to compressed keys of earlier tokens, besides its sinks."""
    saved("deepseek_v4", tmp_path)
    with pytest.raises(ModelError, match=r"policy.attention=transformers") as caught:
        Policy.load(tmp_path, whole=Packed)
    assert caught.value.code == "E308"


def saved(family: str, folder: Path) -> None:
    """A small random model of the family, as a folder."""
    small(family).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
