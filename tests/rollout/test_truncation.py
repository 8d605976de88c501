"""A truncated distribution is what is sampled, scored and trained: `rollout.top_p` and `rollout.top_k`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import accumulate
from math import fsum, nan

import pytest
import torch

import gnomon
from gnomon.engines.base import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.learners import Batch
from gnomon.learners.base import Model
from gnomon.learners.local import LocalLearner
from gnomon.models import projection
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.projection import Truncation, logp_of
from gnomon.objectives import Coefficients, Denominators, Rollouts
from gnomon.types import Request, Sampling
from learners.sequences import made

PROMPT = (3, 14, 15)
TEMPERATURE = 3.0
TRUNCATIONS = [Truncation(top_k=3), Truncation(top_p=0.6), Truncation(top_p=0.9, top_k=4)]


def kept(scores: list[float], truncation: Truncation) -> set[int]:
    """The kept tokens of a tempered distribution, one token after the other."""
    order = sorted(range(len(scores)), key=lambda token: -scores[token])
    order = order[: truncation.top_k or len(order)]
    weights = [*accumulate(torch.tensor(scores, dtype=torch.float64)[order].softmax(0).tolist())]
    if truncation.top_p < 1:
        order = order[: 1 + sum(mass < truncation.top_p for mass in weights[:-1])]
    return {token for token, score in enumerate(scores) if score >= scores[order[-1]]}


def float64_policy() -> Policy:
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    policy.model.set_attn_implementation("sdpa")
    return policy


def next_logp(policy: Policy, ids: tuple[int, ...], truncation: Truncation) -> dict[int, torch.Tensor]:
    """Log-probabilities of the kept tokens, as transformers runs the model."""
    scores = policy.model(input_ids=torch.tensor([ids])).logits[0, -1] / TEMPERATURE
    tokens = sorted(kept(scores.tolist(), truncation))
    return dict(zip(tokens, scores[tokens].log_softmax(0), strict=True))


def reward(reply: tuple[int, ...]) -> float:
    return (7 * reply[0] + 3 * reply[1]) % 11 / 10


def of_replies(replies: list[tuple[int, ...]]) -> Batch:
    count = len(replies)
    return Batch(
        sequences=tuple(made(PROMPT, reply, nan, rollout=row) for row, reply in enumerate(replies)),
        rollouts=Rollouts(rewards=torch.zeros(1, count, dtype=torch.float64), lengths=torch.full((1, count), 2)),
        denominators=Denominators(groups=1, sequences=count, tokens=2 * count, max_tokens=2, group_tokens=(2 * count,)),
        temperature=TEMPERATURE,
        exact=False,
    )


@pytest.mark.parametrize("truncation", TRUNCATIONS, ids=str)
def test_the_expected_gradient_is_that_of_the_reward_of_the_truncated_policy(truncation):
    """Over all replies of two kept tokens, against autograd of Σ π(y)·R(y) as transformers computes it, in float64."""
    policy = float64_policy()
    chances = {
        (one, two): (first + second).exp()
        for one, first in next_logp(policy, PROMPT, truncation).items()
        for two, second in next_logp(policy, (*PROMPT, one), truncation).items()
    }
    torch.stack([reward(reply) * chance for reply, chance in chances.items()]).sum().backward()
    theirs = torch.cat([p.grad.flatten() for p in policy.state().values()])

    learner = LocalLearner(
        Policy.load(model_folder("tiny"), Precision.only(torch.float64)), truncation=truncation, micro_batch=12
    )
    batch = of_replies(list(chances))
    scored = [float(logp.sum()) for logp in learner.score(batch.sequences, TEMPERATURE)]
    assert fsum(torch.tensor(scored, dtype=torch.float64).exp().tolist()) == pytest.approx(1, abs=1e-12)
    weights = torch.tensor([chance.item() * reward(reply) for reply, chance in chances.items()], dtype=torch.float64)
    kappa = weights.repeat_interleave(2)
    nothing = torch.zeros(len(kappa))
    learner.forward_backward(batch, Coefficients(kappa=kappa, weight=nothing, clipped=nothing.bool()))
    ours = -torch.cat([p.grad.flatten() for p in learner.parameters.values()])
    assert len(chances) > 3 and theirs.abs().max() > 1e-4
    assert (ours - theirs).abs().max() <= 1e-11 * theirs.abs().max()


@pytest.mark.parametrize("truncation", TRUNCATIONS, ids=str)
def test_entropy_and_collision_are_those_of_the_kept_tokens(truncation):
    """Up to the rounding of a sum in float64."""
    own = torch.stack([*next_logp(float64_policy(), PROMPT, truncation).values()]).detach()
    policy = Policy.load(model_folder("tiny"), Precision.only(torch.float64))
    learner, batch = LocalLearner(policy, truncation=truncation), of_replies([(20, 21)])
    entropy = learner.score(batch.sequences, TEMPERATURE, Model.ENTROPY)[0][0]
    collision = learner.score(batch.sequences, TEMPERATURE, Model.COLLISION)[0][0]
    assert float(entropy) == pytest.approx(-float((own.exp() * own).sum()), abs=1e-9)
    assert float(collision) == pytest.approx(float((2 * own).exp().sum()), abs=1e-9)


def requests(truncation: Truncation, count: int) -> list[Request]:
    sampling = Sampling(
        max_tokens=12, temperature=TEMPERATURE, top_p=truncation.top_p, top_k=truncation.top_k, entropy=True
    )
    return [Request(prompt_ids=PROMPT, key=bytes([row]) * 16, sampling=sampling) for row in range(count)]


@pytest.mark.parametrize("truncation", TRUNCATIONS, ids=str)
def test_a_sampled_token_is_a_kept_one_and_the_learner_gives_it_the_same_bits(truncation):
    engine, learner = (
        Embedded(Policy.load(model_folder("tiny"))),
        LocalLearner(Policy.load(model_folder("tiny")), truncation=truncation),
    )
    found = asyncio.run(sample_all(engine, requests(truncation, 24)))
    sequences = [made(PROMPT, each.token_ids, rollout=row) for row, each in enumerate(found)]
    for each, logp in zip(found, learner.score(sequences, TEMPERATURE), strict=True):
        assert logp.tolist() == list(each.logprobs)
    policy = float64_policy()
    for each in found[:6]:
        for place, token in enumerate(each.token_ids):
            assert token in next_logp(policy, PROMPT + each.token_ids[:place], truncation)


def test_a_truncated_row_has_the_same_bits_beside_others():
    one, other, whole = (requests(truncation, 8) for truncation in (*TRUNCATIONS[:2], Truncation()))
    engine = Embedded(Policy.load(model_folder("tiny")))
    alone = [asyncio.run(sample_all(engine, some)) for some in (one, other, whole)]
    together = asyncio.run(sample_all(engine, [*one, *other, *whole]))
    assert [*together] == [each for some in alone for each in some]


def scores_of_every_kind() -> Iterator[torch.Tensor]:
    for seed, scale in enumerate((0.0, 1e-3, 1.0, 5.0, 300.0)):
        yield torch.randn(7, 41, generator=torch.Generator().manual_seed(seed)) * scale
    yield torch.randint(0, 3, (7, 41), generator=torch.Generator().manual_seed(9)).float()  # Many are equal.


@pytest.mark.parametrize("top_k", [0, 1, 5, 41, 1000])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.3, 1e-30])
def test_the_kept_tokens_are_the_likeliest(top_p, top_k):
    truncation = Truncation(top_p=top_p, top_k=top_k)
    for scores in scores_of_every_kind():
        logp = logp_of(scores, 1.0, truncation)
        for row, own in zip(scores.tolist(), logp, strict=True):
            assert set((own > -1e29).nonzero().flatten().tolist()) == kept(row, truncation)
        assert (logp.exp().sum(-1) - 1).abs().max() < 1e-5
    assert bool(logp_of(torch.full((2, 41), nan), 1.0, truncation).isnan().all())


def test_ranking_holds_no_more_than_a_few_rows(monkeypatch):
    """Ranks and sums of 256 rows of SmolLM2 took 0.25 GiB; a few rows at a time, no bit differs."""
    rows, held, ranked = torch.randn(300, 41, generator=torch.Generator().manual_seed(0)), [], projection.ascending
    monkeypatch.setattr(projection, "ascending", lambda scores: held.append(len(scores)) or ranked(scores))
    whole = logp_of(rows, 1.0, TRUNCATIONS[2])
    monkeypatch.setattr(projection, "CHUNK", projection.PARTS * 10 * 41)
    assert torch.equal(logp_of(rows, 1.0, TRUNCATIONS[2]), whole)
    assert held == [300] + [10] * 30


@pytest.mark.parametrize(
    "other",
    [
        {"engine": {"type": "vllm", "python": "python"}}, {"learner": "tinker:Some/model", "engine": "tinker"},
        {"optim": {"epochs": 2}}, {"optim": {"minibatches": 2}}, {"regularize": {"kl": 0.1}},
        {"rollout": {"lag": 1}}, {"rollout": {"replay": 0.5}}, {"rollout": {"failure_prefix": 0.5}},
        {"policy": {"attention": "transformers"}}, {"objective": "opsd"}, {"objective": "echo"},
    ],
    ids=str,
)  # fmt: skip
def test_a_ratio_to_other_kept_tokens_is_refused_before_the_run(tmp_path, other):
    rollout = {"top_p": 0.9, **other.get("rollout", {})}
    with pytest.raises(ConfigErrors, match=r"rollout\.top_p cannot be combined"):
        gnomon.train("char_count", run=tmp_path / "r", **{**other, "rollout": rollout})


def small(**more: object) -> dict[str, object]:
    rollout = {"prompts": 4, "group": 4, "top_p": 0.9, "entropy": True}
    return {"steps": 2, "rollout": rollout, "eval": {"tasks": 4}, "quiet": True, **more}


def test_a_run_samples_and_trains_the_truncated_policy_exactly(tmp_path):
    with gnomon.train("char_count", run=tmp_path / "r", **small()) as run:
        assert [step["metrics"]["logp_mismatch"] for step in run.metrics()] == [0, 0]


def test_a_sampler_that_agrees_up_to_rounding_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="in every bit"):
        gnomon.train("char_count", run=tmp_path / "r", **small(engine={"dtype": "bfloat16"}))
