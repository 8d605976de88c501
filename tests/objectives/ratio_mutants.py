"""Mutants of the rows that differ in ratio or correction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from objective_cases import CASES
from torch import Tensor

from gnomon.objectives import (
    Advantage,
    Correction,
    Objective,
    OffPolicy,
    Ratio,
    Rollouts,
    Scope,
    Tokens,
    banded,
    capped,
    capped_to_sampler,
    dual_clip,
    geometric_clip,
    geometric_mask,
    geometric_of_clipped,
    mean_centred,
    no_correction,
    no_ratio,
    ppo_clip,
    raw,
    sequence_masked,
    sequence_ratio,
    sequence_truncated,
    soft_gate,
    standardise,
    terminal,
    truncated,
    unclipped,
)

RATIOS = ("cispo", "dapo", "dual_clip_ppo", "gmpo", "gspo", "loop", "sapo", "sequence_is")
CORRECTIONS = ("geometric_rejection", "icepop", "sequence_mis", "sequence_tis", "tis")
WIDE = "geometric_rejection,least=0.83,most=1.23,clip_low=0.1"
STANDARD = ("cispo", "dapo", "gmpo", "gspo", "sapo")


def turned(tokens: Tokens) -> Tokens:
    """Every log-ratio with the other sign."""
    reference = None if tokens.reference_logp is None else -tokens.reference_logp
    centre = None if tokens.proximal_logp is None else -tokens.proximal_logp
    behavior, logp = -tokens.behavior_logp, -tokens.logp
    return replace(tokens, logp=logp, behavior_logp=behavior, proximal_logp=centre, reference_logp=reference)


def centred(tokens: Tokens) -> Tokens:
    """The proximal policy where the behavior stood."""
    return replace(tokens, behavior_logp=tokens.logp - tokens.log_ratio)


def other_sign(tokens: Tokens) -> Tokens:
    return replace(tokens, advantage=-tokens.advantage)


def of_policy(tokens: Tokens) -> Tokens:
    """The policy's ratio where the sampler's stood."""
    centre = tokens.logp - tokens.log_ratio
    return replace(tokens, proximal_logp=tokens.logp, behavior_logp=centre)


def whole_group(tokens: Tokens) -> Tokens:
    """Rollouts of a group taken for one."""
    return replace(tokens, sequence=tokens.group)


def joined(tokens: Tokens) -> Tokens:
    """Every rollout of the micro-batch taken for one."""
    return replace(tokens, sequence=torch.zeros_like(tokens.sequence))


def clamped_ratio(tokens: Tokens, *, low: float, high: float) -> Tensor:
    return tokens.log_ratio.exp().clamp(low, high)


def kept_gradient(tokens: Tokens) -> Tensor:
    """GMPO that gives its clipped tokens the gradient of the others."""
    held = torch.where(tokens.advantage > 0, tokens.log_ratio.clamp(max=0.4), tokens.log_ratio.clamp(min=-0.4))
    return (tokens.per_sequence(held) / tokens.lengths).exp()


def scaled_gate(tokens: Tokens) -> Tensor:
    return soft_gate(tokens, gain=1.0, loss=1.05) / 4


def gate_without_ratio(tokens: Tokens) -> Tensor:
    return soft_gate(tokens, gain=1.0, loss=1.05) / tokens.log_ratio.exp()


def weighted_mask(tokens: Tokens) -> Tensor:
    return geometric_mask(tokens, least=0.999, most=1.001) * tokens.log_mismatch.exp()


def product_mask(tokens: Tokens, *, least: float, most: float) -> Tensor:
    product = tokens.per_sequence(tokens.log_mismatch).exp()
    return ((product >= least) & (product <= most)).to(product.dtype)


def floored_weight(tokens: Tokens) -> Tensor:
    return tokens.log_mismatch.exp().clamp(0.5, 2.0)


RATIO_MUTANTS: dict[str, dict[str, Ratio]] = {
    "cispo": {
        "the ceiling itself": partial(capped, cap=0.2),
        "a floor too": partial(clamped_ratio, low=0.8, high=1.2),
        "a clip": partial(ppo_clip, low=0.2, high=0.2),
    },
    "cispo,clip_high=4.0": {"one more than the ceiling": partial(capped, cap=6.0), "no ceiling": unclipped},
    "dapo": {
        "clip symmetric": partial(ppo_clip, low=0.2, high=0.2),
        "whole answers": partial(geometric_clip, low=0.2, high=0.28),
    },
    "dapo,clip_low=0.1,clip_high=0.3": {"clip sides swapped": partial(ppo_clip, low=0.3, high=0.1)},
    "dual_clip_ppo": {
        "one clip": partial(ppo_clip, low=0.2, high=0.2),
        "ceiling two": partial(dual_clip, low=0.2, high=0.2, ceiling=2.0),
        "ceiling for wanted tokens": lambda tokens: dual_clip(other_sign(tokens), low=0.2, high=0.2, ceiling=3.0),
    },
    "dual_clip_ppo,clip_low=0.1,clip_high=0.3,ceiling=1.7": {
        "clip sides swapped": partial(dual_clip, low=0.3, high=0.1, ceiling=1.7)
    },
    "gmpo": {
        "nothing clipped": partial(geometric_of_clipped, low=math.inf, high=math.inf),
        "clipped tokens keep a gradient": kept_gradient,
        "mean clipped": partial(geometric_clip, low=1 - math.exp(-0.4), high=math.exp(0.4) - 1),
        "clipped as a ratio": partial(geometric_of_clipped, low=-math.log(0.6), high=math.log(1.4)),
    },
    "gmpo,clip_low=0.1,clip_high=0.3": {"clip sides swapped": partial(geometric_of_clipped, low=0.3, high=0.1)},
    "gspo": {
        "product without a root": sequence_ratio,
        "tokens": partial(ppo_clip, low=3e-4, high=4e-4),
        "of the group": lambda tokens: geometric_clip(whole_group(tokens), low=3e-4, high=4e-4),
        "clip sides swapped": partial(geometric_clip, low=4e-4, high=3e-4),
    },
    "gspo,clip_low=0.17,clip_high=0.23": {"clip sides swapped": partial(geometric_clip, low=0.23, high=0.17)},
    "loop": {"a second clip": partial(dual_clip, low=0.2, high=0.2, ceiling=3.0), "whole answers": sequence_ratio},
    "loop,clip_low=0.1,clip_high=0.3": {"clip sides swapped": partial(ppo_clip, low=0.3, high=0.1)},
    "sapo": {
        "rates swapped": partial(soft_gate, gain=1.05, loss=1.0),
        "a quarter": scaled_gate,
        "gate alone": gate_without_ratio,
    },
    "sequence_is": {
        "tokens": unclipped,
        "of the group": lambda tokens: sequence_ratio(whole_group(tokens)),
        "of the micro-batch": lambda tokens: sequence_ratio(joined(tokens)),
        "around the proximal policy": lambda tokens: sequence_ratio(centred(tokens)),
        "with a root": partial(geometric_clip, low=1.0, high=math.inf),
    },
    "sequence_is,timestep=2": {
        "tokens": unclipped,
        "whole answers": sequence_ratio,
        "longer": partial(sequence_ratio, timestep=3),
        "of the group": lambda tokens: sequence_ratio(whole_group(tokens), timestep=2),
    },
}

CORRECTION_MUTANTS: dict[str, dict[str, Correction]] = {
    "icepop,least=0.0": {"truncated": partial(truncated, cap=5.0), "cap of ten": partial(banded, least=0.0, most=10.0)},
    "geometric_rejection": {
        "weights too": weighted_mask,
        "product for mean": partial(product_mask, least=0.999, most=1.001),
        "of the micro-batch": lambda tokens: geometric_mask(joined(tokens), least=0.999, most=1.001),
    },
    WIDE: {
        "upper edge alone": partial(geometric_mask, least=0.0, most=1.23),
        "lower edge alone": partial(geometric_mask, least=0.83, most=math.inf),
        "product for mean": partial(product_mask, least=0.83, most=1.23),
    },
    "icepop": {"upper edge alone": partial(banded, least=0.0, most=5.0), "truncated": partial(truncated, cap=5.0)},
    "icepop,least=0.83,most=1.23,clip_low=0.1": {"lower edge alone": partial(banded, least=0.83, most=math.inf)},
    "sequence_mis": {
        "truncated": partial(sequence_truncated, cap=10.0),
        "tokens": partial(banded, least=0.0, most=10.0),
        "of the group": lambda tokens: sequence_masked(whole_group(tokens), cap=10.0),
    },
    "sequence_tis": {
        "masked": partial(sequence_masked, cap=2.0),
        "tokens": partial(truncated, cap=2.0),
        "of the group": lambda tokens: sequence_truncated(whole_group(tokens), cap=2.0),
        "never truncated": partial(sequence_truncated, cap=math.inf),
    },
    "tis": {
        "rejected": partial(banded, least=0.0, most=2.0),
        "never truncated": partial(truncated, cap=math.inf),
        "floored": floored_weight,
        "whole answers": partial(sequence_truncated, cap=2.0),
    },
}


def by_group(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The deviation of each group, where that of the step stood."""
    return rollouts.spread(standardise(rollouts.rewards, epsilon=1e-6))


def of_rewards(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """The deviation of the step's rewards, where that of its advantages stood."""
    kept = (rollouts.rewards != rollouts.rewards[:, :1]).any(dim=1)
    apart = rollouts.rewards[kept].std(correction=0) if kept.any() else torch.tensor(1.0)
    scale = len(kept) / max(int(kept.sum()), 1)
    return rollouts.spread(advantage(rollouts.rewards) * scale / (apart + 1e-6))


def of_all_groups(rollouts: Rollouts, advantage: Advantage) -> Tensor:
    """Groups of a single reward counted among the others."""
    plain = advantage(rollouts.rewards)
    return rollouts.spread(plain / (plain.square().mean().sqrt() + 1e-6))


def scale_rl_mutants() -> Iterator[tuple[str, str, Objective]]:
    row = CASES["scale_rl"].row
    for credit in (by_group, of_rewards, of_all_groups, terminal):
        yield f"credit {credit.__name__}", "scale_rl", replace(row, credit=credit)
    yield "around the proximal policy", "scale_rl", replace(row, ratio=partial(capped, cap=5.0))
    yield "no ceiling", "scale_rl", replace(row, ratio=partial(capped_to_sampler, cap=math.inf))
    yield "a clip", "scale_rl", replace(row, ratio=partial(ppo_clip, low=0.2, high=0.2))
    yield "not centred", "scale_rl", replace(row, advantage=raw)
    yield "blindness to the sampler claimed", "scale_rl", replace(row, mismatch=OffPolicy.ON_POLICY)
    yield "groups said to be alone", "scale_rl", replace(row, scope=Scope.GROUP)


def ratio_mutants() -> Iterator[tuple[str, str, Objective]]:
    """What is wrong, of which case, and the row."""
    for name in RATIOS:
        row = CASES[name].row
        ratio = row.ratio
        yield "ratio missing", name, replace(row, ratio=no_ratio)
        yield "ratio inverted", name, replace(row, ratio=lambda tokens, ratio=ratio: ratio(turned(tokens)))
        if name not in ("sequence_is", "cispo"):
            yield "sign of A mistaken", name, replace(row, ratio=lambda tokens, ratio=ratio: ratio(other_sign(tokens)))
        for kind in OffPolicy:
            if kind is not row.off_policy and {kind, row.off_policy} != {OffPolicy.TOKEN, OffPolicy.SOFT}:
                yield f"{kind} claimed", name, replace(row, off_policy=kind)
        yield "a correction claimed", name, replace(row, mismatch=OffPolicy.TOKEN)
    yield "no fading claimed", "sapo", replace(CASES["sapo"].row, off_policy=OffPolicy.TOKEN)
    yield "fading claimed", "loop", replace(CASES["loop"].row, off_policy=OffPolicy.SOFT)
    yield "baseline of the whole group", "loop", replace(CASES["loop"].row, advantage=mean_centred)
    for name, ratios in RATIO_MUTANTS.items():
        for what, ratio in ratios.items():
            yield f"ratio: {what}", name, replace(CASES[name].row, ratio=ratio)
    for name in STANDARD:
        row = CASES[name].row
        yield "deviation missing", name, replace(row, advantage=mean_centred)
        yield "epsilon too large", name, replace(row, advantage=partial(standardise, epsilon=1e-3))
        yield "unbiased claimed", name, replace(row, target=CASES["dr_grpo"].row.target)
    yield from scale_rl_mutants()
    yield "own length claimed", "dapo", replace(CASES["dapo"].row, target=CASES["grpo"].row.target)
    yield "shared length claimed", "gspo", replace(CASES["gspo"].row, target=CASES["dapo"].row.target)
    for name in CORRECTIONS:
        row = CASES[name].row
        mend = row.correction
        yield "correction missing", name, replace(row, correction=no_correction)
        if name == "geometric_rejection":  # Its default band is its own inverse, to six digits.
            name, row = WIDE, CASES[WIDE].row
            mend = row.correction
        yield "correction inverted", name, replace(row, correction=lambda tokens, mend=mend: mend(turned(tokens)))
        yield "of the policy", name, replace(row, correction=lambda tokens, mend=mend: mend(of_policy(tokens)))
        yield "correction twice", name, replace(row, correction=lambda tokens, mend=mend: 2 * mend(tokens))
        for kind in (OffPolicy.ON_POLICY, OffPolicy.TOKEN, OffPolicy.SEQUENCE):
            if kind is not row.mismatch:
                yield f"{kind} claimed of the sampler", name, replace(row, mismatch=kind)
    for name, corrections in CORRECTION_MUTANTS.items():
        for what, mend in corrections.items():
            yield f"correction: {what}", name, replace(CASES[name].row, correction=mend)
