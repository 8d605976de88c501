"""What the suite runs over: every row of the table, with default options and others, and its textbook loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import objective_losses
import token_losses
from objective_losses import by_prompt_loss, dr_grpo_loss, grpo_loss, penalised_loss
from objective_steps import Step
from torch import Tensor

from gnomon.objectives import (
    TABLE,
    Objective,
    OffPolicy,
    Target,
    k1_in_return,
    k2,
    k3,
    prompt_mean,
    ratio_weighted_k3,
    truncated,
)
from gnomon.objectives.options import RENAMED

Loss = Callable[[Step, Tensor], Tensor]
"""The maximised textbook objective of a step, as a function of the policy's log-probabilities [T]."""

LOSSES = objective_losses.LOSSES | token_losses.LOSSES
"""Of every row, by name."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "dr_grpo": [{"clip_low": 0.1, "clip_high": 0.3}],
    "grpo": [
        {"clip_low": 0.1, "clip_high": 0.3},
        {"epsilon": 0.0},
        {"deviation": "sample", "epsilon": 0.1},
    ],
    "echo": [{"observation": 1.0, "clip_low": 0.1, "clip_high": 0.3}],
    "cispo": [{"clip_high": 0.1}],
    "dapo": [{"clip_low": 0.1, "clip_high": 0.3}],
    "entropy_mask": [{"share": 0.5, "epsilon": 0.1}, {"clip_low": 0.1, "clip_high": 0.3}],
    "rl_zvp": [{"alpha": 0.7, "epsilon": 0.1}, {"clip_low": 0.1, "clip_high": 0.3}],
    "dppo": [
        {"clip_low": 0.1, "clip_high": 0.3, "cap": 1.2},
        {"by": "divergence", "clip_low": 0.01, "clip_high": 0.3, "cap": 1.2},
    ],
    "kimi_k15": [{"beta": 0.7}, {"ratio": "token", "beta": 0.7}],
    "dual_clip_ppo": [{"clip_low": 0.1, "clip_high": 0.3, "ceiling": 1.7}],
    "geometric_rejection": [{"least": 0.83, "most": 1.23, "clip_low": 0.1}],
    "gfpo": [
        {"keep": 2},
        {"keep": 3, "clip_low": 0.1, "clip_high": 0.3, "epsilon": 0.1},
        {"by": "efficiency", "keep": 2},
        {"by": "efficiency", "keep": 3, "clip_low": 0.1, "clip_high": 0.3, "epsilon": 0.1},
    ],
    "gmpo": [{"clip_low": 0.1, "clip_high": 0.3}],
    "gspo": [{"clip_low": 0.17, "clip_high": 0.23}],
    "icepop": [{"least": 0.83, "most": 1.23, "clip_low": 0.1}],
    "loop": [{"clip_low": 0.1, "clip_high": 0.3}],
    "sequence_is": [{"timestep": 1}, {"timestep": 2}],
    "sapo": [{"gain": 2.0, "loss": 0.5}],
    "scale_rl": [{"cap": 1.2, "epsilon": 0.1}],
    "sequence_mis": [{"cap": 2.0, "clip_low": 0.1}],
    "sequence_tis": [{"cap": 1.23, "clip_low": 0.1}],
    "luffy": [{"gamma": 0.3}],
    "luffy_paper": [{"gamma": 0.3}, {"clip_low": 0.1, "clip_high": 0.3}],
    "a_star_po": [{"beta": 0.7, "temperature": 0.1}],
    "rae": [{"clip_low": 0.1, "clip_high": 0.3}],
    "seed_grpo": [
        {"alpha": 0.9, "fade": "exponential"},
        {"fade": "focal", "clip_low": 0.1, "clip_high": 0.3},
        {"baseline": "others", "alpha": 0.9, "fade": "exponential"},
        {"baseline": "others", "fade": "focal", "clip_low": 0.1, "clip_high": 0.3},
    ],
    "tis": [{"cap": 1.23, "clip_low": 0.1}],
    "maxrl_released": [{"epsilon": 0.1}],
    "maxrl_sub": [{"order": 1}, {"order": 3}],
    "online_dpo": [{"beta": 0.7}, {"loss": "squared", "beta": 0.7}, {"loss": "hinge", "beta": 0.7}],
    "online_cpo": [{"beta": 0.7, "alpha": 0.3}],
    "online_orpo": [{"weight": 0.7}, {"weight": 0.7, "likelihood": "answer"}],
    "online_kto": [{"beta": 0.7, "success": 0.5, "failure": 2.0}],
    "online_simpo": [{"beta": 1.2, "margin": 0.3}],
    "xpo": [{"beta": 0.7, "alpha": 0.3}],
    "pass_at_k_analytic": [{"k": 1}, {"k": 3}, {"scale": "none", "k": 1}, {"scale": "none", "k": 3}],
    "aspo": [{"clip_low": 0.1, "clip_high": 0.3, "cap": 1.7}],
    "clip_cov": [{"share": 0.3, "least": 0.2, "most": 1.0}],
    "m2po": [{"limit": 0.5, "epsilon": 0.1}],
    "fipo": [{"half_life": 2.0, "most": 3.0}, {"clip_low": 0.1, "clip_high": 0.3}],
    "tpo": [{"temperature": 0.5}],
    "cpgd": [{"alpha": 0.7, "cap": 0.5}],
    "dcpo": [{"clip_low": 0.1, "clip_high": 0.4, "ceiling": 1.7, "epsilon": 0.1}],
    "real": [{"temperature": 0.5}],
    "gdpo": [{"clip_low": 0.1, "clip_high": 0.3}, {"epsilon": 0.1}],
    "lite_ppo": [{"clip_low": 0.1, "clip_high": 0.3}],
    "reinforce_rej": [{"failure": 0.0}],
    "tilted": [{"beta": 0.5}],
    "w_reinforce": [
        {"success": 0.5},
        {"success": 0.5, "failure": 2.0},
        {"success": 0.0, "failure": 2.0},
        {"success": 0.5, "failure": 0.0},
        {"success": 1.0, "failure": 0.0, "clip_low": 0.1, "clip_high": 0.3},
    ],
    "pkpo": [{"k": 1}, {"k": 3}],
    "pkpo_loo": [{"k": 1}, {"k": 3}],
    "pkpo_marginal": [{"k": 3}],
    "ppo": [
        {"gamma": 0.9},
        {"lam": 0.7},
        {"gamma": 0.9, "lam": 0.0},
        {"clip_low": 0.1, "clip_high": 0.3},
        {"bootstrap": "limit"},
        {"gamma": 0.9, "lam": 0.7, "bootstrap": "reply"},
    ],
    "vapo": [
        {"alpha": 0.8},
        {"clip_low": 0.1, "clip_high": 0.3},
        {"alpha": 0.8, "bootstrap": "reply"},
        {"likelihood": 0.3},
    ],
    "vc_ppo": [
        {"lam": 0.7, "lam_critic": 0.9},
        {"clip_low": 0.1, "clip_high": 0.3},
        {"lam": 0.7, "bootstrap": "limit"},
    ],
    "ppo_whitened": [{"gamma": 0.9, "lam": 0.7, "epsilon": 0.1}, {"clip_low": 0.1, "clip_high": 0.3}],
    "reinforce_pp": [
        {"beta": 0.2, "epsilon": 0.1},
        {"clip_low": 0.1, "clip_high": 0.3},
        {"baseline": "group", "beta": 0.2, "epsilon": 0.1},
        {"baseline": "group", "clip_low": 0.1, "clip_high": 0.3},
    ],
    "reinforce_pp_loo": [{"beta": 0.2, "scale": 0.4}, {"clip_low": 0.1, "clip_high": 0.3}],
    "brpo": [{"clip_low": 0.1, "clip_high": 0.3}, {"baseline": "group", "clip_low": 0.1, "clip_high": 0.3}],
    "gigpo": [{"gamma": 0.5, "weight": 0.3}, {"clip_low": 0.1, "clip_high": 0.3}],
    "hgpo": [{"gamma": 0.5, "history": 1, "alpha": 2.0}, {"history": 0, "clip_low": 0.1, "clip_high": 0.3}],
    "rebn": [{"gamma": 0.9, "epsilon": 0.1}, {"clip_low": 0.1, "clip_high": 0.3}],
    "turn_grpo": [
        {"gamma": 0.5, "clip_low": 0.1, "clip_high": 0.3},
        {"compared": "reached"},
        {"compared": "reached", "gamma": 0.5, "scale": "deviation", "epsilon": 0.1},
        {"compared": "turns", "gamma": 0.5},
        {"compared": "turns", "scale": "deviation"},
        {"compared": "rewards", "gamma": 0.5},
        {"compared": "rewards", "scale": "deviation"},
    ],
    "turn_ppo": [{"gamma": 0.9}, {"gamma": 0.9, "lam": 0.7}, {"clip_low": 0.1, "clip_high": 0.3}],
    "turn_reinforce": [{"gamma": 0.9}, {"gamma": 0.5, "turns": "discounted"}],
    "rl2ml": [
        {"parameter": 0.0},
        {"parameter": 1.6},
        {"parameter": -0.5},
        {"baseline": 1.0},
        {"family": "B"},
        {"family": "C"},
        {"family": "D"},
        {"family": "B", "parameter": 1.5},
        {"family": "C", "parameter": 1.1},
        {"family": "D", "parameter": 1.4},
    ],
}

FORMER = {
    former.row + "".join(f",{key}={value}" for key, value in former.options.items()): former
    for former in RENAMED.values()
    if former.options
}
"""What were rows of their own once, and have options now: by the name of the case."""
FORMS = (*TABLE, *FORMER)
"""The cases that everything is proved of: each row with default options, and each that was a row."""


NARROW = ("geometric_rejection", "gspo", "gepo")
LAGS = dict.fromkeys(NARROW, 1e-4) | {"luspo": 5e-4, "entropy_mask": 2e-4}
"""Of rows with a narrow band, or with a quantile that a token must not cross."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row under test, with its textbook loss."""

    name: str
    row: Objective
    loss: Loss
    lag: float = 0.04
    """How far behavior may lag behind the policy with every ratio inside the row's band."""


class Unclaimed(Exception):
    """A row that nothing can be held against."""


def collect(
    table: Mapping[str, Callable[..., Any]],
    losses: Mapping[str, Callable[..., Tensor]],
    variants: Mapping[str, list[dict[str, Any]]],
) -> list[Case]:
    """Every row of a table with default options and in its variants.

    Raises: Unclaimed for a row without a target, a closed form or a textbook loss; under pytest this fails collection.
    """
    cases = []
    for name, build in table.items():
        former = [dict(each.options) for each in FORMER.values() if each.row == name]
        for options in [{}, *former, *variants.get(name, [])]:
            row = build(**options)
            if not isinstance(getattr(row, "target", None), Target):
                raise Unclaimed(f"objective {name!r} declares no target")
            if not options and row.closed_form is None:
                raise Unclaimed(f"objective {name!r} has a shape, which holds for any credit, and no closed form")
            if name not in losses:
                raise Unclaimed(f"objective {name!r} has no textbook loss in the tests")
            bound = inspect.signature(build).bind(**options)
            bound.apply_defaults()
            label = name + "".join(f",{key}={value}" for key, value in options.items())
            cases.append(
                Case(name=label, row=row, loss=partial(losses[name], **bound.arguments), lag=LAGS.get(name, 0.04))
            )
    return cases


def composed() -> list[Case]:
    """Compositions of the same parts that no row of the table uses yet."""
    plain = TABLE["dr_grpo"]()
    row = replace(plain, name="dr_grpo truncated", correction=partial(truncated, cap=2.0), mismatch=OffPolicy.TOKEN)
    cases = [Case(name=row.name, row=row, loss=partial(dr_grpo_loss, clip_low=0.2, clip_high=0.2, cap=2.0))]
    row = replace(TABLE["dapo"](), name="dapo by prompt", aggregate=prompt_mean)
    cases.append(Case(name=row.name, row=row, loss=by_prompt_loss))
    row = replace(TABLE["grpo"](), name="grpo k3", penalty=k3, penalty_weight=0.3)
    anchored = partial(grpo_loss, clip_low=0.2, clip_high=0.2, epsilon=1e-6, reference_weight=0.3)
    cases.append(Case(name=row.name, row=row, loss=anchored))
    for penalty in (k1_in_return, k2, ratio_weighted_k3):
        row = replace(plain, name=f"dr_grpo {penalty.__name__}", penalty=penalty, penalty_weight=0.3)
        cases.append(Case(name=row.name, row=row, loss=partial(penalised_loss, penalty=penalty.__name__, weight=0.3)))
    return cases


CASES = {case.name: case for case in [*collect(TABLE, LOSSES, VARIANTS), *composed()]}
