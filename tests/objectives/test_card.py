"""What a card says of a row is what the row does."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from objective_cases import CASES, FORMS
from objective_steps import EDGE_STEPS
from torch import Tensor

from gnomon.objectives import (
    TABLE,
    Baseline,
    Objective,
    OffPolicy,
    PolicyGradient,
    Rewards,
    Rollouts,
    Seen,
    Singleton,
    objective,
    sequence_mean,
)
from gnomon.objectives.aggregate import constant
from gnomon.theory import GRID, card, count_weight, curve, edges
from gnomon.theory.card_text import chart, length_words, words
from gnomon.theory.cards import declarations, sections
from gnomon.theory.curves import tilt, weight_and_cosine
from gnomon.theory.world import correct, world


def size_for(row: Objective) -> int:
    return max(4, row.min_group)


def counting() -> list[str]:
    rows = {name: objective(name) for name in TABLE}
    return [name for name, row in rows.items() if count_weight(row, size_for(row))]


def length_limit(row: Objective, max_tokens: int) -> int:
    return max_tokens if row.aggregate is constant else 1


def test_most_rows_of_the_foundation_count() -> None:
    assert {"reinforce", "rloo", "dr_grpo", "maxrl", "pkpo", "loop"} <= set(counting())
    assert not {"grpo", "dapo", "gspo", "cispo"} & set(counting())


@pytest.mark.parametrize("name", counting())
def test_a_derived_curve_is_what_enumeration_measures(name: str) -> None:
    """In the world of 15 answers, which the derivation knows nothing of. Rounding alone is left: 1e-9."""
    row = objective(name)
    found = curve(row, group=size_for(row))
    for p in (0.05, 0.4, 0.95):
        w, cosine = weight_and_cosine(row, group=size_for(row), p=p, max_tokens=3)
        assert w * length_limit(row, 3) == pytest.approx(found.w[GRID.index(p)], abs=1e-9)
        assert cosine == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", counting())
def test_a_derived_curve_is_what_the_target_declares(name: str) -> None:
    row = objective(name)
    group = size_for(row)
    found = curve(row, group=group)
    if isinstance(row.closed_form, PolicyGradient):
        declared = [row.closed_form.weight(p, group, 3) * length_limit(row, 3) for p in GRID]
    else:
        assert row.closed_form is not None
        right, wrong = (
            Seen(reward=r, length=2, answer=0, early=(), values=(), logp=(), reference=()) for r in (1.0, 0.0)
        )
        shapes = [row.closed_form.shape([(right, p), (wrong, 1 - p)], group, 3) for p in GRID]
        declared = [(h(right)[0] - h(wrong)[0]) * length_limit(row, 3) for h in shapes if h]
    assert found.w == pytest.approx(declared, abs=1e-9)


@pytest.mark.parametrize("group", [8, 64])
def test_grpo_weighs_prompts_by_difficulty_and_dr_grpo_does_not(group: int) -> None:
    """GRPO on answers of one length has βₘ = √((N−1−m)/(m+1)) + √(m/(N−m)); its ε of 1e-6 moves the fifth digit."""
    last = group - 1
    beta = [math.sqrt((last - m) / (m + 1)) + math.sqrt(m / (group - m)) for m in range(group)]
    expected = [sum(b * math.comb(last, m) * p**m * (1 - p) ** (last - m) for m, b in enumerate(beta)) for p in GRID]
    found = curve(objective("grpo"), group=group)
    assert found.w == pytest.approx(expected, rel=1e-4)
    assert found.unit == "1/|y|" and "one length" in found.how
    ratio = found.w[GRID.index(0.05)] / found.w[GRID.index(0.5)]
    least, most = {8: (1.3, 1.4), 64: (2.1, 2.2)}[group]
    assert least < ratio < most, "what hard prompts weigh grows with the group, to 2.3 in the limit"
    assert curve(objective("dr_grpo"), group=group).relative == pytest.approx([1] * len(GRID))


def test_maximum_likelihood_comes_with_the_group() -> None:
    near, far = (curve(objective("maxrl"), group=group).w for group in (64, 4))
    assert near[1:] == pytest.approx([1 / p for p in GRID[1:]], rel=2e-3)
    assert far[0] < 4 < near[0] < 20


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
def test_a_tilted_policy_moves_success_and_nothing_else(p: float) -> None:
    place = world(2)
    before, after = place.chances(place.logits()), place.chances(tilt(place, place.logits(), p))
    right = torch.tensor([correct(answer) == 1 for answer in place.answers])
    assert float(after[right].sum()) == pytest.approx(p, abs=1e-12) and float(after.sum()) == pytest.approx(1)
    for part in (right, ~right):
        assert torch.allclose(after[part] / after[part].sum(), before[part] / before[part].sum(), atol=1e-12)


def fading(rollouts: Rollouts, advantage: Callable[[Tensor], Tensor]) -> Tensor:
    """Half the advantage for all tokens but the first."""
    first = torch.cat([torch.arange(int(length)) == 0 for length in rollouts.lengths.flatten()])
    return rollouts.spread(advantage(rollouts.rewards)) * torch.where(first, 1.0, 0.5)


def test_credit_that_differs_from_token_to_token_is_measured() -> None:
    """Answers of one token cannot tell it from a count weight; longer ones can."""
    row = replace(objective("rloo"), credit=fading)
    assert count_weight(row, 4) is None
    found = curve(row, group=4)
    assert "measured" in found.how and min(found.w) > 0.5 and max(found.cosine) < 1 - 1e-3
    assert edges(row, group=4)["none correct"] == "nothing moves"
    with pytest.raises(ValueError, match="has to be enumerated"):
        curve(row, group=7)


def test_a_division_by_the_limit_is_a_unit_and_not_a_weight() -> None:
    row = replace(objective("rloo"), credit=fading)
    plain, divided = curve(row, group=2), curve(replace(row, aggregate=constant), group=2)
    assert divided.w == pytest.approx(plain.w, abs=1e-12)
    assert (plain.unit, divided.unit) == ("1", "1/L_max")


def test_a_row_that_does_not_climb_p_has_no_shape() -> None:
    """Every answer is raised, short ones more: what is climbed has nothing to do with the reward."""
    row = replace(objective("reinforce"), advantage=torch.ones_like, aggregate=sequence_mean)
    found = curve(row, group=2)
    assert abs(found.cosine[GRID.index(0.5)]) < 0.5 and all(map(math.isnan, found.relative))
    assert "maximises something else" in "\n".join(chart(found)) and "●" not in "".join(chart(found)[-len(GRID) :])


def test_what_a_measured_curve_leaves_out_is_told() -> None:
    found = curve(objective("grpo"), group=4)
    assert "measured" in found.how and max(found.cosine) < 0.99
    assert "derived" in curve(objective("rloo"), group=4).how


@pytest.mark.parametrize("name", TABLE)
def test_a_card_of_every_row(name: str) -> None:
    row = objective(name)
    group = size_for(row)
    found = card(name, group)
    assert found.name == name and found.summary.endswith(".") and found.exact and found.exact.bias <= 1e-9
    assert (
        found.declared == declarations(row)
        and found.length
        and length_words(found.length) in " ".join(str(found).split())
    )
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (
        len(facts["curve"]["w"]) == len(facts["curve"]["p"]) == len(GRID)
        and facts["declared"]["off_policy"] == row.off_policy
    )
    text = str(found)
    assert max(map(len, text.splitlines())) <= 110
    for part in (row.equation.split()[0], row.source.split()[0], "by enumeration", "at the edges", "w(p)"):
        assert part in text
    assert all(option in text for option in found.options)
    assert "not finite" not in text


@pytest.mark.parametrize("name", FORMS)
def test_edges_are_what_the_row_declares(name: str) -> None:
    row = CASES[name].row
    found = edges(row, group=size_for(row))
    alone = found["a group of one"]
    assert alone.startswith("refused") == (row.singleton is Singleton.REFUSED)
    # A penalty may pull whatever credit says.
    assert row.penalty or (alone == "nothing moves") == (row.singleton is Singleton.ZERO)
    if row.singleton is Singleton.RAW and not row.penalty:
        assert alone == "a success weighs κ = 1, a failure 0"
    assert found["real rewards"].startswith("refused") == (row.rewards is Rewards.BINARY)
    if row.baseline in (Baseline.OTHERS, Baseline.GROUP) and row.rewards is Rewards.REAL:
        assert "added to all changes nothing" in found["real rewards"]


WORDS = {
    ("reinforce", "all correct"): "every token is pushed up alike, κ = 0.25",
    ("reinforce", "an empty answer"): "no token of its own to move; the credit of the others stays as it is",
    ("reinforce", "real rewards"): (
        "accepted; a constant added to all changes the coefficients; with all doubled the coefficients double"
    ),
    ("rloo", "none correct"): "nothing moves",
    ("rloo", "an empty answer"): "no token of its own to move; its reward still counts in the credit of the others",
    ("maxrl_control", "none correct"): "every token is pushed down alike, κ = -0.25",
    ("maxrl_control", "all cut off"): "as any group where none is correct: every token is pushed down alike, κ = -0.25",
    ("maxrl_control", "all correct"): "nothing moves",
    ("pkpo", "all correct"): "every token is pushed up alike, κ = 0.5",
    (
        "grpo",
        "real rewards",
    ): "accepted; a constant added to all changes nothing; with all doubled the coefficients stay",
}


@pytest.mark.parametrize(("name", "edge"), WORDS)
def test_edges_in_words(name: str, edge: str) -> None:
    assert edges(objective(name), group=4)[edge] == WORDS[name, edge]


def test_the_chart_puts_rows_where_they_belong() -> None:
    """REINFORCE stands on its own line throughout; MaxRL of a large group on maximum likelihood."""
    flat = chart(curve(objective("reinforce"), group=4))[-len(GRID) :]
    assert len({line.index("●") for line in flat}) == 1 and not any("│" in line for line in flat)
    steep = chart(curve(objective("maxrl"), group=128))[-len(GRID) + 1 :]
    assert not any("×" in line for line in steep) and "│" in steep[0]
    gone = chart(curve(objective("dr_grpo"), group=1))[-1]
    assert "●" not in gone and "—" in gone
    assert "◂" in chart(curve(objective("pass_at_all"), group=6))[-1]


@pytest.mark.parametrize(
    ("name", "group", "message"),
    [
        ("rlo", 4, "did you mean rloo"),
        ("rloo", 0, "at least one rollout"),
        ("rloo", 1, "at least two"),
        ("pkpo_loo", 2, "at least 3"),
    ],
)
def test_what_has_no_card_is_refused(name: str, group: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        card(name, group)


def test_large_groups_are_derived_and_not_enumerated() -> None:
    found = card("maxrl", 32)
    assert found.exact is None and "by enumeration" not in str(found)


def test_a_docstring_is_read_by_its_sections() -> None:
    found = sections("Does it.\n\nMore.\n\nDiffers: in this\n    and that.\n\nArgs:\n    low: the band.\n")
    assert found == {"": "Does it.", "Differs": "in this and that.", "Args": "low: the band."}


def test_what_is_declared_is_told_in_the_words_of_its_source() -> None:
    assert words(OffPolicy.SOFT).startswith("As token, up to an error of second order")
    assert words(Baseline.OTHERS) == ""
    assert all(words(kind).endswith(".") for kind in OffPolicy)
    found = card("tis")
    assert found.declared["mismatch_one_update"] is found.declared["mismatch_several_updates"] is OffPolicy.TOKEN
    assert found.declared["singleton"] is Singleton.ZERO
    assert "token: Each action is corrected" in " ".join(str(found).split())
    assert "bias" in str(found) and "below 1e-9" in str(found)
    assert "a function of the others\n" in str(card("rloo"))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("several", [False, True])
def test_a_card_says_what_a_sampler_apart_does_to_one_update_and_to_several(name: str, several: bool) -> None:
    """A row is blind to the distance between sampler and policy where its card says so, and only there.

    The centre is what a learner takes: the policy as the batch began, if it is for several updates or the row corrects.
    """
    row = CASES[name].row
    said = declarations(row)["mismatch_several_updates" if several else "mismatch_one_update"]
    step = EDGE_STEPS["mixed"]
    logp = [value + 1e-4 * (t % 7 - 3) for t, value in enumerate(step.logp)]
    tokens = step.tokens(row)
    policy, sampler = tokens.logp, torch.tensor(logp, dtype=tokens.logp.dtype)
    centre = policy if several or row.corrects else None
    apart, together = (
        replace(tokens, behavior_logp=behavior, proximal_logp=centre, reference_logp=policy, demonstrated=None)
        for behavior in (sampler, policy)
    )
    kappas = [row.coefficients(found, step.denominators()) for found in (apart, together)]
    seen = float((kappas[0] - kappas[1]).abs().max())
    # XPO weighs its penalty of 5e-6 by how likely the reference would have given the answer: that is no correction.
    assert (seen < 1e-8) == (said is OffPolicy.ON_POLICY)


def test_a_ratio_meets_the_sampler_where_nothing_else_is_the_centre() -> None:
    """GRPO clips what a sampler is off by, in the one update of a batch; with several it does not see it."""
    found = card("grpo").declared
    assert (found["mismatch_one_update"], found["mismatch_several_updates"]) == (OffPolicy.TOKEN, OffPolicy.ON_POLICY)
    assert "sampler apart, one update  token" in str(card("grpo"))
