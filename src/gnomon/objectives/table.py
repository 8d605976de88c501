"""The table of objectives: a named algorithm is a function that returns one row."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence

from gnomon.objectives.context_rows import gfpo, gfpo_efficiency, luffy, luffy_paper, rae, seed_grpo, seed_grpo_loo
from gnomon.objectives.count_rows import (
    maxrl,
    maxrl_control,
    maxrl_released,
    maxrl_sub,
    pass_at_all,
    pass_at_k_analytic,
    pass_at_k_centred,
    pkpo,
    pkpo_loo,
    pkpo_marginal,
    rl2ml,
)
from gnomon.objectives.group_rows import dr_grpo, grpo, grpo_sample_std, reinforce, reinforce_centred, rloo
from gnomon.objectives.likelihood_rows import fcp, rft, sft, verifree, verifree_advantage
from gnomon.objectives.off_policy_rows import dppo, kimi_k15, kimi_k15_token, topr
from gnomon.objectives.preference_rows import online_dpo, online_ipo, online_simpo, online_slic, xpo
from gnomon.objectives.ratio_rows import (
    cispo,
    cispo_cap,
    dapo,
    decoupled_ppo,
    dual_clip_ppo,
    geometric_rejection,
    gmpo,
    gspo,
    gspo_token,
    icepop,
    loop,
    sapo,
    scale_rl,
    sequence_is,
    sequence_mis,
    sequence_tis,
    tis,
)
from gnomon.objectives.row import Objective
from gnomon.objectives.token_rows import ppo, ppo_whitened, reinforce_pp, reinforce_pp_baseline, reinforce_pp_loo
from gnomon.objectives.turn_rows import brpo, brpo_released, rebn, turn_ppo, turn_reinforce, turn_reinforce_discounted

__all__ = ["RENAMED", "TABLE", "objective"]

TABLE: dict[str, Callable[..., Objective]] = {
    "brpo": brpo,
    "brpo_released": brpo_released,
    "cispo": cispo,
    "cispo_cap": cispo_cap,
    "dapo": dapo,
    "decoupled_ppo": decoupled_ppo,
    "dppo": dppo,
    "dr_grpo": dr_grpo,
    "dual_clip_ppo": dual_clip_ppo,
    "fcp": fcp,
    "geometric_rejection": geometric_rejection,
    "gfpo": gfpo,
    "gfpo_efficiency": gfpo_efficiency,
    "gmpo": gmpo,
    "grpo": grpo,
    "grpo_sample_std": grpo_sample_std,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "icepop": icepop,
    "kimi_k15": kimi_k15,
    "kimi_k15_token": kimi_k15_token,
    "loop": loop,
    "luffy": luffy,
    "luffy_paper": luffy_paper,
    "maxrl": maxrl,
    "maxrl_control": maxrl_control,
    "maxrl_released": maxrl_released,
    "maxrl_sub": maxrl_sub,
    "online_dpo": online_dpo,
    "online_ipo": online_ipo,
    "online_simpo": online_simpo,
    "online_slic": online_slic,
    "pass_at_all": pass_at_all,
    "pass_at_k_analytic": pass_at_k_analytic,
    "pass_at_k_centred": pass_at_k_centred,
    "pkpo": pkpo,
    "pkpo_loo": pkpo_loo,
    "pkpo_marginal": pkpo_marginal,
    "ppo": ppo,
    "ppo_whitened": ppo_whitened,
    "rae": rae,
    "rebn": rebn,
    "reinforce": reinforce,
    "reinforce_centred": reinforce_centred,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "reinforce_pp_loo": reinforce_pp_loo,
    "rft": rft,
    "rl2ml": rl2ml,
    "rloo": rloo,
    "sapo": sapo,
    "scale_rl": scale_rl,
    "seed_grpo": seed_grpo,
    "seed_grpo_loo": seed_grpo_loo,
    "sequence_is": sequence_is,
    "sequence_mis": sequence_mis,
    "sequence_tis": sequence_tis,
    "sft": sft,
    "tis": tis,
    "topr": topr,
    "turn_ppo": turn_ppo,
    "turn_reinforce": turn_reinforce,
    "turn_reinforce_discounted": turn_reinforce_discounted,
    "verifree": verifree,
    "verifree_advantage": verifree_advantage,
    "xpo": xpo,
}

RENAMED: dict[str, str] = {"dro": "kimi_k15", "dro_token": "kimi_k15_token"}
"""Former name to present one. The former was that of another algorithm: DRO, arXiv 2405.19107, draws the policy to a
reference and learns a value; these rows draw it to the sampler."""


def objective(name: str, **options: float | str) -> Objective:
    """The row of that name, with its options set.

    Raises: ValueError for an unknown name or option, with the nearest one that exists, and for an option
        out of range.
    """
    if name in RENAMED:
        raise ValueError(f"the objective {name!r} is now called {RENAMED[name]!r}: it is not DRO, arXiv 2405.19107")
    if name not in TABLE:
        raise ValueError(f"no objective is called {name!r}{_nearest(name, TABLE)}")
    known = list(inspect.signature(TABLE[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(f"objective {name!r} has no option {option!r}{_nearest(option, known)}")
    return TABLE[name](**options)


def _nearest(word: str, known: Sequence[str] | dict[str, Callable[..., Objective]]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known)) or 'none'}"
