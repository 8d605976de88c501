"""Which count weight serves a metric best: against enumeration, quadrature and what can be derived."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from scipy.integrate import quad
from scipy.special import betaln
from torch import Tensor

from gnomon.objectives import family_weight, rl2ml, update_scale
from gnomon.theory import (
    GainTerms,
    KnownChance,
    Member,
    Posterior,
    Scored,
    Scores,
    attainable_gain,
    best_member,
    best_scale,
    family_gains,
    family_parameters,
    gain_terms,
    local_sensitivity,
    metric,
    metric_gain,
    odds_sensitivity,
    scored_terms,
    slope_square,
    success_scatter,
)
from gnomon.theory.curves import tilt
from gnomon.theory.exact import moments, multisets
from gnomon.theory.world import World, correct, outcomes, world

BENCH = Path(__file__).parents[2] / "benchmarks/sensitivity.py"
METRICS = ["log p", "pass@1", "pass@2", "pass@4"]
SLOPES: dict[str, Callable[[float], float]] = {
    "log p": lambda p: 1 / p,
    "pass@1": lambda p: 1.0,
    "pass@2": lambda p: 2 * (1 - p),
    "pass@4": lambda p: 4 * (1 - p) ** 3,
}
"""M′(p)."""
SOLVED = {Posterior(0, 8): 5.0, Posterior(1, 7): 3.0, Posterior(5, 3): 2.0, Posterior(8, 0): 1.0}


def scale(family: str, parameter: float, group: int) -> tuple[float, ...]:
    return update_scale(family_weight(group, family=family, parameter=parameter))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("family", "parameter"), [("A", -0.5), ("A", 1.0), ("B", 0.5), ("C", 0.7), ("D", 1.4)])
def test_the_terms_are_gain_and_square_of_a_step(family: str, parameter: float, name: str) -> None:
    """In the world of 15 answers: E[g]·∇M and E|g|² of the row, each in units of |∇log(p/(1−p))|²."""
    place, group = world(), 3
    policy = place.logits()
    possible = outcomes(place, policy, correct)
    score = place.per_answer(place.scores(policy))
    p = float(possible.chance @ possible.reward)
    right = possible.chance * possible.reward / p
    mean = right @ score
    size = float(mean @ mean) / (1 - p) ** 2
    scatter = float(right @ (score - mean).square().sum(dim=1)) / size
    found = moments(rl2ml(family, parameter), place, policy=policy, behavior=policy, possible=possible, group=group)  # type: ignore[arg-type]
    worth = gain_terms({KnownChance(p): 1.0}, group=group, of=metric(name), noise=scatter)
    s = scale(family, parameter, group)
    first = SLOPES[name](p) * float(found.mean @ mean) * p / size
    assert math.fsum(x * a for x, a in zip(s, worth.sensitivity, strict=True)) == pytest.approx(first, rel=1e-10)
    square = (found.variance + float(found.mean @ found.mean)) / size
    assert math.fsum(x * x * b for x, b in zip(s, worth.noise, strict=True)) == pytest.approx(square, rel=1e-10)
    assert metric_gain(s, worth) == pytest.approx(first**2 / square, rel=1e-10)


@pytest.mark.parametrize("name", METRICS)
def test_what_was_seen_is_averaged_over(name: str) -> None:
    """Beta posteriors by their closed form and by quadrature, to the error that quadrature states.

    A prompt's sensitivity |∇log p|² is (1−p)² of what that of the log-odds is, in sensitivity and in noise alike.
    """
    group, noise = 5, 2.0
    found = gain_terms(SOLVED, group=group, of=metric(name), noise=noise)
    for count in range(1, group + 1):

        def average(value: Callable[[float], float], count: int = count) -> float:
            total = 0.0
            for seen, weight in SOLVED.items():
                won, lost = 1 + seen.successes, 1 + seen.failures
                ways = math.comb(group, count)

                def density(p: float, won: int = won, lost: int = lost, ways: int = ways) -> float:
                    own = p ** (won - 1) * (1 - p) ** (lost - 1) * math.exp(-betaln(won, lost))
                    return own * ways * p**count * (1 - p) ** (group - count) * value(p)

                total += weight * quad(density, 0, 1, epsabs=1e-13)[0]
            return total / sum(SOLVED.values())

        worth = average(lambda p: SLOPES[name](p) * p * (1 - p) ** 2)
        square = average(lambda p, count=count: (1 - p) ** 2 + noise / count)  # type: ignore[misc]
        assert found.sensitivity[count] == pytest.approx(worth, rel=1e-9)
        assert found.noise[count] == pytest.approx(square, rel=1e-9)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_for_one_prompt_the_best_scale_is_that_of_family_c(name: str, noise: float) -> None:
    """s(K) ∝ K/(K + t/ℓ), t/ℓ = τ/(1−p)²; known, or seen so often that its posterior is a point."""
    group, p = 4, 0.3
    ratio = noise / (1 - p) ** 2
    for belief, limit in ((KnownChance(p), 1e-12), (Posterior(30_000_000, 70_000_000), 1e-6)):
        worth = gain_terms({belief: 1.0}, group=group, of=metric(name), noise=noise)
        expected = [0.0, *(k / (k + ratio) * (group + ratio) / group for k in range(1, group + 1))]
        assert best_scale(worth) == pytest.approx(expected, rel=limit)
        assert best_member("C", worth, [group / (group + ratio)]).share == pytest.approx(1, rel=limit)
        near = best_member("C", worth)
        assert abs(near.parameter - group / (group + ratio)) <= 0.05


@pytest.mark.parametrize("family", "ABCD")
def test_reinforce_where_noise_is_all_and_maximum_likelihood_where_there_is_none(family: str) -> None:
    """For log p; of several prompts without noise, of one with much. The ends are members of every family."""
    none = gain_terms(SOLVED, group=5, of=metric("log p"), noise=0.0)
    assert best_member(family, none) == Member(parameter=1.0, share=pytest.approx(1, rel=1e-12))
    much = gain_terms({KnownChance(0.4): 1.0}, group=5, of=metric("log p"), noise=1e9)
    assert best_member(family, much) == Member(parameter=0.0, share=pytest.approx(1, rel=1e-7))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("family", "ABCD")
def test_no_member_gains_more_than_the_best_scale(family: str, name: str) -> None:
    worth = gain_terms(SOLVED, group=7, of=metric(name), noise=3.0)
    most = attainable_gain(worth)
    assert metric_gain(best_scale(worth), worth) == pytest.approx(most, rel=1e-12)
    found = family_gains(family, worth)
    assert [choice.parameter for choice in found] == list(family_parameters(family, 7))
    for choice in found:
        exact = metric_gain(scale(family, choice.parameter, 7), worth) / most
        assert choice.share == pytest.approx(exact, rel=1e-12) and 0 <= exact <= 1 + 1e-12
    assert best_member(family, worth) in found
    assert best_member(family, worth).share == max(choice.share for choice in found)


def test_metrics_of_harder_prompts_ask_for_more_than_reinforce() -> None:
    """Pass@k looks at prompts that are seldom solved, the more so the larger k."""
    best = [best_member("A", gain_terms(SOLVED, group=8, of=metric(name), noise=2.0)).parameter for name in METRICS[1:]]
    assert best[0] < best[1] < best[2]


def test_the_length_of_a_scale_is_nothing_to_its_gain() -> None:
    worth = gain_terms(SOLVED, group=3, of=metric("pass@1"), noise=1.0)
    assert metric_gain((0, 1, 2, 3), worth) == pytest.approx(metric_gain((9, 10, 20, 30), worth))
    assert metric_gain((0, 0, 0, 0), worth) == 0


@pytest.mark.parametrize(("family", "group", "last"), [("A", 8, 3.0), ("D", 8, 3.0), ("C", 8, 1.1), ("C", 1, 3.0)])
def test_parameters_reach_as_far_as_the_family(family: str, group: int, last: float) -> None:
    tried = family_parameters(family, group)
    assert {0.0, 1.0} <= set(tried) and tried[-1] == last and list(tried) == sorted(tried)
    for parameter in tried:
        family_weight(group, family=family, parameter=parameter)


@pytest.mark.parametrize("name", ["pass@0", "pass@", "pass@-1", "pass@1.5", "accuracy", "pass@²", "log", ""])
def test_a_metric_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="known: 'log p', and pass@k"):
        metric(name)


def test_what_makes_no_sense_is_refused() -> None:
    one, of = {KnownChance(0.5): 1.0}, metric("pass@1")
    for options in ({"group": 0, "noise": 1.0}, {"group": 2, "noise": -1.0}, {"group": 2, "noise": math.nan}):
        with pytest.raises(ValueError, match="at least"):
            gain_terms(one, of=of, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one prompt"):
        gain_terms({}, group=2, of=of, noise=1.0)
    with pytest.raises(ValueError, match="does not fit"):
        metric_gain((0.0, 1.0), gain_terms(one, group=2, of=of, noise=1.0))
    with pytest.raises(ValueError, match="no family"):
        family_parameters("E", 4)
    assert GainTerms(sensitivity=(0.0, 1.0), noise=(0.0, 1.0)).group == 1
    assert Posterior(0, 0).moment(1, 0) == pytest.approx(0.5) == KnownChance(0.5).moment(1, 0)


# Local sensitivity: how far a step moves log p of one prompt, and not of another.


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A policy over 7 answers of its own, tilted to a chance of success."""

    p: float
    place: World = field(default_factory=lambda: world(2))

    @property
    def policy(self) -> Tensor:
        return tilt(self.place, self.place.logits(), self.p)

    @property
    def rewards(self) -> Tensor:
        return outcomes(self.place, self.policy, correct).reward

    @property
    def scores(self) -> Tensor:
        """[answers, parameters]"""
        return self.place.per_answer(self.place.scores(self.policy))

    def moments(self) -> tuple[float, float]:
        """ℓ = |∇log p|² and t, the trace of the covariance of the score of a success."""
        right = self.place.chances(self.policy) * self.rewards / self.p
        mean = right @ self.scores
        return float(mean @ mean), float(right @ (self.scores - mean).square().sum(dim=1))

    def members(self, size: int) -> Iterator[tuple[Tensor, float]]:
        """The answers of every group, with its chance."""
        chances, (groups, orders) = self.place.chances(self.policy), multisets(7, size)
        for members, ways in zip(groups, orders, strict=True):
            yield members, float(ways * chances[members].prod())

    def groups(self, size: int) -> Iterator[tuple[Scored, float]]:
        """Every group, with its chance."""
        for members, chance in self.members(size):
            won = self.scores[members[self.rewards[members] == 1]]
            seen = Scored(
                rollouts=size,
                successes=len(won),
                whole=float(won.sum(0).square().sum()),
                squares=float(won.square().sum()),
            )
            yield seen, chance


def exact_terms(prompts: Sequence[Prompt], group: int, name: str) -> GainTerms:
    """A_K and B_K by enumeration."""
    sensitivity, noise = [0.0], [0.0]
    for count in range(1, group + 1):
        total = [0.0, 0.0]
        for prompt in prompts:
            local, scatter = prompt.moments()
            chance = math.comb(group, count) * prompt.p**count * (1 - prompt.p) ** (group - count)
            total[0] += chance * SLOPES[name](prompt.p) * prompt.p * local
            total[1] += chance * (local + scatter / count)
        sensitivity.append(total[0] / len(prompts))
        noise.append(total[1] / len(prompts))
    return GainTerms(sensitivity=tuple(sensitivity), noise=tuple(noise))


SPREAD = [Prompt(p=p) for p in (0.05, 0.4, 0.95)]


@pytest.mark.parametrize(("name", "size"), [("pass@1", 4), ("pass@2", 5), ("pass@4", 7)])
def test_scores_of_successes_tell_the_terms_without_bias(name: str, size: int) -> None:
    """Over every group of every prompt, the smallest groups that can tell."""
    for prompt in SPREAD:
        exact = exact_terms([prompt], 3, name)
        mean = [[0.0] * 4, [0.0] * 4]
        for seen, chance in prompt.groups(size):
            one = scored_terms([seen], group=3, of=metric(name))
            for place, terms in enumerate((one.sensitivity, one.noise)):
                mean[place] = [total + chance * value for total, value in zip(mean[place], terms, strict=True)]
        assert mean[0] == pytest.approx(exact.sensitivity, rel=1e-9, abs=1e-15)
        assert mean[1] == pytest.approx(exact.noise, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("prompt", SPREAD, ids=lambda prompt: f"p={prompt.p}")
def test_scores_of_a_group_tell_how_far_a_step_moves_its_prompt(prompt: Prompt, size: int) -> None:
    """ℓ, t and Λ without bias given the number of successes, |∇p|² without bias over all groups."""
    local, scatter = prompt.moments()
    exact = {local_sensitivity: local, success_scatter: scatter, odds_sensitivity: local / (1 - prompt.p) ** 2}
    total: dict[tuple[object, int], list[float]] = {}
    slope = 0.0
    for members, chance in prompt.members(size):
        seen = Scores.of(prompt.scores[members], prompt.rewards[members])
        assert seen.successes + seen.failures == size
        slope += chance * slope_square(seen)
        for estimate in exact:
            if not math.isnan(value := estimate(seen)):
                sums = total.setdefault((estimate, seen.successes), [0.0, 0.0])
                sums[0] += chance * value
                sums[1] += chance
    for (estimate, _), (value, chance) in total.items():
        assert value / chance == pytest.approx(exact[estimate], rel=1e-9)
    known = {estimate: {count for of, count in total if of is estimate} for estimate in exact}
    assert known[local_sensitivity] == known[success_scatter] == set(range(2, size + 1))
    assert known[odds_sensitivity] == set(range(2, size - 1))
    assert slope == pytest.approx(prompt.p**2 * local, rel=1e-9)


def test_a_group_that_is_too_small_tells_nothing() -> None:
    prompt = SPREAD[1]
    pair = Scores.of(prompt.scores[:2], prompt.rewards[:2])
    assert math.isnan(slope_square(pair))
    none = Scores.of(prompt.scores[prompt.rewards == 0][:3], torch.zeros(3))
    assert math.isnan(local_sensitivity(none)) and math.isnan(odds_sensitivity(none))
    assert not math.isnan(slope_square(none))


def test_what_chance_made_negative_is_taken_for_zero() -> None:
    far = Scored(rollouts=4, successes=2, whole=0.1, squares=2.0)
    worth = scored_terms([far], group=2, of=metric("pass@1"))
    assert worth.sensitivity[1] < 0 and worth.noise[1] > 0
    assert worth.floor() == GainTerms(sensitivity=(0.0, 0.0, 0.0), noise=worth.noise)


def test_groups_that_cannot_tell_are_refused() -> None:
    small = Scored(rollouts=4, successes=2, whole=3.0, squares=2.0)
    with pytest.raises(ValueError, match="use gain_terms"):
        scored_terms([small], group=2, of=metric("log p"))
    with pytest.raises(ValueError, match="groups of at least 5 rollouts"):
        scored_terms([small], group=3, of=metric("pass@2"))
    with pytest.raises(ValueError, match="at least 4 rollouts"):
        scored_terms([], group=3, of=metric("pass@1"))


def test_prompts_that_are_nearly_solved_do_not_choose_for_the_others() -> None:
    """Of the gain of the best member, on prompts whose moments are enumerated, by how their sensitivity is counted."""
    spec = importlib.util.spec_from_file_location("benchmark_sensitivity", BENCH)
    assert spec and spec.loader
    bench = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = bench  # Dataclasses look their module up.
    spec.loader.exec_module(bench)
    kept: dict[str, list[float]] = {"equal": [], "local": [], "measured": []}
    for chances in bench.PROMPTS.values():
        prompts = [bench.prompt(p) for p in chances]
        for name in bench.METRICS:
            truth = bench.terms(prompts, name)
            for way, parameters in bench.choices(prompts, name).items():
                worst = min(member.share for member in family_gains("A", truth, parameters))
                kept[way].append(worst / best_member("A", truth).share)
    assert min(kept["equal"]) < 0.7 and min(kept["local"]) > 0.98 and min(kept["measured"]) > 0.85
