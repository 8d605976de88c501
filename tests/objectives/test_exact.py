"""The world that expectations are summed in, and the report on a row."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from objective_cases import CASES, FORMS

from gnomon.objectives import Need, dr_grpo, rloo
from gnomon.theory import report
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import correct, graded_reward, outcomes, world


def test_the_world_holds_every_answer_once() -> None:
    place = world()
    assert len(set(place.answers)) == len(place.answers) == 15
    assert place.prefixes == 7 and place.logits().numel() == 21
    assert sorted(place.lengths.tolist()) == [1] + [2] * 2 + [3] * 12
    assert place.chances(place.logits()).sum().item() == pytest.approx(1, abs=1e-14)
    assert {correct(answer) for answer in place.answers} == {0.0, 1.0}
    assert {graded_reward(answer) for answer in place.answers} == {0.0, 0.1, 1.0, 1.1}


def test_scores_are_the_derivative_of_log_probabilities() -> None:
    place = world()
    slopes = torch.autograd.functional.jacobian(place.logp, place.logits())
    assert torch.allclose(place.scores(place.logits()), slopes.flatten(1), atol=1e-14)


def test_multisets_give_what_ordered_groups_give() -> None:
    """The same mean and covariance trace from all 15² ordered pairs, one at a time."""
    place, row = world(), rloo()
    policy = place.logits()
    possible = outcomes(place, policy, graded_reward)
    found = moments(row, place, policy=policy, behavior=policy, possible=possible, group=2)
    score = place.per_answer(place.scores(policy))
    mean, square = torch.zeros_like(score[0]), 0.0
    for a, b in itertools.product(range(15), repeat=2):
        chance = float(possible.chance[a] * possible.chance[b])
        gradient = (possible.reward[a] - possible.reward[b]) * (score[a] - score[b]) / 2
        mean = mean + chance * gradient
        square += chance * float(gradient @ gradient)
    assert torch.allclose(found.mean, mean, atol=1e-14)
    assert found.variance == pytest.approx(square - float(mean @ mean), rel=1e-12)
    assert found.groups == 120


def test_an_answer_with_several_rewards_is_declared_once() -> None:
    """A verifier that is wrong at random: off policy the chances of an answer's outcomes still sum to its own."""
    place, row = world(), rloo()
    policy, behavior = place.logits(), place.anchor()
    plain = outcomes(place, behavior, correct)
    wrong = 0.1 + 0.02 * torch.arange(len(plain.answer), dtype=plain.chance.dtype)
    noisy = replace(
        plain,
        answer=plain.answer.repeat(2),
        chance=torch.cat([plain.chance * (1 - wrong), plain.chance * wrong]),
        reward=torch.cat([plain.reward, 1 - plain.reward]),
    )
    expected = plain.reward * (1 - wrong) + (1 - plain.reward) * wrong
    truth = place.per_answer(place.scores(policy)).T @ (place.chances(policy) * expected)
    claim = declared_gradient(row.target, place, policy=policy, possible=noisy, group=2)
    assert torch.allclose(claim, truth, atol=1e-14)
    on_policy = replace(noisy, chance=noisy.chance * (place.chances(policy) / plain.chance).repeat(2))
    found = moments(row, place, policy=policy, behavior=policy, possible=on_policy, group=2)
    assert torch.allclose(found.mean, truth, atol=1e-14)


MEAN_OF_OWN_TOKENS = ("grpo", "echo", "gpg", "grpo,deviation=sample", "gspo", "gmpo", "sapo")
MEAN_OF_ALL_TOKENS = (
    "bapo",
    "dapo",
    "dcpo",
    "fipo",
    "m2po",
    "gdpo",
    "lite_ppo",
    "gppo",
    "magistral",
    "cispo",
    "scale_rl",
    "cispo,clip_high=4.0",
    "gfpo",
    "gfpo,by=efficiency",
)
"""The last two filter groups larger than these."""
BENT = {
    **{name: {2: 0.976493, 3: 0.976493, 4: 0.976493} for name in MEAN_OF_OWN_TOKENS},
    **{name: {2: 0.996529, 3: 0.998448, 4: 0.999127} for name in MEAN_OF_ALL_TOKENS},
    "luffy": dict.fromkeys((2, 3, 4), 0.999791),
    "luffy_paper": {2: 0.997318, 3: 0.998772, 4: 0.99927},
    "seed_grpo": {2: 1.0, 3: 0.999776, 4: 0.999784},
    **{name: {2: 0.984267, 3: 0.993188, 4: 0.995996} for name in ("reinforce_pp", "reinforce_pp,baseline=group")},
    **{name: dict.fromkeys((2, 3, 4), 0.85126) for name in ("turn_reinforce", "turn_ppo", "turn_grpo")},
    "turn_reinforce,gamma=0.9,turns=discounted": dict.fromkeys((2, 3, 4), 0.849574),
    "rebn": {2: 0.828805, 3: 0.847008, 4: 0.851704},
    "brpo": dict.fromkeys((2, 3, 4), 0.906536),
    "brpo,baseline=group": {2: 0.932483, 3: 0.920492, 4: 0.916061},
    "ppo_whitened": {2: 0.885746, 3: 0.970602, 4: 0.985593},
    **{name: {2: -0.241684, 3: -0.2566, 4: -0.263197} for name in ("sft", "fcp")},
    **{name: dict.fromkeys((2, 3, 4), -0.44215) for name in ("verifree", "verifree,baseline_on=all")},
    "online_simpo": dict.fromkeys((2, 3, 4), 0.992215),
    "opo": {2: 0.996392, 3: 0.998382, 4: 0.999088},
    "gpg_verl": {2: 0.996529, 3: 0.998432, 4: 0.999117},
    **{name: {2: 0.996529, 3: 0.998448, 4: 0.999129} for name in ("cpgd", "vespo")},
    "gepo": {2: 0.950039, 3: 0.950323, 4: 0.948853},
    "real": {2: 0.923796, 3: 0.935285, 4: 0.943407},
    "clip_cov": {2: 0.99664, 3: 0.998865, 4: 0.999018},
    "tpo": {2: 0.998222, 3: 0.987588, 4: 0.979163},
    "gigpo": {2: 0.846013, 3: 0.848812, 4: 0.849918},
    "hgpo": {2: 0.83723, 3: 0.844461, 4: 0.847413},
    "otb": {2: 0.970855, 3: 0.99113, 4: 0.99441},
    "entropy_mask": {2: 0.401932, 3: 0.873647, 4: 0.872517},
    "rl_zvp": {2: 0.996743, 3: 0.998524, 4: 0.999166},
    "online_cpo": dict.fromkeys((2, 3, 4), 0.999997),
    "online_orpo": {2: 0.990306, 3: 0.991813, 4: 0.99267},
    "vc_ppo": dict.fromkeys((2, 3, 4), 0.998099),
    "vapo": dict.fromkeys((2, 3, 4), 0.802419),
    **{name: dict.fromkeys((2, 3, 4), 0.82529) for name in ("opd", "opsd")},
    "opd,credit=answer": dict.fromkeys((2, 3, 4), 0.832264),
    "rft": {2: 0.996187, 3: 0.998163, 4: 0.998932},
}
"""Rows that do not climb the expected reward, or not it alone, with the cosine of the two in this world, by group.

Those of turns and budgets climb what arrives early, which is another reward.
"""
ONE = dict.fromkeys((2, 3, 4), 1.0)


@pytest.mark.parametrize("group", [2, 3, 4])
@pytest.mark.parametrize("name", FORMS)
def test_the_report_of_every_row(name: str, group: int) -> None:
    row = CASES[name].row
    if group < row.min_group:
        with pytest.raises(ValueError, match="groups of at least"):
            report(row, group=group)
        return
    found = report(row, group=group)
    assert found.name == row.name and found.group == group and found.bias <= 1e-9 and found.variance > 0
    kinds = 17 if Need.DEMONSTRATIONS in row.needs else 15
    assert found.groups == math.comb(kinds - 1 + group, group)
    assert found.noise == pytest.approx(math.sqrt(found.variance) / found.expected_norm)
    assert found.expected_norm == pytest.approx(found.target_norm)
    assert found.cosine == pytest.approx(BENT.get(name, ONE)[group], abs=1e-6)


def test_the_report_prints_what_was_found() -> None:
    lines = str(report("dr_grpo", group=3)).splitlines()
    assert lines[0] == "dr_grpo, group of 3: 680 groups enumerated, p = 0.219"
    assert [line.split()[0] for line in lines[1:]] == ["target", "bias", "cosine", "variance", "noise"]
    assert "(N−1)/(N·L_max) ∇p" in lines[1] and "1.000000" in lines[3]


def test_a_group_that_teaches_nothing_has_no_direction() -> None:
    found = report(dr_grpo(), group=1)
    assert math.isnan(found.cosine) and math.isinf(found.noise) and found.bias == 0 and "—" in str(found)


@pytest.mark.parametrize(
    ("name", "group", "message"),
    [("rloo", 1, "at least two"), ("rloo", 0, "1 to 6"), ("rloo", 7, "1 to 6"), ("dr_grp", 2, "did you mean")],
)
def test_what_cannot_be_reported_is_refused(name: str, group: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        report(name, group=group)


def test_a_bias_is_seen() -> None:
    """A row held against a target that is not its own."""
    assert report(replace(dr_grpo(), target=rloo().target), group=2).bias > 0.1
