"""The local learner: its gradient is the textbook's, whatever the split; its state continues to the bit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import NumericsError
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.base import Model
from gnomon.learners.local import LocalLearner, Terms
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import text_pass
from gnomon.objectives import Need, Reach, objective, penalties, reaches
from gnomon.rollout import Actor, pack
from gnomon.types import Sampling
from learners.sequences import Line, credited, lines, made

SAMPLING = Sampling(max_tokens=48, stop=("</answer>",))


@pytest.fixture(scope="module")
def batch() -> Batch:
    engine = Embedded(Policy.load(model_folder("tiny")))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=6, sampling=SAMPLING)
    tasks = [(i, CharCount().tasks("train")[i]) for i in range(10)]
    groups = asyncio.run(actor.collect(tasks, Key(1).at("test")))
    return credited(learner(), pack(groups, sampling=SAMPLING, exact=True), objective("dr_grpo"))


def learner(dtype: torch.dtype = torch.float32, **options: Any) -> LocalLearner:
    return LocalLearner(Policy.load(model_folder("tiny"), Precision.only(dtype)), **options)


def gradient(
    batch: Batch, dtype: torch.dtype = torch.float32, name: str = "dr_grpo", tokens: int = 3072
) -> torch.Tensor:
    mind = learner(dtype, micro_batch=tokens)
    mind.forward_backward(batch, objective(name))
    return torch.cat([p.grad.flatten() for p in mind.parameters.values()])


def textbook(batch: Batch) -> torch.Tensor:
    """−Σ A log π / S by plain autograd of the whole model as transformers runs it, one row at a time."""
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    policy.model.set_attn_implementation("sdpa")
    for line in lines(batch):
        ids = torch.tensor([line.prompt + line.reply])
        logits = policy.model(input_ids=ids).logits[0, len(line.prompt) - 1 : -1]
        logp = torch.log_softmax(logits, -1).gather(1, torch.tensor(line.reply)[:, None]).sum()
        (-line.advantage[0] * logp / batch.denominators.sequences).backward()
    return torch.cat([p.grad.flatten() for p in policy.state().values()])


def test_the_gradient_is_the_textbooks(batch):
    """REINFORCE with the batch's advantages, float64: both sum the same terms in another order."""
    ours, theirs = gradient(replace(batch, exact=False), torch.float64, "reinforce"), textbook(batch)
    assert theirs.abs().max() > 1e-4
    assert (ours - theirs).abs().max() <= 1e-12 * theirs.abs().max()


@pytest.mark.parametrize("tokens", [1, 150, 700, 10**6])
def test_the_gradient_is_the_same_for_any_split(batch, tokens):
    """Micro-batches of one prompt up to the whole batch: equal up to the rounding of a sum in float64."""
    exact = replace(batch, exact=False)
    whole = gradient(exact, torch.float64)
    assert (gradient(exact, torch.float64, tokens=tokens) - whole).abs().max() <= 1e-12 * whole.abs().max()


def test_micro_batches_hold_every_sequence_once_and_are_not_larger_than_they_must_be(batch):
    for tokens in (1, 100, 1000, 10**6):
        pieces = batch.micro_batches(tokens)
        assert sorted(place for piece in pieces for place in piece) == list(range(len(batch.sequences)))
        for piece in pieces:
            inputs = {tuple(batch.sequences[place].inputs.tolist()) for place in piece}
            passed = len({ids[:end] for ids in inputs for end in range(1, len(ids) + 1)})
            assert len(inputs) == 1 or passed <= 2 * tokens
    assert len(batch.micro_batches(10**6)) == 1


def test_sequences_that_are_equal_pass_through_the_model_once(batch, monkeypatch):
    """And each still has its own credit: the gradient is the textbook's, which takes them one by one (float64)."""
    passed, whole = [], Policy.hidden
    monkeypatch.setattr(Policy, "hidden", lambda self, ids, layout: passed.append(len(ids)) or whole(self, ids, layout))
    count = len(batch.sequences)
    repeated = batch.take([*range(count), *range(count), *range(count)])
    weight = torch.tensor([1.0, 2.0, -4.0], dtype=torch.float64).repeat_interleave(len(batch))
    repeated = replace(repeated, advantage=repeated.advantage * weight, exact=False)
    ours = gradient(repeated, torch.float64, "reinforce")
    moving = [line for line in lines(batch) if any(line.advantage)]
    distinct = {(line.prompt, line.reply) for line in moving}
    inputs = [prompt + reply[:-1] for prompt, reply in distinct]
    assert sum(passed) == len({ids[:end] for ids in inputs for end in range(1, len(ids) + 1)})
    assert len(distinct) < len(moving)
    theirs = textbook(repeated)
    assert (ours - theirs).abs().max() <= 1e-12 * theirs.abs().max()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("terms", [Terms(), Terms(entropy=0.01), Terms(full_kl=0.1)])
@pytest.mark.parametrize("name", ["dr_grpo", "maxrl"])
def test_threads_change_no_bit(batch, dtype, terms, name):
    """Two updates with micro-batches of at most a group; what is recorded is equal too."""
    precision = Precision(compute=getattr(torch, dtype))

    def trained(threads: int) -> tuple[LocalLearner, list[object]]:
        policy, reference = (Policy.load("tiny", precision) for _ in range(2))
        mind = LocalLearner(policy, terms=terms, reference=reference, micro_batch=40, threads=threads)
        rows, seen = replace(batch, exact=False), []
        for _ in range(2):
            known = torch.cat(list(map(torch.from_numpy, mind.score(batch.sequences)))).double()
            seen += [mind.forward_backward(replace(rows, proximal_logp=known), objective(name)), mind.optim_step(1e-3)]
        return mind, [*seen, *(score.tolist() for score in mind.score(batch.sequences, model=Model.ENTROPY))]

    (one, before), (several, after) = trained(1), trained(3)
    assert len(batch.micro_batches(40)) > 4 and before == after
    assert all(torch.equal(value, several.parameters[key]) for key, value in one.parameters.items())


def test_what_a_thread_raises_reaches_the_caller_and_the_learner_goes_on(batch):
    mind, broken = learner(micro_batch=40, threads=3), replace(objective("dr_grpo"), ratio=lambda tokens: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mind.forward_backward(batch, broken)
    mind.forward_backward(batch, objective("dr_grpo"))
    found = torch.cat([p.grad.flatten() for p in mind.parameters.values()])
    assert torch.equal(found, gradient(batch, tokens=40))


def test_sequences_without_credit_are_not_computed_and_do_not_matter(batch):
    mind = learner()
    stats = mind.forward_backward(batch, objective("dr_grpo"))
    alone = batch.take([place for place, line in enumerate(lines(batch)) if any(line.advantage)])
    assert 0 < len(alone.sequences) < len(batch.sequences)
    assert stats["trained"].value == len(alone)
    assert torch.equal(gradient(batch), gradient(alone))


def test_an_objective_is_told_which_tokens_were_demonstrated(batch):
    """Of every token, once in every micro-batch; and of none where the step does not say."""
    told = []

    @reaches(Reach.TOKEN)
    def ratio(tokens):
        told.append((tokens.sequence, tokens.demonstrated))
        return torch.ones_like(tokens.logp)

    row = replace(objective("luffy"), ratio=ratio)
    given = torch.arange(60).reshape(10, 6) % 5 == 2
    shown = replace(batch, rollouts=replace(batch.rollouts, demonstrated=given))
    learner(micro_batch=300).forward_backward(shown, row)
    assert len(told) == len(shown.micro_batches(300)) > 1 and any(mask.any() and not mask.all() for _, mask in told)
    assert all(torch.equal(mask, given.flatten()[sequence]) for sequence, mask in told)
    told.clear()
    learner(micro_batch=300).forward_backward(batch, row)
    assert told and not any(mask.any() for _, mask in told)


def test_a_step_without_credit_still_compares_the_numbers(batch):
    still = replace(batch, advantage=torch.zeros(len(batch)))
    stats = learner().forward_backward(still, objective("dr_grpo"))
    assert stats["trained"].value == 0 and stats["logp_mismatch"].value == 0.0


def test_a_wrong_log_probability_stops_an_exact_run(batch):
    first = next(place for place, line in enumerate(lines(batch)) if any(line.advantage))
    behavior = batch.sequences[first].behavior_logp.clone()
    behavior[0] -= 1e-6
    off = told_otherwise(batch, lambda place, told: behavior if place == first else told)
    with pytest.raises(NumericsError, match="E202"):
        learner().forward_backward(off, objective("dr_grpo"))
    stats = learner().forward_backward(replace(off, exact=False), objective("dr_grpo"))
    assert 5e-7 < stats["logp_mismatch"].value < 2e-6


def told_otherwise(batch: Batch, change: Callable[[int, torch.Tensor], torch.Tensor]) -> Batch:
    """The batch with other log-probabilities of the sampler. Args: change: place of a sequence and what it reported."""
    changed = (replace(s, behavior_logp=change(place, s.behavior_logp)) for place, s in enumerate(batch.sequences))
    return replace(batch, sequences=tuple(changed))


def test_saved_and_loaded_it_goes_on_to_the_bit(batch, tmp_path: Path):
    straight = learner()
    for _ in range(2):
        straight.forward_backward(replace(batch, exact=False), objective("dr_grpo"))
        straight.optim_step(1e-3)
    straight.save_state(tmp_path)
    again = learner()
    again.load_state(tmp_path)
    for mind in (straight, again):
        mind.forward_backward(replace(batch, exact=False), objective("dr_grpo"))
        mind.optim_step(1e-3)
    assert again.version == straight.version == 3
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters.values(), again.parameters.values(), strict=True))


def test_a_version_counts_optimiser_steps_also_after_a_resume(batch, tmp_path: Path):
    """Of four, two and one optimiser steps."""
    mind, found = learner(), []
    for count in (4, 2, 1):
        ready = credited(mind, replace(batch, exact=False), objective("dr_grpo"), updates=4)
        for part in ready.updates(1, count, Key(0).at("test")):
            mind.forward_backward(part, objective("dr_grpo"))
            mind.optim_step(1e-3)
        mind.save_state(tmp_path)
        mind = learner()
        mind.load_state(tmp_path)
        found.append(mind.publish().version)
    assert found == [4, 6, 7]


def test_a_checkpoint_is_a_model_folder(batch, tmp_path: Path):
    mind = learner()
    mind.forward_backward(batch, objective("dr_grpo"))
    mind.optim_step(1e-3)
    mind.save_state(tmp_path)
    loaded = Policy.load(tmp_path)
    assert all(torch.equal(mind.parameters[n], p) for n, p in loaded.state().items())


def test_chunks_of_the_vocabulary_change_nothing(batch, monkeypatch):
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    some = batch.take(range(12))
    results = []
    for chunk in (2**22, 102 * 40, 102 * 17):
        monkeypatch.setattr("gnomon.models.projection.CHUNK", chunk)
        monkeypatch.setattr("gnomon.models.projection.FEW", 1)
        policy.model.zero_grad()
        logp = policy(text_pass(policy, some.sequences)).logp
        logp.pow(2).sum().backward()
        results.append((logp.detach(), torch.cat([p.grad.flatten() for p in policy.state().values()])))
    for logp, grad in results[1:]:
        assert (logp - results[0][0]).abs().max() < 1e-13
        assert (grad - results[0][1]).abs().max() <= 1e-12 * results[0][1].abs().max()


def moved(batch: Batch, name: str = "dr_grpo", updates: int = 2) -> tuple[LocalLearner, Batch]:
    """A float64 learner one step away from where the batch was prepared for several updates."""
    mind = learner(torch.float64)
    bare = replace(batch, exact=False)
    ready = credited(mind, bare, objective(name), updates=updates)
    mind.forward_backward(ready, objective(name))
    mind.optim_step(1e-3)
    return mind, ready


def token_logp(policy: Policy, line: Line) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of a reply's tokens and whole next-token distributions, as transformers runs the model."""
    policy.model.set_attn_implementation("sdpa")
    logits = policy.model(input_ids=torch.tensor([line.prompt + line.reply])).logits
    logp = torch.log_softmax(logits[0, len(line.prompt) - 1 : -1], -1)
    return logp.gather(1, torch.tensor(line.reply)[:, None])[:, 0], logp


def grads(policy: Policy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in policy.state().values()])


def twin(mind: LocalLearner) -> Policy:
    """A copy of the learner's policy, for plain autograd."""
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    policy.update({name: value.detach() for name, value in mind.parameters.items()})
    return policy


def test_a_second_update_is_held_by_the_clip_around_where_the_step_began(batch):
    """The gradient after one optimiser step is that of min(ρA, clip(ρ)A)/L_max, ρ against the step's beginning."""
    mind, ready = moved(batch)
    stats = mind.forward_backward(ready, objective("dr_grpo"))
    policy, sizes = twin(mind), batch.denominators
    for line in lines(ready):
        if any(line.advantage):
            logp, _ = token_logp(policy, line)
            ratio = (logp - torch.tensor(line.proximal_logp, dtype=torch.float64)).exp()
            gain = torch.minimum(ratio * line.advantage[0], ratio.clamp(0.8, 1.2) * line.advantage[0]).sum()
            (-gain / (sizes.sequences * sizes.max_tokens)).backward()
    ours = torch.cat([p.grad.flatten() for p in mind.parameters.values()])
    assert (ours - grads(policy)).abs().max() <= 1e-11 * grads(policy).abs().max()
    assert stats["drift"].value > 1e-6 and 0 < stats["clipped"].value < 0.5


def test_the_first_update_has_neither_drift_nor_clip(batch):
    mind = learner()
    ready = credited(mind, batch, objective("dr_grpo"), updates=2)
    stats = mind.forward_backward(ready, objective("dr_grpo"))
    assert stats["logp_mismatch"].value == stats["drift"].value == stats["clipped"].value == 0.0


def test_a_sampler_apart_is_corrected_in_a_single_update(batch):
    """A token that its sampler thought e times less likely weighs as much as the cap allows.

    Up to 1e-5: where the sampler agrees its float32 log-probabilities are rounded, and weighed by e to that rounding.
    """
    apart = replace(told_otherwise(batch, lambda place, told: told - 1), exact=False)
    weighed, plain = gradient(apart, torch.float64, "tis"), gradient(replace(batch, exact=False), torch.float64, "tis")
    assert (weighed - 2.0 * plain).abs().max() <= 1e-5 * plain.abs().max()


def test_minibatches_hold_every_group_once_and_have_sizes_of_their_own(batch):
    parts = list(batch.updates(2, 3, Key(0).at("test")))
    assert len(parts) == 6
    for epoch in (parts[:3], parts[3:]):
        assert sorted(s.rollout for part in epoch for s in part.sequences) == [s.rollout for s in batch.sequences]
        for name in ("groups", "sequences", "tokens"):
            whole = getattr(batch.denominators, name)
            assert sum(getattr(part.denominators, name) for part in epoch) == whole
        for part in epoch:
            assert part.denominators.tokens == len(part) == len(part.advantage)
            assert part.denominators.groups == len({sequence.group for sequence in part.sequences})
    assert [part.sequences for part in parts[:3]] != [part.sequences for part in parts[3:]]
    assert list(batch.updates(1, 1, Key(0).at("test"))) == [batch]
    assert len(list(batch.updates(1, 99, Key(0).at("test")))) == batch.denominators.groups


@pytest.mark.parametrize("kind", ["k2", "k3"])
def test_the_pull_to_a_reference_is_the_textbooks(batch, kind):
    """Also on rows without credit: −λ·(estimate of KL) per token, summed and divided as the row divides."""
    mind = learner(torch.float64)
    away = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    with torch.no_grad():
        for place, value in enumerate(away.state().values()):
            value.add_(0.02 * torch.sin(torch.arange(value.numel(), dtype=value.dtype) + place).reshape(value.shape))
    mind.reference = away
    row = replace(objective("reinforce"), penalty=getattr(penalties, kind), penalty_weight=0.3)
    ready = credited(mind, replace(batch, exact=False), row)
    still = replace(ready, advantage=torch.zeros(len(ready)))
    mind.forward_backward(still, row)
    policy = twin(mind)
    for line in lines(batch):
        logp, _ = token_logp(policy, line)
        apart = logp - token_logp(away, line)[0].detach()
        estimate = apart.square() / 2 if kind == "k2" else (-apart).exp() - 1 + apart
        (0.3 * estimate.sum() / batch.denominators.sequences).backward()
    ours = torch.cat([p.grad.flatten() for p in mind.parameters.values()])
    assert (ours - grads(policy)).abs().max() <= 1e-11 * grads(policy).abs().max()


def test_an_entropy_bonus_is_the_whole_distributions(batch, monkeypatch):
    """The gradient of c·H(π(·|prefix)) summed over tokens, whatever the chunks of the vocabulary."""
    monkeypatch.setattr("gnomon.models.projection.CHUNK", 102 * 40)
    monkeypatch.setattr("gnomon.models.projection.FEW", 1)
    mind = learner(torch.float64, terms=Terms(entropy=0.25))
    still = replace(batch, exact=False, advantage=torch.zeros(len(batch)))
    mind.forward_backward(still, objective("reinforce"))
    policy = twin(mind)
    for line in lines(batch):
        _, logp = token_logp(policy, line)
        (0.25 * (logp.exp() * logp).sum() / batch.denominators.sequences).backward()
    ours = torch.cat([p.grad.flatten() for p in mind.parameters.values()])
    assert (ours - grads(policy)).abs().max() <= 1e-11 * grads(policy).abs().max()


def test_a_whole_divergence_is_climbed_down_exactly(batch, monkeypatch):
    """The gradient of −c·KL(π(·|prefix)‖ref(·|prefix)) summed over tokens, at a temperature, whatever the chunks."""
    monkeypatch.setattr("gnomon.models.projection.CHUNK", 102 * 40)
    monkeypatch.setattr("gnomon.models.projection.FEW", 1)
    away = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    with torch.no_grad():
        for place, value in enumerate(away.state().values()):
            value.add_(0.02 * torch.sin(torch.arange(value.numel(), dtype=value.dtype) + place).reshape(value.shape))
    mind = learner(torch.float64, terms=Terms(full_kl=0.25), reference=away)
    still = replace(batch, exact=False, advantage=torch.zeros(len(batch)), temperature=0.7)
    stats = mind.forward_backward(still, objective("reinforce"))
    policy, total = twin(mind), 0.0
    for line in lines(batch):
        logp, theirs = (torch.log_softmax(token_logp(p, line)[1] / 0.7, -1) for p in (policy, away))
        apart = (logp.exp() * (logp - theirs.detach())).sum()
        (0.25 * apart / batch.denominators.sequences).backward()
        total += float(apart.detach())
    ours = torch.cat([p.grad.flatten() for p in mind.parameters.values()])
    assert grads(policy).abs().max() > 1e-6
    assert (ours - grads(policy)).abs().max() <= 1e-11 * grads(policy).abs().max()
    assert stats["kl"].value == pytest.approx(total / batch.denominators.tokens, rel=1e-12)
    assert all(parameter.grad is None for parameter in away.state().values())


def test_a_whole_divergence_needs_its_reference():
    with pytest.raises(ValueError, match="reference"):
        learner(terms=Terms(full_kl=0.1))


def test_what_an_objective_asks_for_and_a_learner_lacks_is_named(batch):
    row = replace(objective("reinforce"), needs=frozenset({Need.VALUES}))
    with pytest.raises(ValueError, match="no critic"):
        credited(learner(), batch, row)


def test_the_scores_of_successes_have_the_moments_of_plain_autograd(batch):
    """Every success's ∇log π in the projection, by autograd of the whole model; then two loops over pairs."""
    counted = replace(batch.rollouts, rewards=(batch.rollouts.rewards > 0.5).double())
    assert (counted.rewards.sum(1) >= 2).sum() >= 2
    mind = learner(torch.float64)
    won = replace(batch, exact=False, advantage=torch.ones(len(batch)), rollouts=counted)
    stats = mind.forward_backward(won, objective("maxrl"))
    policy, pulls, scatters = twin(mind), [], []
    for group, rewards in enumerate(counted.rewards.tolist()):
        right = [line for line in lines(batch) if line.group == group and rewards[line.rollout % 6]]
        scores = [
            torch.autograd.grad(token_logp(policy, line)[0].sum(), policy.projection.weight)[0].flatten()
            for line in right
        ]
        if len(scores) >= 2:
            pairs = [float(a @ b) for i, a in enumerate(scores) for j, b in enumerate(scores) if i != j]
            pulls.append(sum(pairs) / len(pairs))
            scatters.append(sum(float(a @ a) for a in scores) / len(scores) - pulls[-1])
    assert stats["score_signal"].value == pytest.approx(sum(pulls) / len(pulls), rel=1e-9)
    assert stats["score_scatter"].value == pytest.approx(sum(scatters) / len(scatters), rel=1e-9)


@pytest.mark.parametrize("reply", [[20, 21], [20]])
def test_a_token_that_nothing_precedes_cannot_be_trained(reply: list[int]) -> None:
    """Its log-probability would be read after a token of another sequence."""
    with pytest.raises(NumericsError, match=r"E205(.|\n)*rollout 3, group 1(.|\n)*fix: begin token_ids with"):
        made([], reply, rollout=3, group=1)
