"""No tensor is made without its device: every part runs where a forgotten one would land on a device without data."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gnomon.engines.base import sample_all
from gnomon.engines.embedded import Embedded
from gnomon.learners import Batch
from gnomon.learners.base import Model
from gnomon.learners.coefficients import coefficients
from gnomon.learners.credit import Crediting
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner, Terms
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.objectives import TABLE, Denominators, Need, Rollouts, objective
from gnomon.types import Request, Sampling
from learners.sequences import made


def batch(turns: int) -> Batch:
    """Two groups of two rollouts, the first of which is as long as two blocks of attention."""
    sizes = [[40, 3], [2, 5]]
    flat = [size for row in sizes for size in row]
    sequences = [made((5, 9 + at // 2), range(20, 20 + n), rollout=at, group=at // 2) for at, n in enumerate(flat)]
    if turns == 2:  # The second token of each was read and not sampled.
        sequences = [replace(s, trainable=s.trainable & (torch.arange(len(s.token_ids)) != 3)) for s in sequences]
        sequences = [
            replace(s, behavior_logp=s.behavior_logp[1:], version=s.version[1:], turn=s.turn[1:] * 0 + 1)
            for s in sequences
        ]
    lengths = torch.tensor(sizes) - (turns - 1)
    seen = Rollouts(
        rewards=torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64),
        lengths=lengths,
        answers=torch.tensor([[0, 1], [0, 0]]),
        segment=torch.zeros(int(lengths.sum()), dtype=torch.int64),
        demonstrated=torch.tensor([[False, True], [False, True]]),
    )
    total = int(lengths.sum())
    counts = Denominators(
        groups=2, sequences=4, tokens=total, max_tokens=48, group_tokens=tuple(lengths.sum(1).tolist())
    )
    return Batch(sequences=tuple(sequences), rollouts=seen, denominators=counts, temperature=0.9, exact=False)


def learner(critic: bool) -> LocalLearner:
    return LocalLearner(
        Policy.load("tiny"),
        terms=Terms(entropy=0.01, full_kl=0.1),
        reference=Policy.load("tiny"),
        critic=Critic(Policy.load("tiny"), lr=1e-3) if critic else None,
    )


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("name", ["ppo", "dr_grpo", "gspo", "maxrl", "online_dpo"])
def test_a_learner_makes_nothing_on_the_default_device(name: str, turns: int, tmp_path: Path) -> None:
    """And it ends with the same weights as without the trap."""
    row, found = objective(name), []
    for trap in ("cpu", "meta"):
        mind, again = (learner(Need.VALUES in row.asks) for _ in range(2))
        engine, past = Embedded(Policy.load("tiny")), Past(every=1, keep=2)
        ready = Crediting(row)(batch(turns), mind, updates=2)
        with torch.device(trap):
            scores = [mind.score(ready.sequences, 0.9, model) for model in Model if model != "critic" or mind.critic]
            for part in (ready.take([0, 1]), ready):
                mind.forward_backward(part, row)
                mind.optim_step(1e-3)
            weights = mind.publish()
            engine.load(weights)
            past.remember(weights, 0)
            folder = tmp_path / trap
            folder.mkdir()
            mind.save_state(folder)
            past.save_state(folder)
            again.load_state(folder)
            past.load_state(folder)
        found.append((scores, again.parameters, engine.policy.state(), past.first.read()))
    (scores, *states), (other, *others) = found
    flat = [[values.tolist() for model in each for values in model] for each in (scores, other)]
    assert flat[0] == flat[1]
    for one, two in zip(states, others, strict=True):
        assert all(torch.equal(value, two[key]) and two[key].device.type == "cpu" for key, value in one.items())


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_sampler_makes_nothing_on_the_default_device(temperature: float) -> None:
    """Short and long prompts, some of them equal, and more requests than rows join at once."""
    prompts = [(5,), (5, 6, 7), (5, 6, 7), tuple(range(4, 44)), (9, 8)]
    requests = [
        Request(
            prompt_ids=prompt, key=bytes([at]) * 16, sampling=Sampling(max_tokens=3 + 7 * at, temperature=temperature)
        )
        for at, prompt in enumerate(prompts)
    ]
    found, gaps = [], []
    for trap in ("cpu", "meta"):
        engine = Embedded(Policy.load("tiny"))
        with torch.device(trap):
            gaps.append(engine.measure(prompts, rows=2, tokens=40))
            found.append(asyncio.run(sample_all(engine, requests)))
    assert found[0] == found[1] and gaps[0] == gaps[1]
    assert all(len(completion.token_ids) > 0 for completion in found[0])


@pytest.mark.parametrize("name", TABLE)
def test_the_coefficients_of_every_row_stay_on_the_device_of_their_tokens(name: str) -> None:
    row, one = objective(name), batch(1)
    total = len(one)
    logp = -1 - torch.arange(total, dtype=torch.float64) / 7
    ready = replace(one, advantage=logp.sin(), proximal_logp=logp + 0.01, reference_logp=logp - 0.02)
    plain = coefficients(ready, logp, row)
    with torch.device("meta"):
        trapped = coefficients(ready, logp, row)
    for part in ("kappa", "weight", "clipped"):
        assert torch.equal(getattr(plain, part), getattr(trapped, part))
