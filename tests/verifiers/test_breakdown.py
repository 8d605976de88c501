"""The reward breakdown adds up: returns to the reward, variances to its within-group variance, shares to one."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from gnomon.stats import merge
from gnomon.types import Completion, Finish, Group, Part, Rollout, Status, Stop, Task, Turn, Verdict
from gnomon.verifiers.breakdown import breakdown, entries, lines


def drawn(seed: int, groups: int = 6, size: int = 5) -> list[list[dict[str, float]]]:
    rng = random.Random(seed)
    return [
        [
            {"correct": float(rng.random() < 0.4), "format": 0.1 * rng.random(), "tool": rng.gauss(0, 2)}
            for _ in range(size)
        ]
        for _ in range(groups)
    ]


def exactly(groups, name):
    """Covariance of a part with the reward within groups, per rollout, without rounding."""
    total, size = Fraction(0), 0
    for group in groups:
        rewards = [sum(map(Fraction, entry.values())) for entry in group]
        own = [Fraction(entry[name]) for entry in group]
        mean, centre = sum(rewards) / len(group), sum(own) / len(group)
        total += sum((x - centre) * (r - mean) for x, r in zip(own, rewards, strict=True))
        size += len(group)
    return total / size


@pytest.mark.parametrize("seed", range(5))
def test_parts_add_up_to_the_return_and_to_the_variance(seed):
    """Against exact arithmetic; 1e-12 is room for the rounding of sums of thirty numbers near 1."""
    groups = drawn(seed)
    metrics = {name: stat.value for name, stat in breakdown(groups).items()}
    rewards = [[sum(map(Fraction, entry.values())) for entry in group] for group in groups]
    size = sum(map(len, rewards))
    whole = sum(sum((r - sum(group) / len(group)) ** 2 for r in group) for group in rewards) / size
    for name in ("correct", "format", "tool"):
        assert metrics[f"breakdown/{name}/variance"] == pytest.approx(float(exactly(groups, name)), abs=1e-12)
    assert sum(exactly(groups, name) for name in ("correct", "format", "tool")) == whole
    variance = math.fsum(value for name, value in metrics.items() if name.endswith("/variance"))
    assert variance == pytest.approx(float(whole), abs=1e-12)
    paid = math.fsum(value for name, value in metrics.items() if name.endswith("/return"))
    assert paid == pytest.approx(float(sum(map(sum, rewards)) / size), abs=1e-12)


def test_shares_sum_to_one():
    metrics = [{name: stat.value for name, stat in breakdown(drawn(seed)).items()} for seed in range(4)]
    found = lines(metrics)
    assert [line.part for line in found] == ["correct", "format", "tool"]
    assert math.fsum(line.return_share for line in found) == pytest.approx(1.0, abs=1e-15)
    assert math.fsum(line.variance_share for line in found) == pytest.approx(1.0, abs=1e-15)


def test_a_part_that_everybody_is_paid_teaches_nothing():
    group = [{"correct": float(i == 0), "format": 0.5} for i in range(4)]
    by = {line.part: line for line in lines([{k: s.value for k, s in breakdown([group]).items()}])}
    assert by["format"].return_share == pytest.approx(2 / 3) and by["format"].variance_share == 0.0
    assert by["correct"].variance_share == 1.0


def test_ties_have_no_shares_and_are_counted():
    """The rounded mean of three tenths is no tenth, so a tie is told by equal rewards and not by a small variance."""
    assert math.fsum([0.1] * 3) / 3 != 0.1
    tied = [{"a": 0.1, "b": 0.0}] * 3
    stats = breakdown([tied, tied])
    assert stats["breakdown/tied"].value == 1.0 and stats["breakdown/a/variance"].value == 0.0
    assert [line.variance_share for line in lines([{k: s.value for k, s in stats.items()}])] == [None, None]
    mixed = breakdown([tied, [{"a": 0.0}, {"a": 1.0}]])
    assert mixed["breakdown/tied"].value == 0.5
    assert [round(line.variance_share, 12) for line in lines([{k: s.value for k, s in mixed.items()}])] == [1.0, 0.0]


def test_breakdowns_of_two_halves_merge_to_that_of_the_whole():
    a, b = drawn(1, groups=3), drawn(2, groups=7)
    merged = merge(breakdown(a), breakdown(b))
    for name, stat in breakdown(a + b).items():
        assert merged[name].value == pytest.approx(stat.value, abs=1e-12)


def test_a_shut_gate_pays_nothing_and_a_broken_judge_is_left_out():
    task = Task(id="0", messages=(), answer=None)
    gated = Part(name="tool", value=4.0, gate="correct")

    def group(*verdicts: Verdict) -> Group:
        done = Completion(token_ids=(1,), logprobs=(0.0,), text="", finish=Finish.EOS, version=0)
        turn = Turn(prompt_ids=(1,), completion=done)
        rollouts = [
            Rollout(task=task, sample=i, turns=(turn,), verdict=verdict, stop=Stop.DONE)
            for i, verdict in enumerate(verdicts)
        ]
        return Group(task=task, index=0, rollouts=tuple(rollouts))

    right, wrong = (
        Verdict(status=s, parts=(Part(name="correct", value=v), gated))
        for s, v in ((Status.CORRECT, 1.0), (Status.WRONG, 0.0))
    )
    assert entries([group(right, wrong)]) == [[{"correct": 1.0, "tool": 4.0}, {"correct": 0.0, "tool": 0.0}]]
    assert entries([group(right, Verdict(status=Status.FAILED, parts=()))]) == []
    assert breakdown([]) == {} and lines([{"reward": 1.0}]) == ()
