"""What credit carries from step to step is passed in and out, kept in checkpoints, and right by hand."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from gnomon.errors import ModelError
from gnomon.learners import Batch
from gnomon.learners.credit import Crediting, credit
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.objectives import (
    CreditState,
    Denominators,
    Objective,
    Rollouts,
    mean_per_rollout,
    mean_per_step,
    objective,
    optimal_value_per_task,
)
from learners.sequences import made

RATE = 0.95
RECALLS = {"step": mean_per_step, "rollout": mean_per_rollout}
REWARDS = [[[1.0, 0.0, 0.5], [0.25, 1.0, 0.0]], [[-1.0, 2.0, 0.0], [0.5, 0.5, 3.0]]]
PLAYERS = {"one player": [[0, 0, 0], [0, 0, 0]], "two players": [[0, 0, 0], [1, 1, 1]], "mixed": [[2, 0, 2], [0, 0, 2]]}
CASES = [*product(RECALLS, PLAYERS)]


def batch(rewards: list[list[float]], players: list[list[int]]) -> Batch:
    """Rollouts of one to three tokens."""
    lengths = [[1, 2, 3], [3, 1, 2]]
    flat = [size for sizes in lengths for size in sizes]
    sequences = tuple(made([1], [2] * n, rollout=place, group=place // 3) for place, n in enumerate(flat))
    seen = Rollouts(
        rewards=torch.tensor(rewards, dtype=torch.float64), lengths=torch.tensor(lengths), player=torch.tensor(players)
    )
    sizes = Denominators(groups=2, sequences=6, tokens=12, max_tokens=3, group_tokens=(6, 6))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=False)


def row(recall: str) -> Objective:
    found = objective("rae", mean_per=recall)
    assert found.recall is RECALLS[recall]
    return found


def by_hand(recall: str, steps: list[Batch]) -> tuple[list[list[float]], dict[int, float]]:
    """The advantage of every rollout of every step, with one dictionary of means."""
    means: dict[int, float] = {}
    found = []
    for one in steps:
        rewards, players = one.rollouts.rewards.flatten().tolist(), one.rollouts.players.flatten().tolist()
        if recall == "step":
            found.append([r - means.get(p, 0.0) for r, p in zip(rewards, players, strict=True)])
            for player in set(players):
                own = [r for r, p in zip(rewards, players, strict=True) if p == player]
                means[player] = RATE * means.get(player, 0.0) + (1 - RATE) * sum(own) / len(own)
            continue
        found.append([])
        for reward, player in zip(rewards, players, strict=True):
            found[-1].append(reward - means.get(player, 0.0))
            means[player] = RATE * means.get(player, 0.0) + (1 - RATE) * reward
    return found, means


@pytest.mark.parametrize(("recall", "players"), CASES)
def test_advantages_and_means_are_those_by_hand(recall: str, players: str) -> None:
    steps = [batch(rewards, PLAYERS[players]) for rewards in REWARDS]
    wanted, means = by_hand(recall, steps)
    state = CreditState()
    for one, expected in zip(steps, wanted, strict=True):
        before = state
        found, state = credit(one, row(recall), state=before)
        again, same = credit(one, row(recall), state=before)  # Nothing is kept in between.
        assert state == same and torch.equal(again.advantage, found.advantage)
        of_tokens = [expected[rollout] for rollout in found.rollout.tolist()]
        assert found.advantage.tolist() == pytest.approx(of_tokens, abs=1e-12)
    assert state.means == pytest.approx(means, abs=1e-12)


@pytest.mark.parametrize(("recall", "players"), CASES)
def test_a_rollout_is_never_compared_with_its_own_reward(recall: str, players: str) -> None:
    """Its advantage moves by as much as its reward; what comes before it in the step does not move."""
    one = batch(REWARDS[0], PLAYERS[players])
    state = CreditState(means={0: 0.3, 1: -0.2, 2: 0.1})
    plain, _ = RECALLS[recall](one.rollouts, state)
    for place in range(6):
        rewards = one.rollouts.rewards.clone()
        rewards.view(-1)[place] += 10
        other, _ = RECALLS[recall](replace(one.rollouts, rewards=rewards), state)
        assert torch.equal(other.flatten()[: place + 1], plain.flatten()[: place + 1])


@pytest.mark.parametrize("recall", RECALLS)
@pytest.mark.parametrize("shared", [False, True])
def test_saved_and_loaded_it_goes_on_to_the_bit(recall: str, shared: bool, tmp_path: Path) -> None:
    learner = LocalLearner(Policy.load("tiny"))
    straight, again = (Crediting(row(recall), shared=shared) for _ in range(2))
    first, second = (batch(rewards, PLAYERS["two players"]) for rewards in REWARDS)
    straight(first, learner)
    straight.state = replace(straight.state, steps=3)
    straight.save_state(tmp_path)
    again.load_state(tmp_path)
    assert again.state == straight.state and len(straight.state.means) == (1 if shared else 2)
    assert torch.equal(straight(second, learner).advantage, again(second, learner).advantage)
    assert again.state == straight.state


def visit(rewards: list[list[float]], tasks: list[list[int]]) -> Batch:
    one = batch(rewards, PLAYERS["one player"])
    return replace(one, rollouts=replace(one.rollouts, task=torch.tensor(tasks)))


def test_visits_of_tasks_are_remembered_and_blended_in(tmp_path: Path) -> None:
    """By hand, over three steps with a checkpoint after the second: mean and variance are those of the visits'
    means and variances, and a group of a single reward is judged by them."""
    steps = [
        ([[1.0, 0.0, 0.5], [0.25, 1.0, 0.0]], [7, 9]),
        ([[1.0, 1.0, 1.0], [0.5, 0.0, 1.0]], [7, 8]),
        ([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]], [7, 5]),
    ]
    learner, row = LocalLearner(Policy.load("tiny")), objective("dcpo", epsilon=0.0)
    credits = Crediting(row)
    past: dict[int, list[list[float]]] = {}
    found = []
    for number, (rewards, tasks) in enumerate(steps):
        one = visit(rewards, [[task] * 3 for task in tasks])
        ready = credits(one, learner)
        found = [values[0] for values in ready.by_rollout(ready.advantage)]
        wanted = []
        for task, group in zip(tasks, rewards, strict=True):
            past.setdefault(task, []).append(group)
            visits = past[task]
            means = [statistics.fmean(seen) for seen in visits]
            mean = statistics.fmean(means)
            spread = statistics.fmean([statistics.variance(seen) for seen in visits]) + statistics.pvariance(means)
            for reward in group:
                own = statistics.stdev(group)
                now = (reward - means[-1]) / own if own else 0.0
                whole = (reward - mean) / math.sqrt(spread) if spread else 0.0
                n = len(visits)
                blends = (whole + (n - 1) * now) / n, (now + (n - 1) * whole) / n
                wanted.append(now if n == 1 else min(blends, key=abs))
        assert found == pytest.approx(wanted, abs=1e-12)
        if number == 1:
            credits.save_state(tmp_path)
            credits = Crediting(row)
            credits.load_state(tmp_path)
    assert credits.state.visits[7, 0][0] == 3 and credits.state.visits.keys() == {(7, 0), (9, 0), (8, 0), (5, 0)}
    assert any(found[:3]) and not any(found[3:])


def test_a_group_of_one_reward_moves_once_its_task_was_seen_otherwise() -> None:
    learner, credits = LocalLearner(Policy.load("tiny")), Crediting(objective("dcpo"))
    first = credits(visit([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [[7] * 3, [9] * 3]), learner)
    assert not first.advantage[:6].any() and first.advantage[6:].all()
    second = credits(visit([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[7] * 3, [9] * 3]), learner)
    assert not second.advantage[:6].any() and bool((second.advantage[6:] > 0).all())
    with pytest.raises(ValueError, match="task"):
        credits(batch(REWARDS[0], PLAYERS["one player"]), learner)


def test_the_value_of_a_task_is_that_of_its_first_visit(tmp_path: Path) -> None:
    """By hand; at that visit from the other rollouts alone; kept in checkpoints."""

    def soft(rewards: list[float]) -> float:
        return 0.5 * math.log(sum(math.exp(2 * r) for r in rewards) / len(rewards))

    learner, row = LocalLearner(Policy.load("tiny"), reference=Policy.load("tiny")), objective("a_star_po")
    straight, again = Crediting(row), Crediting(row)
    visits = []
    for rewards, tasks in zip(REWARDS, ([[7] * 3, [9] * 3], [[9] * 3, [8] * 3]), strict=True):
        one = batch(rewards, PLAYERS["one player"])
        visits.append(replace(one, rollouts=replace(one.rollouts, task=torch.tensor(tasks))))
    (first, other), (second, third) = REWARDS
    found = straight(visits[0], learner)
    wanted = [r - soft(g[:i] + g[i + 1 :]) for g in (first, other) for i, r in enumerate(g)]
    assert [values[0] for values in found.by_rollout(found.advantage)] == pytest.approx(wanted, abs=1e-12)
    assert straight.state.values == pytest.approx({(7, 0): soft(first), (9, 0): soft(other)})
    straight.save_state(tmp_path)
    again.load_state(tmp_path)
    assert again.state == straight.state
    found = again(visits[1], learner)
    wanted = [r - soft(other) for r in second] + [r - soft(third[:i] + third[i + 1 :]) for i, r in enumerate(third)]
    assert [values[0] for values in found.by_rollout(found.advantage)] == pytest.approx(wanted, abs=1e-12)
    assert (
        set(again.state.values) == {(7, 0), (8, 0), (9, 0)} and again.state.values[9, 0] == straight.state.values[9, 0]
    )
    alone = Rollouts(rewards=torch.tensor([[3.0]]), lengths=torch.ones(1, 1).long(), task=torch.tensor([[1]]))
    assert optimal_value_per_task(alone, CreditState(), temperature=0.5)[0].tolist() == [[0.0]]
    with pytest.raises(ValueError, match="which task"):
        optimal_value_per_task(replace(alone, task=None), CreditState(), temperature=0.5)


def test_an_objective_without_a_past_leaves_the_state_as_it_is() -> None:
    state = CreditState(means={0: 0.5})
    assert credit(batch(REWARDS[0], PLAYERS["mixed"]), objective("rloo"), state=state)[1] is state


def test_a_checkpoint_of_an_older_gnomon_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)E322.*credit\.safetensors"):
        Crediting(objective("rae")).load_state(tmp_path)
