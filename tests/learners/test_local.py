"""The local learner: its gradient is the textbook's, whatever the split; its state continues to the bit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gnomon.learners.local as local
from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import NumericsError
from gnomon.keys import Key
from gnomon.learners import Batch, pack
from gnomon.learners.batch import prompts_and_rows
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.scoring import packed_logp
from gnomon.objectives import objective
from gnomon.rollout import Actor
from gnomon.types import Sampling

SAMPLING = Sampling(max_tokens=48, stop=("</answer>",))


@pytest.fixture(scope="module")
def batch() -> Batch:
    engine = Embedded(Policy.load(model_folder("tiny")))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=6, sampling=SAMPLING)
    tasks = [(i, CharCount().tasks("train")[i]) for i in range(10)]
    groups = asyncio.run(actor.collect(tasks, Key(1).at("test")))
    return learner().prepare(pack(groups, sampling=SAMPLING, exact=True), objective("dr_grpo"))


def learner(dtype: torch.dtype = torch.float32, **options: float) -> LocalLearner:
    return LocalLearner(Policy.load(model_folder("tiny"), dtype), lr=1e-3, steps=10, **options)


def gradient(batch: Batch, dtype: torch.dtype = torch.float32, name: str = "dr_grpo") -> torch.Tensor:
    mind = learner(dtype)
    mind.forward_backward(batch, objective(name))
    return torch.cat([p.grad.flatten() for p in mind.parameters.values()])


def textbook(batch: Batch) -> torch.Tensor:
    """−Σ A log π / S by plain autograd of the whole model as transformers runs it, one row at a time."""
    policy = Policy.load(model_folder("tiny"), torch.float64)
    policy.model.set_attn_implementation("sdpa")
    for row in batch.rows:
        ids = torch.tensor([row.prompt_ids + row.token_ids])
        logits = policy.model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1]
        logp = torch.log_softmax(logits, -1).gather(1, torch.tensor(row.token_ids)[:, None]).sum()
        (-row.advantage[0] * logp / batch.denominators.sequences).backward()
    return torch.cat([p.grad.flatten() for p in policy.state().values()])


def test_the_gradient_is_the_textbooks(batch):
    """REINFORCE with the batch's advantages, float64: both sum the same terms in another order."""
    ours, theirs = gradient(replace(batch, exact=False), torch.float64, "reinforce"), textbook(batch)
    assert theirs.abs().max() > 1e-4
    assert (ours - theirs).abs().max() <= 1e-12 * theirs.abs().max()


@pytest.mark.parametrize("tokens", [1, 150, 700, 10**6])
def test_the_gradient_is_the_same_for_any_split(batch, tokens, monkeypatch):
    """Micro-batches of one prompt up to the whole batch: equal up to the rounding of a sum in float64."""
    exact = replace(batch, exact=False)
    whole = gradient(exact, torch.float64)
    monkeypatch.setattr(local, "TOKENS", tokens)
    assert (gradient(exact, torch.float64) - whole).abs().max() <= 1e-12 * whole.abs().max()


def test_micro_batches_hold_every_row_once_and_whole_prompts(batch):
    for tokens in (1, 100, 1000, 10**6):
        pieces = list(batch.micro_batches(batch.rows, tokens))
        assert [row for piece in pieces for row in piece] == list(batch.rows)
    assert len(list(batch.micro_batches(batch.rows, 10**6))) == 1


def test_rows_without_credit_are_not_computed_and_do_not_matter(batch):
    mind = learner()
    stats = mind.forward_backward(batch, objective("dr_grpo"))
    moving = [row for row in batch.rows if any(row.advantage)]
    assert 0 < len(moving) < len(batch.rows)
    assert stats["trained"].value == sum(len(row.token_ids) for row in moving)
    alone = replace(batch, rows=tuple(moving))
    assert torch.equal(gradient(batch), gradient(alone))


def test_an_objective_is_told_which_tokens_were_demonstrated(batch, monkeypatch):
    """Of every token, in every micro-batch; and of none where the step does not say."""
    told = []

    def ratio(tokens):
        told.append((tokens.sequence, tokens.demonstrated))
        return torch.ones_like(tokens.logp)

    row = replace(objective("luffy"), ratio=ratio)
    monkeypatch.setattr(local, "TOKENS", 300)
    given = torch.arange(60).reshape(10, 6) % 5 == 2
    shown = replace(batch, rollouts=replace(batch.rollouts, demonstrated=given))
    learner().forward_backward(shown, row)
    assert len(told) > 1 and any(mask.any() and not mask.all() for _, mask in told)
    assert all(torch.equal(mask, given.flatten()[sequence]) for sequence, mask in told)
    told.clear()
    learner().forward_backward(batch, row)
    assert told and all(mask is None for _, mask in told)


def test_a_step_without_credit_still_compares_the_numbers(batch):
    still = replace(batch, rows=tuple(replace(row, advantage=(0.0,) * len(row.token_ids)) for row in batch.rows))
    stats = learner().forward_backward(still, objective("dr_grpo"))
    assert stats["trained"].value == 0 and stats["logp_gap"].value == 0.0


def test_a_wrong_log_probability_stops_an_exact_run(batch):
    first = next(row for row in batch.rows if any(row.advantage))
    off = (first.behavior_logp[0] - 1e-6, *first.behavior_logp[1:])
    rows = tuple(replace(row, behavior_logp=off) if row is first else row for row in batch.rows)
    with pytest.raises(NumericsError, match="E202"):
        learner().forward_backward(replace(batch, rows=rows), objective("dr_grpo"))
    stats = learner().forward_backward(replace(batch, rows=rows, exact=False), objective("dr_grpo"))
    assert 5e-7 < stats["logp_gap"].value < 2e-6


def test_saved_and_loaded_it_goes_on_to_the_bit(batch, tmp_path: Path):
    straight = learner()
    for _ in range(2):
        straight.forward_backward(replace(batch, exact=False), objective("dr_grpo"))
        straight.optim_step()
    straight.save_state(tmp_path)
    again = learner()
    again.load_state(tmp_path)
    for mind in (straight, again):
        mind.forward_backward(replace(batch, exact=False), objective("dr_grpo"))
        mind.optim_step()
    assert again.version == straight.version == 3
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters.values(), again.parameters.values(), strict=True))


def test_a_checkpoint_is_a_model_folder(batch, tmp_path: Path):
    mind = learner()
    mind.forward_backward(batch, objective("dr_grpo"))
    mind.optim_step()
    mind.save_state(tmp_path)
    loaded = Policy.load(tmp_path)
    assert all(torch.equal(mind.parameters[n], p) for n, p in loaded.state().items())


def test_chunks_of_the_vocabulary_change_nothing(batch, monkeypatch):
    policy = Policy.load(model_folder("tiny"), torch.float64)
    prompts, rows = prompts_and_rows(batch.rows[:12])
    results = []
    for chunk in (2**22, 102 * 40, 102 * 17):
        monkeypatch.setattr("gnomon.models.scoring.CHUNK", chunk)
        policy.model.zero_grad()
        logp, _ = packed_logp(policy, prompts, rows)
        logp.pow(2).sum().backward()
        results.append((logp.detach(), torch.cat([p.grad.flatten() for p in policy.state().values()])))
    for logp, grad in results[1:]:
        assert (logp - results[0][0]).abs().max() < 1e-13
        assert (grad - results[0][1]).abs().max() <= 1e-12 * results[0][1].abs().max()


def test_the_rate_rises_and_falls():
    mind = learner(floor=0.1, warmup=4)
    rates = [mind.rate(version) for version in range(1, 11)]
    assert rates[0] == pytest.approx(0.25e-3) and max(rates) == rates[3] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(1e-4) and rates[3:] == sorted(rates[3:], reverse=True)
