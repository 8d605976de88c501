"""Mutants of the rows whose credit differs from token to token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES, FORMS
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Baseline,
    Credit,
    Need,
    Noise,
    Objective,
    OffPolicy,
    Penalty,
    Rewards,
    Rollouts,
    Scope,
    gae,
    leave_one_out,
    length_gae,
    likelihood_of_right,
    mean_centred,
    raw,
    reward_to_go,
    reward_to_go_over,
    terminal,
    token_mean,
    whiten,
)

BIASED = "ppo,gamma=0.9"
SHORT = "ppo,lam=0.7"
NEAR = "ppo,gamma=0.9,lam=0.0"
ANCHORED = ("reinforce_pp,beta=0.2,epsilon=0.1", "reinforce_pp,baseline=group,beta=0.2,epsilon=0.1")
LONG = "vapo,alpha=0.8"
LIKED = "vapo,likelihood=0.3"
LIMITED = (
    "ppo,bootstrap=limit",
    "ppo,gamma=0.9,lam=0.7,bootstrap=reply",
    "vapo,alpha=0.8,bootstrap=reply",
    "vc_ppo,lam=0.7,bootstrap=limit",
)
"""With a critic's value where a limit ended a rollout."""
LOO = "reinforce_pp_loo,beta=0.2,scale=0.4"


def of_credit(row: Objective, change: Callable[[Tensor, Rollouts], Tensor]) -> Objective:
    """The row with its credit changed."""

    def changed(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        return change(row.credit(rollouts, advantage), rollouts)

    return replace(row, credit=changed)


def seeing(row: Objective, change: Callable[[Rollouts], Rollouts]) -> Objective:
    """The row with what its credit sees changed."""

    def changed(rollouts: Rollouts, advantage: Advantage) -> Tensor:
        return row.credit(change(rollouts), advantage)

    return replace(row, credit=changed)


def with_values(rollouts: Rollouts, change: Callable[[Tensor], Tensor]) -> Rollouts:
    assert rollouts.values is not None
    return replace(rollouts, values=change(rollouts.values))


def in_one_stream(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """GAE that goes on into the next rollout. γ = 0.9, λ = 0.7."""
    reward, values = rollouts.spread(advantage(rollouts.rewards)), rollouts.values
    assert values is not None
    credit, next_value, total = torch.zeros_like(values), 0.0, 0.0
    for t in range(len(values) - 1, -1, -1):
        last = t + 1 == len(values) or bool(rollouts.sequence[t + 1] != rollouts.sequence[t])
        surprise = float(reward[t]) * last + 0.9 * next_value - float(values[t])
        total, next_value = surprise + 0.63 * total, float(values[t])
        credit[t] = total
    return credit


def from_the_token_after(rollouts: Rollouts, advantage: Advantage, *, beta: float) -> Tensor:
    """The penalty of a token left out of its own return."""
    assert rollouts.logp is not None and rollouts.reference_logp is not None
    own = rollouts.logp - rollouts.reference_logp
    return reward_to_go(rollouts, advantage, beta=beta) + beta * own


def of_the_whole_rollout(rollouts: Rollouts, advantage: Advantage, *, beta: float) -> Tensor:
    """The penalty of earlier tokens too."""
    assert rollouts.logp is not None and rollouts.reference_logp is not None
    total = torch.zeros(rollouts.rewards.numel(), dtype=rollouts.logp.dtype)
    total = total.index_add(0, rollouts.sequence, rollouts.logp - rollouts.reference_logp)
    return rollouts.spread(advantage(rollouts.rewards)) - beta * total[rollouts.sequence]


def then_white(credit: Credit, epsilon: float = 0.1) -> Credit:
    return lambda rollouts, advantage: whiten(credit(rollouts, advantage), epsilon=epsilon)


def white_by_group(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    credit = reward_to_go(rollouts, advantage, beta=0.0)
    sizes = rollouts.lengths.sum(dim=1).tolist()
    return torch.cat([whiten(part, epsilon=1e-8) for part in credit.split(sizes)])


def white_by_rollout(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Mean and deviation over rollouts, not over tokens."""
    return rollouts.spread(whiten(advantage(rollouts.rewards).flatten(), epsilon=1e-8))


def token_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name, case in CASES.items():
        if case.row.credit is not terminal:
            yield "credit of the opposite sign", name, of_credit(case.row, lambda a, seen: -a)
    for name in (name for name in FORMS if CASES[name].row.credit is not terminal):
        row = CASES[name].row
        for need in (Need.VALUES, Need.LOGP, Need.REFERENCE, Need.ENTROPY, Need.COLLISION, Need.BEYOND, Need.VISITS):
            changed = replace(row, needs=row.needs ^ {need})
            if changed.asks != row.asks:  # A penalty asks for its reference by itself.
                yield f"{need} needed and not told of, or in vain", name, changed
        for scope in Scope:
            if scope is not row.scope:
                yield f"{scope} claimed", name, replace(row, scope=scope)
        for noise in Noise:
            even = row.rewards is Rewards.BINARY and Noise.STILL not in (noise, row.noise)  # No such reward is even.
            if noise is not row.noise and not even:
                yield f"under noise, {noise.name} claimed", name, replace(row, noise=noise)
    for name in (BIASED, SHORT, NEAR, *ANCHORED, LOO):
        yield "credit of the last token on all", name, of_credit(CASES[name].row, of_the_last)
    yield "a critic asked for in vain", "rloo", replace(CASES["rloo"].row, needs=frozenset({Need.VALUES}))
    for name in ("ppo", BIASED, SHORT, NEAR, "ppo_whitened"):
        row = CASES[name].row
        yield "critic added", name, seeing(row, lambda seen: with_values(seen, torch.neg))
        yield "critic not asked", name, seeing(row, lambda seen: with_values(seen, torch.zeros_like))
        yield "critic of the token after", name, seeing(row, lambda seen: with_values(seen, lambda v: v.roll(-1)))
        yield "mean over all tokens", name, replace(row, aggregate=token_mean)
        yield "whole groups only claimed", name, replace(row, min_group=2)
        yield "pairs of rollouts only claimed", name, replace(row, min_rollouts=2)
        yield "reward less the mean of the group", name, replace(row, advantage=mean_centred)
    for alpha in (0.4, 1.6):
        row = replace(CASES[LONG].row, credit=partial(length_gae, alpha=alpha))
        yield f"an alpha of {alpha}", LONG, row
    yield "one λ for all lengths", LONG, replace(CASES[LONG].row, credit=partial(gae, gamma=1.0, lam=0.5))
    liked = CASES[LIKED].row
    penalties: dict[str, Penalty | None] = {
        "no likelihood": None,
        "likelihood of all": lambda tokens: torch.ones_like(tokens.logp),
        "likelihood under the ratio": lambda tokens: likelihood_of_right(tokens) * tokens.log_ratio.exp(),
        "likelihood of the wrong": lambda tokens: 1 - likelihood_of_right(tokens),
        "likelihood per token of the answer": lambda tokens: likelihood_of_right(tokens) / tokens.lengths,
    }
    for label, penalty in penalties.items():
        yield label, LIKED, replace(liked, penalty=penalty)
    yield "every action corrected", LIKED, replace(liked, off_policy=OffPolicy.TOKEN)
    yield "exactness claimed", LONG, replace(CASES[LONG].row, target=CASES["ppo"].row.target)
    yield "a mean over tokens", LONG, replace(CASES[LONG].row, aggregate=token_mean)
    yield "λ of the critic", "vc_ppo", replace(CASES["vc_ppo"].row, credit=partial(gae, gamma=1.0, lam=1.0))
    for name in LIMITED:
        yield from at_the_end(name)
    ppo = CASES["ppo"].row
    yield "no critic claimed", "ppo", replace(ppo, baseline=Baseline.NONE)
    yield "a mean of the step claimed", "ppo", replace(ppo, baseline=Baseline.STEP)
    yield "the reward alone", "ppo", replace(ppo, credit=terminal)
    yield "no discount", BIASED, replace(CASES[BIASED].row, credit=partial(gae, gamma=1.0, lam=1.0))
    yield "λ of one", SHORT, replace(CASES[SHORT].row, credit=partial(gae, gamma=1.0, lam=1.0))
    yield "exactness claimed", SHORT, replace(CASES[SHORT].row, target=ppo.target)
    yield "γ for λ", NEAR, replace(CASES[NEAR].row, credit=partial(gae, gamma=0.0, lam=0.9))
    white = "ppo_whitened,gamma=0.9,lam=0.7,epsilon=0.1"
    row = CASES[white].row
    yield "into the next rollout", white, replace(row, credit=then_white(in_one_stream))
    yield "a constant said to change nothing", white, replace(row, baseline=Baseline.STEP)
    yield "epsilon outside the root", white, replace(row, credit=outside_the_root)
    yield "not whitened", white, replace(row, credit=partial(gae, gamma=0.9, lam=0.7))
    yield "not whitened", "ppo_whitened", replace(CASES["ppo_whitened"].row, credit=ppo.credit)
    plain = CASES["reinforce_pp"].row
    yield "whitened by group", "reinforce_pp", replace(plain, credit=white_by_group)
    yield "whitened over rollouts", "reinforce_pp", replace(plain, credit=white_by_rollout)
    yield "mean of the group taken off", "reinforce_pp", replace(plain, advantage=mean_centred)
    yield "single rollouts said to move it", "reinforce_pp", replace(plain, min_rollouts=1)
    yield "three rollouts said to be needed", "reinforce_pp", replace(plain, min_rollouts=3)
    yield (
        "mean of the group missing",
        "reinforce_pp,baseline=group",
        replace(CASES["reinforce_pp,baseline=group"].row, advantage=raw),
    )
    for name in ANCHORED:
        row = CASES[name].row
        for what, credit in {
            "reference pushes away": partial(reward_to_go, beta=-0.2),
            "reference forgotten": partial(reward_to_go, beta=0.0),
            "penalty of the tokens after": partial(from_the_token_after, beta=0.2),
            "penalty of the whole rollout": partial(of_the_whole_rollout, beta=0.2),
        }.items():
            yield what, name, replace(row, credit=then_white(credit))
        yield "pairs of rollouts only claimed", name, replace(row, min_rollouts=2)
    row = CASES[LOO].row
    yield "scale forgotten", LOO, replace(row, credit=partial(reward_to_go, beta=0.2))
    yield "scale on the reward alone", LOO, replace(row, credit=partial(reward_to_go_over, beta=0.2 * 0.4, scale=0.4))
    yield "whitened", LOO, replace(row, credit=then_white(partial(reward_to_go, beta=0.2)))
    yield "mean over all tokens", LOO, replace(row, aggregate=token_mean)
    yield "itself in the mean", LOO, replace(row, advantage=mean_centred)
    yield "baseline missing", LOO, replace(row, advantage=raw)
    yield "leave-one-out", ANCHORED[1], replace(CASES[ANCHORED[1]].row, advantage=leave_one_out)


def at_the_end(name: str) -> Iterator[tuple[str, str, Objective]]:
    """Of a row with a critic's value where a limit ended a rollout."""
    row = CASES[name].row

    def ended(change: Callable[[Tensor], Tensor]) -> Objective:
        return seeing(row, lambda seen: replace(seen, ended=change(seen.ended)))

    yield "nothing after a limit", name, ended(torch.zeros_like)
    yield "a value after every end", name, ended(torch.ones_like)
    other = {"reply": 1, "limit": 0}[name.rpartition("=")[2]]
    yield "the other limits", name, ended(lambda cause: torch.where(cause == 2, other, cause))
    yield "causes in another order", name, ended(lambda cause: (cause + 1) % 3)
    yield "the value taken off", name, seeing(row, lambda seen: replace(seen, beyond=-seen.beyond))
    yield "the value of the neighbour", name, seeing(row, lambda seen: replace(seen, beyond=seen.beyond.roll(1, 1)))
    yield (
        "the value before the last token",
        name,
        seeing(row, lambda seen: replace(seen, beyond=of_the_last_token(seen))),
    )
    yield "exactness claimed", name, replace(row, target=CASES["ppo"].row.target)
    if "gamma" in name:
        yield "an end without discount", name, seeing(row, lambda seen: replace(seen, beyond=seen.beyond / 0.9))


def of_the_last_token(rollouts: Rollouts) -> Tensor:
    """[G, N] what the critic expects before the last token of each."""
    assert rollouts.values is not None
    last = (rollouts.lengths.flatten().cumsum(0) - 1).clamp(min=0)
    if not len(rollouts.values):
        return torch.zeros_like(rollouts.rewards)
    return rollouts.values[last].reshape(rollouts.rewards.shape)


def outside_the_root(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    credit = gae(rollouts, advantage, gamma=0.9, lam=0.7)
    spread = credit.std() if len(credit) > 1 else credit.new_zeros(())
    return (credit - credit.mean()) / (spread + 0.1)


def of_the_last(credit: Tensor, rollouts: Rollouts) -> Tensor:
    last = rollouts.lengths.flatten().cumsum(0) - 1
    return credit[last[rollouts.sequence]]
