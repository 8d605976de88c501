"""A run's configuration: strict, typed, refused whole with every mistake named before anything starts."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gnomon.elsewhere import known
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.rates import rates

__all__ = ["Origins", "RunConfig", "Source", "load", "recorded", "resolve", "to_toml"]

Origins = Mapping[str, str]
"""Dotted key to where it was given."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Row(Section):
    """Settings of an objective."""

    binary: ClassVar[bool] = False
    """Whether every reward must be 0 or 1."""
    demonstrated: ClassVar[bool] = False
    """Whether it learns from replies that somebody else wrote."""
    max_group: ClassVar[int | None] = None
    unmet: ClassVar[str] = ""
    """What its credit cannot do without and no environment gives."""
    rewarded: ClassVar[bool] = True
    """Whether rewards play any part."""
    recipe: ClassVar[Mapping[str, Any]] = {}
    """Dotted settings of other tables that it comes with, where none are given."""


class Reinforce(Row):
    type: Literal["reinforce"] = "reinforce"
    min_group: ClassVar[int] = 1


class Rloo(Row):
    type: Literal["rloo"] = "rloo"
    min_group: ClassVar[int] = 2


class Grpo(Row):
    type: Literal["grpo"] = "grpo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class DrGrpo(Row):
    type: Literal["dr_grpo"] = "dr_grpo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class GrpoSampleStd(Row):
    type: Literal["grpo_sample_std"] = "grpo_sample_std"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class ReinforceCentred(Row):
    type: Literal["reinforce_centred"] = "reinforce_centred"
    min_group: ClassVar[int] = 2


class Maxrl(Row):
    type: Literal["maxrl"] = "maxrl"
    binary: ClassVar[bool] = True
    min_group: ClassVar[int] = 1


class MaxrlControl(Row):
    type: Literal["maxrl_control"] = "maxrl_control"
    binary: ClassVar[bool] = True
    min_group: ClassVar[int] = 1


class MaxrlReleased(Row):
    type: Literal["maxrl_released"] = "maxrl_released"
    binary: ClassVar[bool] = True
    min_group: ClassVar[int] = 2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class MaxrlSub(Row):
    type: Literal["maxrl_sub"] = "maxrl_sub"
    binary: ClassVar[bool] = True
    order: Annotated[int, Field(ge=1)] = 2

    @property
    def min_group(self) -> int:
        return self.order


class Rl2ml(Row):
    type: Literal["rl2ml"] = "rl2ml"
    binary: ClassVar[bool] = True
    min_group: ClassVar[int] = 1
    family: Literal["A", "B", "C", "D"] = "A"
    parameter: Annotated[float, Field(gt=-1, allow_inf_nan=False)] = 0.5
    """0 is REINFORCE, 1 is maximum likelihood, beyond is beyond."""
    baseline: Annotated[float, Field(allow_inf_nan=False)] = 0.0


class Pkpo(Row):
    type: Literal["pkpo"] = "pkpo"
    k: Annotated[int, Field(ge=1)] = 2

    @property
    def min_group(self) -> int:
        return self.k


class PkpoLoo(Row):
    type: Literal["pkpo_loo"] = "pkpo_loo"
    k: Annotated[int, Field(ge=1)] = 2

    @property
    def min_group(self) -> int:
        return self.k + 1


class PkpoMarginal(Row):
    type: Literal["pkpo_marginal"] = "pkpo_marginal"
    k: Annotated[int, Field(ge=2)] = 2

    @property
    def min_group(self) -> int:
        return self.k


class PassAtAll(Row):
    type: Literal["pass_at_all"] = "pass_at_all"
    min_group: ClassVar[int] = 2


class PassAtKAnalytic(Row):
    type: Literal["pass_at_k_analytic"] = "pass_at_k_analytic"
    binary: ClassVar[bool] = True
    k: Annotated[int, Field(ge=1)] = 2

    @property
    def min_group(self) -> int:
        return self.k + 1


class PassAtKCentred(Row):
    type: Literal["pass_at_k_centred"] = "pass_at_k_centred"
    binary: ClassVar[bool] = True
    k: Annotated[int, Field(ge=1)] = 2

    @property
    def min_group(self) -> int:
        return self.k + 1


class Loop(Row):
    type: Literal["loop"] = "loop"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class DualClipPpo(Row):
    type: Literal["dual_clip_ppo"] = "dual_clip_ppo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    ceiling: Annotated[float, Field(gt=1)] = 3.0


class SequenceIs(Row):
    type: Literal["sequence_is"] = "sequence_is"
    min_group: ClassVar[int] = 2


class Gspo(Row):
    type: Literal["gspo"] = "gspo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 3e-4
    clip_high: Annotated[float, Field(gt=0)] = 4e-4
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class GspoToken(Row):
    type: Literal["gspo_token"] = "gspo_token"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 3e-4
    clip_high: Annotated[float, Field(gt=0)] = 4e-4
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Gmpo(Row):
    type: Literal["gmpo"] = "gmpo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.4
    clip_high: Annotated[float, Field(gt=0)] = 0.4
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Sapo(Row):
    type: Literal["sapo"] = "sapo"
    min_group: ClassVar[int] = 2
    gain: Annotated[float, Field(gt=0)] = 1.0
    loss: Annotated[float, Field(gt=0)] = 1.05
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Dapo(Row):
    type: Literal["dapo"] = "dapo"
    recipe: ClassVar[Mapping[str, Any]] = {"rollout.refill": 10, "regularize.overlong": 0.2}
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.28
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Cispo(Row):
    type: Literal["cispo"] = "cispo"
    min_group: ClassVar[int] = 2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class CispoCap(Row):
    type: Literal["cispo_cap"] = "cispo_cap"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 5.0
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class ScaleRl(Row):
    type: Literal["scale_rl"] = "scale_rl"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 5.0
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Tis(Row):
    type: Literal["tis"] = "tis"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 2.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class Icepop(Row):
    type: Literal["icepop"] = "icepop"
    min_group: ClassVar[int] = 2
    least: Annotated[float, Field(ge=0, le=1)] = 0.5
    most: Annotated[float, Field(ge=1)] = 5.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class SequenceTis(Row):
    type: Literal["sequence_tis"] = "sequence_tis"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 2.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class SequenceMis(Row):
    type: Literal["sequence_mis"] = "sequence_mis"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 10.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class GeometricRejection(Row):
    type: Literal["geometric_rejection"] = "geometric_rejection"
    min_group: ClassVar[int] = 2
    least: Annotated[float, Field(ge=0, le=1)] = 0.999
    most: Annotated[float, Field(ge=1)] = 1.001
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class DecoupledPpo(Row):
    type: Literal["decoupled_ppo"] = "decoupled_ppo"
    min_group: ClassVar[int] = 2
    cap: Annotated[float, Field(ge=1)] = 5.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class SeedGrpo(Row):
    type: Literal["seed_grpo"] = "seed_grpo"
    min_group: ClassVar[int] = 2
    alpha: Annotated[float, Field(ge=0, lt=1)] = 0.5
    fade: Literal["linear", "exponential", "focal"] = "linear"
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class SeedGrpoLoo(Row):
    type: Literal["seed_grpo_loo"] = "seed_grpo_loo"
    min_group: ClassVar[int] = 2
    alpha: Annotated[float, Field(ge=0, lt=1)] = 0.5
    fade: Literal["linear", "exponential", "focal"] = "linear"
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class Gfpo(Row):
    type: Literal["gfpo"] = "gfpo"
    min_group: ClassVar[int] = 2
    keep: Annotated[int, Field(ge=2)] = 4
    """Rollouts of a group that teach."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class GfpoEfficiency(Row):
    type: Literal["gfpo_efficiency"] = "gfpo_efficiency"
    min_group: ClassVar[int] = 2
    keep: Annotated[int, Field(ge=2)] = 4
    """Rollouts of a group that teach."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Rae(Row):
    type: Literal["rae"] = "rae"
    min_group: ClassVar[int] = 1
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class Luffy(Row):
    type: Literal["luffy"] = "luffy"
    min_group: ClassVar[int] = 2
    demonstrated: ClassVar[bool] = True
    gamma: Annotated[float, Field(gt=0)] = 0.1


class LuffyPaper(Row):
    type: Literal["luffy_paper"] = "luffy_paper"
    min_group: ClassVar[int] = 2
    demonstrated: ClassVar[bool] = True
    gamma: Annotated[float, Field(gt=0)] = 0.1
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-6


class Ppo(Row):
    type: Literal["ppo"] = "ppo"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    lam: Annotated[float, Field(ge=0, le=1)] = 1.0
    """1 asks the critic for a baseline alone, 0 for all that follows."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class PpoWhitened(Row):
    type: Literal["ppo_whitened"] = "ppo_whitened"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    lam: Annotated[float, Field(ge=0, le=1)] = 1.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-8


class ReinforcePp(Row):
    type: Literal["reinforce_pp"] = "reinforce_pp"
    min_group: ClassVar[int] = 1
    beta: Annotated[float, Field(ge=0)] = 0.0
    """Reward taken off per nat that a rollout strays from the policy that the run began with."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-8


class ReinforcePpBaseline(Row):
    type: Literal["reinforce_pp_baseline"] = "reinforce_pp_baseline"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(ge=0)] = 0.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-8


class ReinforcePpLoo(Row):
    type: Literal["reinforce_pp_loo"] = "reinforce_pp_loo"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(ge=0)] = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0
    """What credit is divided by, in units of reward."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class TurnReinforce(Row):
    type: Literal["turn_reinforce"] = "turn_reinforce"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount per turn."""


class TurnReinforceDiscounted(Row):
    type: Literal["turn_reinforce_discounted"] = "turn_reinforce_discounted"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Discount per turn."""


class TurnPpo(Row):
    type: Literal["turn_ppo"] = "turn_ppo"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount per turn."""
    lam: Annotated[float, Field(ge=0, le=1)] = 1.0
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class Rebn(Row):
    type: Literal["rebn"] = "rebn"
    min_group: ClassVar[int] = 1
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount per turn."""
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    epsilon: Annotated[float, Field(ge=0)] = 1e-9


class Brpo(Row):
    type: Literal["brpo"] = "brpo"
    unmet: ClassVar[str] = "the reward of the answer at every budget"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class BrpoReleased(Row):
    type: Literal["brpo_released"] = "brpo_released"
    unmet: ClassVar[str] = "the reward of the answer at every budget"
    min_group: ClassVar[int] = 1
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    clip_high: Annotated[float, Field(gt=0)] = 0.2


class Dppo(Row):
    type: Literal["dppo"] = "dppo"
    min_group: ClassVar[int] = 2
    clip_low: Annotated[float, Field(gt=0)] = 0.2
    """Of the probability, not of the ratio."""
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    cap: Annotated[float, Field(ge=1)] = 20.0


class KimiK15(Row):
    type: Literal["kimi_k15"] = "kimi_k15"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(ge=0)] = 0.05


class KimiK15Token(Row):
    type: Literal["kimi_k15_token"] = "kimi_k15_token"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(ge=0)] = 0.05


class Topr(Row):
    type: Literal["topr"] = "topr"
    min_group: ClassVar[int] = 2


class Sft(Row):
    type: Literal["sft"] = "sft"
    rewarded: ClassVar[bool] = False
    recipe: ClassVar[Mapping[str, Any]] = {"rollout.group": 1, "rollout.prompts": 256}
    demonstrated: ClassVar[bool] = True
    max_group: ClassVar[int | None] = 1
    min_group: ClassVar[int] = 1


class Rft(Row):
    type: Literal["rft"] = "rft"
    binary: ClassVar[bool] = True
    min_group: ClassVar[int] = 1


class Fcp(Row):
    type: Literal["fcp"] = "fcp"
    recipe: ClassVar[Mapping[str, Any]] = {"rollout.offline": 0.9, "optim.epochs": 4}
    rewarded: ClassVar[bool] = False
    min_group: ClassVar[int] = 1


class Verifree(Row):
    type: Literal["verifree"] = "verifree"
    rewarded: ClassVar[bool] = False
    min_group: ClassVar[int] = 2


class VerifreeAdvantage(Row):
    type: Literal["verifree_advantage"] = "verifree_advantage"
    rewarded: ClassVar[bool] = False
    min_group: ClassVar[int] = 2


class OnlineDpo(Row):
    type: Literal["online_dpo"] = "online_dpo"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(gt=0)] = 0.1


class OnlineIpo(Row):
    type: Literal["online_ipo"] = "online_ipo"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(gt=0)] = 0.1


class OnlineSlic(Row):
    type: Literal["online_slic"] = "online_slic"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(gt=0)] = 0.1


class OnlineSimpo(Row):
    type: Literal["online_simpo"] = "online_simpo"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(gt=0)] = 2.0
    margin: Annotated[float, Field(ge=0)] = 1.0


class Xpo(Row):
    type: Literal["xpo"] = "xpo"
    min_group: ClassVar[int] = 2
    beta: Annotated[float, Field(gt=0)] = 0.1
    alpha: Annotated[float, Field(ge=0)] = 5e-6


Objective = Annotated[
    Reinforce
    | ReinforceCentred
    | Rloo
    | Grpo
    | GrpoSampleStd
    | DrGrpo
    | Maxrl
    | MaxrlControl
    | MaxrlReleased
    | MaxrlSub
    | Rl2ml
    | Pkpo
    | PkpoLoo
    | PkpoMarginal
    | PassAtAll
    | PassAtKAnalytic
    | PassAtKCentred
    | Loop
    | DualClipPpo
    | SequenceIs
    | Gspo
    | GspoToken
    | Gmpo
    | Sapo
    | Dapo
    | Cispo
    | CispoCap
    | ScaleRl
    | Tis
    | Icepop
    | SequenceTis
    | SequenceMis
    | GeometricRejection
    | DecoupledPpo
    | SeedGrpo
    | SeedGrpoLoo
    | Gfpo
    | GfpoEfficiency
    | Rae
    | Luffy
    | LuffyPaper
    | Ppo
    | PpoWhitened
    | ReinforcePp
    | ReinforcePpBaseline
    | ReinforcePpLoo
    | TurnReinforce
    | TurnReinforceDiscounted
    | TurnPpo
    | Rebn
    | Brpo
    | BrpoReleased
    | Dppo
    | KimiK15
    | KimiK15Token
    | Topr
    | Sft
    | Rft
    | Fcp
    | Verifree
    | VerifreeAdvantage
    | OnlineDpo
    | OnlineIpo
    | OnlineSlic
    | OnlineSimpo
    | Xpo,
    Field(discriminator="type"),
]
OBJECTIVES: tuple[type[Row], ...] = get_args(get_args(Objective)[0])


class Env(Section):
    """The environment, and its own options beside `type`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    type: str = "countdown"
    """The name of a shipped environment, `package.module:Class` or `file.py:Class`."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Policy(Section):
    """The model that is trained."""

    path: str = "tiny"
    """`tiny`, which ships with the package, or a model folder in the format of the Hugging Face hub."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of forward and backward passes. Weights that the optimiser moves, gradient sums and log-probabilities
    are float32."""
    renderer: Literal["auto", "plain", "chatml", "qwen3", "gemma", "llama3", "harmony"] = "auto"
    """Chat format. `auto` chooses the one that the model folder's chat template writes."""


class Rollout(Section):
    """What is sampled in a step."""

    prompts: Annotated[int, Field(ge=1)] = 32
    """Tasks per step."""
    group: Annotated[int, Field(ge=1)] = 8
    """Rollouts per task. A batch has prompts × group rollouts."""
    max_tokens: Annotated[int, Field(ge=1)] = 128
    """Most tokens of one reply. An episode of several turns has several replies."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divides the logits before sampling. The learner's log-probabilities use the same value."""
    stop: list[Annotated[str, Field(min_length=1)]] = ["</answer>"]
    """Texts that end a reply. The reply keeps them."""
    tasks: list[Annotated[int, Field(ge=0)]] = []
    """Indices of the train tasks to draw from. Empty means all."""
    turns: Annotated[int, Field(ge=0)] = 0
    """Most replies per episode, of all players together. 0 leaves the limit to the environment."""
    context: Annotated[int, Field(ge=2)] = 4096
    """Most tokens of a conversation: prompts, observations and replies."""
    seconds: Annotated[float, Field(gt=0)] = float("inf")
    """Wall-clock limit for the episodes of a step. A run that meets it cannot be repeated bit for bit."""
    demonstrations: str = ""
    """JSONL file of replies to train tasks, for objectives that learn from demonstrations."""
    offline: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of the steps, from the first, that sample from the initial policy. Only fcp uses it."""
    refill: Annotated[int, Field(ge=0)] = 0
    """Most times per step that groups with all replies right or all wrong are replaced by new tasks (DAPO)."""
    candidates: Annotated[int, Field(ge=1)] = 1
    """Tasks sampled per task that is trained on. Those with the least certain replies are kept."""


class Referee(Section):
    """The worker processes that run environments and verifiers, and their limits."""

    workers: Annotated[int, Field(ge=1)] = 2
    """Number of worker processes."""
    seconds: Annotated[float, Field(gt=0)] = 2.0
    """Processor time that one call may use. The wall-clock limit is ten times as long."""
    memory_mib: Annotated[int, Field(ge=64)] = 2048
    """Address space of a worker, in MiB."""
    retries: Annotated[int, Field(ge=0)] = 1
    """How often a call is repeated in a new worker after the environment failed."""
    failures: Annotated[float, Field(ge=0, le=1)] = 0.005
    """Fraction of the rollouts of a step that may fail before the run stops."""


class Seats(Section):
    """Who plays in an environment of several players."""

    opponent: str = ""
    """Empty: the policy plays all seats and is trained on all. `past`: it is trained on one seat, and an earlier
    version, drawn anew in every step, plays the others. A model folder: that model plays the others."""
    every: Annotated[int, Field(ge=1)] = 20
    """Steps between two versions that are kept as opponents."""
    keep: Annotated[int, Field(ge=2)] = 8
    """Most versions kept as opponents. The first is always kept. Every checkpoint stores all of them."""
    baseline: Literal["seat", "shared"] = "seat"
    """Whether a reward is compared with the rewards of its own seat in the group, or with those of all seats."""


class Optim(Section):
    """AdamW and its schedule."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    """Peak learning rate. Its default is 1e-3 for models of up to ten million parameters, 1e-6 for larger ones."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Learning rate at the last step, as a fraction of `lr`. The decay is linear; 1 keeps the rate constant."""
    warmup: Annotated[int, Field(ge=0)] = 5
    """Optimiser steps in which the learning rate rises linearly to `lr`."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the gradient. A larger gradient is scaled down to it."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay of AdamW."""
    epochs: Annotated[int, Field(ge=1)] = 1
    """How often the rollouts of a step are trained on."""
    minibatches: Annotated[int, Field(ge=1)] = 1
    """Optimiser steps per epoch. Each takes an equal part of the groups."""

    @property
    def updates(self) -> int:
        """Optimiser steps per step of the run."""
        return self.epochs * self.minibatches


class Regularize(Section):
    """Terms beside the objective, for any objective."""

    kl: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Weight of the KL penalty to the initial policy, per token."""
    estimator: Literal["k1_in_return", "k2", "k3", "ratio_weighted_k3", "full"] = "k3"
    """Estimator of the KL penalty. `full` sums over the vocabulary; the others use the sampled token."""
    entropy: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Weight of the entropy bonus, per token, in nats. A negative weight is a penalty."""
    overlong: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Fraction of `max_tokens` at the end of the limit in which the length penalty grows from 0 to 1 (DAPO). The
    longest reply of an episode counts."""


class Critic(Section):
    """The value function of objectives that ask for one."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    """Peak learning rate of the critic. Its default is 1e-3 for models of up to ten million parameters, else 1e-5."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Largest norm of the critic's gradient."""


class Budget(Section):
    """How long a run goes on."""

    steps: Annotated[int, Field(ge=1)] = 80
    """Training steps."""
    seconds: Annotated[float, Field(gt=0)] = float("inf")
    """Wall-clock limit. The run stops after the step that exceeds it, and can be resumed."""


class Eval(Section):
    """Evaluation on held-out tasks."""

    every: Annotated[int, Field(ge=1)] = 20
    """Steps between evaluations. One more follows the last step."""
    tasks: Annotated[int, Field(ge=1)] = 256
    """Held-out tasks, from the first of the test split."""
    samples: Annotated[int, Field(ge=1)] = 1
    """Rollouts per held-out task."""
    pass_at: list[Annotated[int, Field(ge=1)]] = [1]
    """Values of k for which pass@k is estimated. None may exceed `samples`."""


class Save(Section):
    """Checkpoints."""

    every: Annotated[int, Field(ge=1)] = 20
    """Steps between checkpoints. One more follows the last step."""
    keep: Annotated[int, Field(ge=1)] = 2
    """Checkpoints to keep, the newest first."""


class Audit(Section):
    """The audit of the environment before a run."""

    acknowledge: list[str] = []
    """Rules of `gnomon audit` whose findings you accept. They no longer stop the run."""


class RunConfig(Section):
    """Everything that decides a run's bytes, besides the machine."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random draw of the run."""
    threads: Annotated[int, Field(ge=1)] = 1
    """CPU threads of torch. More than one helps a large policy only: threads wait for each other in every operation.
    Another number sums gradients in another order, so the bits of a run change."""
    env: Env = Env()
    policy: Policy = Policy()
    rollout: Rollout = Rollout()
    referee: Referee = Referee()
    seats: Seats = Seats()
    objective: Objective = DrGrpo()
    regularize: Regularize = Regularize()
    optim: Optim = Optim()
    critic: Critic = Critic()
    budget: Budget = Budget()
    eval: Eval = Eval()
    save: Save = Save()
    audit: Audit = Audit()


@dataclass(frozen=True, slots=True)
class Source:
    """One layer of settings and where each key of it was given."""

    values: Mapping[str, Any]
    origins: Origins


def load(path: Path) -> Source:
    """A TOML recipe as a source. Raises: ConfigErrors when the file is missing or no TOML."""
    try:
        text = path.read_text("utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        problem = ConfigError("E001", "the recipe cannot be read", where=str(path), why=str(error.strerror))
        raise ConfigErrors([problem]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigErrors([ConfigError("E002", "the recipe is no TOML", where=str(path), why=str(error))]) from error
    return Source(values, {key: f"{path}, line {line_of(text, key)}" for key in leaves(values)})


def recorded(path: Path) -> Source:
    """The recipe of a run folder, which may be older than this Gnomon: a renamed objective has its present name.

    Raises: as `load`.
    """
    found = load(path)
    row = found.values.get("objective")
    if isinstance(row, dict) and row.get("type") in RENAMED:
        row["type"] = RENAMED[row["type"]]
    return found


def overrides(words: Sequence[str], first: int = 1) -> Source:
    """`key=value` words as a source; values are TOML, and a bare word is a text. `run=` is no setting.

    Args: first: the number of the first word on the command line, for error messages.
    Raises: ConfigErrors for a word without `=`.
    """
    values: dict[str, Any] = {}
    origins, problems = {}, []
    for place, word in enumerate(words, first):
        key, sign, raw = word.partition("=")
        if key == "run":
            continue
        where = f"the command line, argument {place}: {word}"
        if not sign or not re.fullmatch(r"[A-Za-z_][\w.]*", key):
            fix = "settings are written key=value, for example rollout.group=16"
            problems.append(ConfigError("E003", f"{word!r} is no setting", where=where, fix=fix))
            continue
        put(values, SHORT.get(key, key), value_of(raw))
        origins[SHORT.get(key, key)] = where
    if problems:
        raise ConfigErrors(problems)
    return Source(values, origins)


Check = Callable[["RunConfig", Origins], Iterable[ConfigError]]


def resolve(sources: Sequence[Source], checks: Sequence[Check] = ()) -> tuple[RunConfig, Origins]:
    """Defaults, then each source over the ones before it.

    Args: checks: more that must hold; they run beside our own, also where some key was refused.
    Returns: the configuration, and the origin of every key that some source gave.
    Raises: ConfigErrors, with every mistake at once.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        given = {SHORT.get(key, key): (key, value) for key, value in leaves(source.values).items()}
        for table in ("env", "objective"):
            if f"{table}.type" in given and given[f"{table}.type"][1] != type_of(values, table):
                values.pop(table, None)  # Another environment or objective has options of its own.
                origins = {key: place for key, place in origins.items() if not key.startswith(f"{table}.")}
        for name, (key, value) in given.items():
            put(values, name, value)
            origins[name] = source.origins.get(key, "a default")
    if isinstance(chosen := values.get("objective"), dict):
        chosen.setdefault("type", DEFAULTS["objective"]["type"])
    for name, value in recipe_of(type_of(values, "objective")).items():
        if name not in origins:
            put(values, name, value)
            origins[name] = f"the recipe of objective={type_of(values, 'objective')}"
    found = rates(model_of(values))
    for name, rate in (("optim.lr", found.policy), ("critic.lr", found.critic)):
        if name not in origins and isinstance(values.setdefault(name.partition(".")[0], {}), dict):
            put(values, name, rate)
            origins[name] = found.why
    problems: list[ConfigError] = []
    while True:
        try:
            config = RunConfig.model_validate(values)
            break
        except ValidationError as error:
            items = error.errors()
            problems += [problem for item in items for problem in explained(item, origins)]
            for item in items:
                drop(values, [str(part) for part in item["loc"] if str(part) not in TYPES])
    for check in (contradictions, *checks):
        problems += check(config, origins)
    if problems:
        raise ConfigErrors(problems)
    return config, origins


def type_of(values: Mapping[str, Any], table: str) -> Any:
    """The `type` of a table as it stands, the default where none is given."""
    below = values.get(table)
    return below.get("type", DEFAULTS[table]["type"]) if isinstance(below, dict) else DEFAULTS[table]["type"]


def model_of(values: Mapping[str, Any]) -> str:
    """The model folder as it stands, `tiny` where none is given."""
    below = values.get("policy")
    return str(below.get("path", "tiny") if isinstance(below, dict) else below or "tiny")


def recipe_of(name: Any) -> Mapping[str, Any]:
    """The settings that an objective comes with."""
    return next((kind.recipe for kind in OBJECTIVES if kind.model_fields["type"].default == name), {})


def drop(values: dict[str, Any], path: Sequence[str]) -> None:
    """Forget a refused key, so that the rest can still be looked at."""
    for part in path[:-1]:
        below = values.get(part)
        if not isinstance(below, dict):
            values.pop(part, None)
            return
        values = below
    if path[-1] in values:
        del values[path[-1]]
    else:
        values.clear()


SHORT = {
    "env": "env.type", "policy": "policy.path", "objective": "objective.type",
    "prompts": "rollout.prompts", "group": "rollout.group", "max_tokens": "rollout.max_tokens",
    "steps": "budget.steps", "seconds": "budget.seconds", "lr": "optim.lr",
}  # fmt: skip
"""Keys that may be written without their table."""


def contradictions(config: RunConfig, origins: Origins) -> Iterator[ConfigError]:
    """What each setting allows by itself but not together with another."""
    objective, group = config.objective, config.rollout.group
    if group < objective.min_group:
        alone = objective.min_group == 2
        yield ConfigError(
            "E031",
            f"group = {group} gives every rollout zero advantage under {objective.type}"
            if alone
            else f"group = {group} is too small for {objective.type} with these options",
            where=origins.get("rollout.group", "rollout.group"),
            why="its baseline is the mean of the group, which is the rollout's own reward"
            if alone
            else f"it compares groups of at least {objective.min_group}",
            fix=f"rollout.group={max(8, objective.min_group)}, or objective=reinforce",
        )
    if isinstance(objective, Rl2ml):
        most = group / (group - 1) if objective.family == "C" and group > 1 else math.inf
        least = 0.0 if objective.family == "D" else -1.0
        if not least <= objective.parameter < most:
            yield ConfigError(
                "E033",
                f"family {objective.family} has no parameter {objective.parameter:g} in groups of {group}",
                where=origins.get("objective.parameter", "objective.parameter"),
                fix="objective.parameter between 0, REINFORCE, and 1, maximum likelihood",
            )
    if objective.unmet:
        yield ConfigError(
            "E033",
            f"{objective.type} needs {objective.unmet}, which no environment gives",
            where=origins.get("objective.type", "objective.type"),
            why="it can be used from Python, with the segment_rewards that a script hands in",
            fix="objective=rloo",
        )
    shown = config.rollout.demonstrations
    if objective.demonstrated and not shown:
        yield ConfigError(
            "E035",
            f"{objective.type} learns from demonstrations, and none are given",
            where=origins.get("objective.type", "objective.type"),
            fix='rollout.demonstrations=FILE, with lines like {"task": 17, "reply": "..."}',
        )
    if shown and not objective.demonstrated:
        yield ConfigError(
            "E035",
            f"{objective.type} samples its own rollouts and would never read the demonstrations",
            where=origins.get("rollout.demonstrations", "rollout.demonstrations"),
            fix="objective=sft, or no rollout.demonstrations",
        )
    if objective.max_group is not None and group > objective.max_group:
        yield ConfigError(
            "E036",
            f"group = {group} is too large for {objective.type}",
            where=origins.get("rollout.group", "rollout.group"),
            why="a demonstrated task has one reply",
            fix=f"rollout.group={objective.max_group}, and as many more rollout.prompts",
        )
    if config.regularize.overlong and (objective.binary or not objective.rewarded):
        yield ConfigError(
            "E042",
            f"regularize.overlong would shape the rewards of {objective.type}",
            where=origins.get("regularize.overlong", "regularize.overlong"),
            why="it counts rewards of 0 and 1" if objective.binary else "it looks at no reward",
            fix="regularize.overlong=0, or objective=dr_grpo",
        )
    chooses = {"refill": config.rollout.refill > 0, "candidates": config.rollout.candidates > 1}
    if any(chooses.values()) and (objective.demonstrated or not objective.rewarded or all(chooses.values())):
        name = next(name for name, given in chooses.items() if given)
        yield ConfigError(
            "E043",
            f"rollout.{name} cannot choose the tasks of a step",
            where=origins.get(f"rollout.{name}", f"rollout.{name}"),
            why="rollout.candidates chooses them otherwise"
            if all(chooses.values())
            else f"not all rollouts of {objective.type} are its own, or which are right is nothing to it",
            fix="rollout.refill=0 rollout.candidates=1",
        )
    if config.rollout.offline and objective.type != "fcp":
        yield ConfigError(
            "E044",
            f"{objective.type} has no steps offline",
            where=origins.get("rollout.offline", "rollout.offline"),
            why="only what learns from feedback in the prompt begins with rollouts of the base",
            fix="no rollout.offline, or objective=fcp",
        )
    if config.optim.minibatches > config.rollout.prompts:
        yield ConfigError(
            "E034",
            f"{config.rollout.prompts} prompts cannot fill {config.optim.minibatches} minibatches",
            where=origins.get("optim.minibatches", "optim.minibatches"),
            why="a minibatch holds whole groups",
            fix=f"optim.minibatches={config.rollout.prompts}",
        )
    if too_large := [k for k in config.eval.pass_at if k > config.eval.samples]:
        yield ConfigError(
            "E032",
            f"pass@{max(too_large)} cannot be estimated from {config.eval.samples} rollouts per task",
            where=origins.get("eval.pass_at", "eval.pass_at"),
            why="the unbiased estimate needs at least k rollouts",
            fix=f"eval.samples={max(too_large)}",
        )


def explained(item: Any, origins: Origins) -> Iterator[ConfigError]:
    """The errors behind one mistake of pydantic's, in our words; of an unknown table, one for each of its keys."""
    key = ".".join(str(part) for part in item["loc"] if str(part) not in TYPES)
    if item["type"] != "extra_forbidden":
        yield explain(item, origins)
        return
    below = [name for name in origins if name.startswith(f"{key}.")]
    for name in below or [key]:
        yield unknown_key(name, origins.get(name, name))


def unknown_key(key: str, where: str) -> ConfigError:
    """The mistake of setting what does not exist, with the name that it has here."""
    ours, absent = known(key)
    if ours == "run":
        return ConfigError("E012", f"unknown key {key}", where=where, fix="did you mean run=FOLDER?")
    if absent:
        return ConfigError("E012", f"unknown key {key}", where=where, why=absent, fix="leave it out")
    ours = ours or meant(key)
    default = leaves(DEFAULTS).get(ours)
    hint = f"did you mean {ours}{'' if default is None else f' (default {default!r})'}?"
    return ConfigError(
        "E012", f"unknown key {key}", where=where, fix=hint if ours else "gnomon config show lists every key"
    )


def explain(item: Any, origins: Origins) -> ConfigError:
    """One mistake of pydantic's, in our words."""
    path = [str(part) for part in item["loc"] if str(part) not in TYPES]
    key = ".".join(path)
    where = next((place for name, place in origins.items() if name == key or name.startswith(key + ".")), key)
    if item["type"] in ("union_tag_invalid", "union_tag_not_found"):
        given = item["input"].get("type") if isinstance(item["input"], dict) else item["input"]
        if problem := unknown_objective(given, where):
            return problem
    what = item["msg"][0].lower() + item["msg"][1:]
    return ConfigError(
        "E011", f"{key} is {item['input']!r}: {what}", where=where, fix=f"gnomon config show prints {key}"
    )


def unknown_objective(name: Any, where: str) -> ConfigError | None:
    """The mistake of naming an objective that does not exist; None where it does."""
    if name in TYPES:
        return None
    if name in RENAMED:
        return ConfigError(
            "E013",
            f"the objective {name!r} is now called {RENAMED[name]!r}",
            where=where,
            why="it pulls the policy to the sampler, as Kimi k1.5 does; DRO (arXiv 2405.19107) pulls it to a reference",
            fix=f"objective={RENAMED[name]}",
        )
    near = difflib.get_close_matches(str(name), TYPES, 1)
    fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(TYPES))}"
    return ConfigError("E013", f"unknown objective {name!r}", where=where, fix=fix)


def meant(key: str) -> str:
    """The key that a wrong one most likely stands for, or the empty text."""
    last = key.rpartition(".")[2]
    names = [*DEFAULTS, *leaves(DEFAULTS), *(f"objective.{n}" for kind in OBJECTIVES for n in kind.model_fields)]
    if near := difflib.get_close_matches(key, names, 1, 0.6):
        return near[0]
    ends = {name.rpartition(".")[2]: name for name in names}
    near = difflib.get_close_matches(last, ends, 1, 0.6)
    return ends[near[0]] if near else ""


RENAMED = {"dro": "kimi_k15", "dro_token": "kimi_k15_token"}
"""Former name of an objective to its present one; as in the table of objectives, which this page must not import."""

TYPES = frozenset(kind.model_fields["type"].default for kind in OBJECTIVES)


def leaves(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= leaves(value, f"{above}{key}.")
        else:
            flat[above + key] = value
    return flat


def put(values: dict[str, Any], key: str, value: Any) -> None:
    *tables, last = key.split(".")
    for table in tables:
        below = values.setdefault(table, {})
        if not isinstance(below, dict):
            below = values[table] = {"type": below}
        values = below
    values[last] = value


def value_of(raw: str) -> Any:
    try:
        return tomllib.loads(f"x = {raw}")["x"]
    except tomllib.TOMLDecodeError:
        return raw


def line_of(text: str, key: str) -> int:
    """The line of a TOML text where a dotted key is given, or 1."""
    table, last = "", key.rpartition(".")[2]
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*\[([\w.]+)\]", line):
            table = match[1] + "."
        elif (match := re.match(r"\s*([\w.]+)\s*=", line)) and (
            table + match[1] == key or (key.startswith(table + match[1] + ".") and f"{last}" in line)
        ):
            return number
    return 1


def to_toml(config: RunConfig) -> str:
    """The whole configuration as a recipe that repeats it."""
    return tomli_w.dumps(config.model_dump())


DEFAULTS: dict[str, Any] = RunConfig().model_dump()
