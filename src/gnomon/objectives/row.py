"""What a row of the table is: seven small functions, what is claimed of them, and its declaration.

Every row has the gradient Σₜ κₜ ∇log π(yₜ), with κ a pure function of detached numbers. A row also declares
what it claims: expected gradient, off-policy behaviour, what a group of one gives. The test suite holds every
row to its claims by enumeration.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps

import torch
from torch import Tensor

from gnomon.objectives import penalties, ratios
from gnomon.objectives.credit import Advantage, Credit, Rollouts, terminal
from gnomon.objectives.declaration import Data, Declaration, Need, Rewards, Value
from gnomon.objectives.options import OPTIONS
from gnomon.objectives.past import Recall, mean_per_step
from gnomon.objectives.target import ClosedForm, PolicyGradient, Target
from gnomon.objectives.tokens import Coefficients, Denominators, Reach, Tokens, reach_of, without_options

__all__ = [
    "Aggregate",
    "Baseline",
    "Correction",
    "Noise",
    "Objective",
    "OffPolicy",
    "Penalty",
    "Ratio",
    "Scope",
    "Singleton",
    "row_of",
]

Ratio = Callable[[Tokens], Tensor]
"""What log(policy/proximal) and the advantage make of a token, or the margins of pairs: a multiplier [T]."""
Correction = Callable[[Tokens], Tensor]
"""What log(proximal/behavior) makes of a token: a multiplier [T]."""
Aggregate = Callable[[Tokens, Denominators], Tensor]
"""A weight per token [T], the division by the whole step included."""
Penalty = Callable[[Tokens], Tensor]
"""What log(policy/reference) makes of a token: a coefficient [T]."""


class OffPolicy(StrEnum):
    """What remains of the target when behavior lags behind the policy, within the clip band."""

    ON_POLICY = "on-policy"
    """Blind to the lag. The error is first order in the lag, even for answers of one token."""
    TOKEN = "token"
    """Each action is corrected, the prefixes that led to it are not: states of behavior, actions of the policy,
    continuations of behavior. Exact for answers of one token, up to a shape frozen at behavior where the target
    is one; first order in the lag for longer ones."""
    TIMESTEP = "timestep"
    """As token, for actions of several tokens: exact for answers of one action, first order in the lag for longer."""
    SOFT = "soft"
    """As token, up to an error of second order in the lag: the weight fades from the first step on."""
    GEOMETRIC = "geometric"
    """Answers count by μ^(1−1/|y|)·π^(1/|y|): exact for answers of one token, first order in the lag for longer."""
    REGULARISED = "regularised"
    """Blind to the lag in what it makes of rewards, and drawn back to behavior by the row's penalty, on behavior's
    answers. First order in the lag."""
    TAPERED = "tapered"
    """Answers to be raised count as behavior sampled them, answers to be lowered by the smaller of μ and π. First
    order in the lag, even for answers of one token."""
    WEIGHTED = "weighted"
    """Answers of behavior count by a weight of the row's own, which is one on policy and no importance ratio: its
    equation gives it. First order in the lag, even for answers of one token."""
    SEQUENCE = "sequence"
    """Whole answers are corrected: exact at any lag, up to a shape frozen at behavior where the target is one."""


class Singleton(StrEnum):
    """What the advantage of a group of one is: a rollout of one token, alone in its step."""

    RAW = "raw"
    """The reward itself."""
    SHIFTED = "shifted"
    """The reward less a constant other than zero."""
    AFFINE = "affine"
    """The reward times a constant, less another constant."""
    SCALED = "scaled"
    """The reward times a constant."""
    UNIT = "unit"
    """One, whatever the reward."""
    ZERO = "zero"
    """Zero: there is nothing to compare it with."""
    REFUSED = "refused"
    """Undefined: ValueError, as for every group below `min_group`."""


class Baseline(StrEnum):
    """What a reward is compared with. A constant added to all that rollouts earn changes nothing, but for two kinds."""

    NONE = "none"
    """The constant is learnt from like any reward."""
    CRITIC = "a critic"
    """What it expects before each token. A constant added to every reward counts until the critic has learned it."""
    OTHERS = "a function of the others"
    GROUP = "mean of the group"
    GREEDY = "the greedy answer"
    """A constant that it earns too changes nothing."""
    STATE = "mean of the turns in the same state"
    """Of turns that reply to the same observation: a constant on every return changes nothing."""
    TURNS = "means over turns of the group"
    """Of rewards that come in several parts, a constant on every return changes nothing."""
    STEP = "mean of the whole step"
    """Of tokens or turns: of rewards that come in several parts, a constant on every return changes nothing."""


class Noise(StrEnum):
    """What a reward that ignores the answer does to the policy on average."""

    STILL = "nothing"
    EVEN = "nothing if it is even about zero"
    """Otherwise it moves the policy: for or against length, most often."""
    MOVES = "moves the policy"
    """Even where it is even about zero: the policy learns from something beside rewards."""


class Scope(StrEnum):
    """What the credit of a rollout depends on beside itself."""

    GROUP = "its group"
    STEP = "the whole step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A row: seven small functions, and what is claimed of them.

    Equation: κ = aggregate · (correction(proximal/behavior) · ratio(policy/proximal; A) · A
        + λ · penalty(policy/reference)), A = credit(rollouts; advantage).
    """

    advantage: Advantage
    ratio: Ratio
    correction: Correction
    aggregate: Aggregate
    credit: Credit = terminal
    """How an advantage reaches the tokens, and whatever it takes to say so beside the rewards."""
    recall: Recall = mean_per_step
    """What the past expects of rollouts, and the past with them in it; looked at where `needs` has a baseline."""
    returns: Credit | None = None
    """What a critic should have expected before each token. None: its value and the credit."""
    value_clip: float = math.inf
    """How far a value may move from where it stood as the batch began before the critic's loss lets it go."""
    value_steps: int = 0
    """Batches at the start of a run that teach the critic alone."""
    penalty: Penalty | None = None
    penalty_weight: float = 0.0
    """λ, per token and before the aggregate, ≥ 0."""
    observation: float = 0.0
    """Weight of the mean log-likelihood of the text that the environment wrote after the first reply, ≥ 0. These tokens
    are not sampled, so they have no κ. The learner adds this term; its mean is over all such tokens of the step."""
    target: Target
    """Expected gradient of one group, on policy, where policy and reference agree."""
    off_policy: OffPolicy
    """Of a policy that has left proximal and behavior, which agree."""
    mismatch: OffPolicy = OffPolicy.ON_POLICY
    """Of a policy that equals the proximal one, while the behavior policy differs: what the correction does. This is
    so at the first of several updates of a batch, whose centre is the policy at the start of the batch. For one update
    per batch see `mismatch_of_one_update`."""
    singleton: Singleton
    min_rollouts: int = 1
    """The smallest step that can, in rollouts, where groups of `min_group` alone in their step cannot."""
    baseline: Baseline
    scope: Scope = Scope.GROUP
    noise: Noise = Noise.STILL
    equation: str
    name: str = ""
    """This and what follows is set from the declaration of the row."""
    source: str = ""
    data: Data = Data.SAMPLED
    rewards: Rewards = Rewards.REAL
    any_sampler: bool = False
    """Whether its target is an expectation over the rollouts of whoever sampled them, which need not be the policy."""
    needs: frozenset[Need] = frozenset()
    """What credit asks for; `asks` has the whole list."""
    min_group: int = 1
    """The smallest group that can move the policy."""

    @property
    def needs_reference(self) -> bool:
        """Whether the tokens must carry `reference_logp`."""
        return Need.REFERENCE in self.asks

    @property
    def closed_form(self) -> ClosedForm | PolicyGradient | None:
        """The target in closed form. None where only a shape is known, which holds for any credit."""
        if isinstance(self.target, ClosedForm | PolicyGradient):
            return self.target
        return self.target.closed

    @property
    def expected_gradient(self) -> str:
        """The target in words: in closed form where there is one."""
        if self.closed_form is None:
            return self.target.text
        bound = (
            isinstance(self.closed_form, ClosedForm) and self.closed_form.binary and self.rewards is not Rewards.BINARY
        )
        return f"{self.closed_form.text}; of rewards 0 and 1" if bound else self.closed_form.text

    @property
    def corrects(self) -> bool:
        """Whether it looks at how far the sampler stands from the proximal policy."""
        return self.correction is not ratios.no_correction

    @property
    def reach(self) -> Reach:
        """Which tokens the coefficient of a token depends on: the farthest of what its parts declare."""
        parts: list[Callable[..., Tensor] | None] = [self.ratio, self.correction, self.aggregate, self.penalty]
        return max(reach_of(part) for part in parts if part is not None)

    @property
    def mismatch_of_one_update(self) -> OffPolicy:
        """As `mismatch`, for one update per batch: without a correction the sampler itself is the centre of the ratio.

        The ratio then treats the sampler's difference as a movement of the policy.
        """
        return self.mismatch if self.corrects else self.off_policy

    @property
    def asks(self) -> frozenset[Need]:
        """Everything that a learner must provide."""
        penalises = self.penalty is not None and without_options(self.penalty) not in penalties.OF_BEHAVIOR
        return self.needs | {Need.REFERENCE} if penalises else self.needs

    @torch.no_grad()
    def credits(self, rollouts: Rollouts) -> Tensor:
        """The advantage of every token of a step.

        Returns: [T], detached.
        Raises: ValueError for rewards or rollouts that the row cannot weigh.
        """
        return self.credit(rollouts, self.advantage)

    @torch.no_grad()
    def value_targets(self, rollouts: Rollouts) -> Tensor:
        """What a critic should have expected before every token of a step.

        Returns: [T], detached, in units of reward.
        Raises: ValueError for rollouts without values.
        """
        if rollouts.values is None:
            raise ValueError(f"objective {self.name!r} has nothing to teach a critic without its values")
        if self.returns is None:
            return self.credits(rollouts) + rollouts.values
        return self.returns(rollouts, self.advantage)

    def coefficients(self, tokens: Tokens, denominators: Denominators) -> Tensor:
        """[T] κ, as `factors` gives it."""
        return self.factors(tokens, denominators).kappa

    @torch.no_grad()
    def factors(self, tokens: Tokens, denominators: Denominators) -> Coefficients:
        """The coefficient κ of ∇logp of every token, with what else a learner needs of the row.

        Args: tokens, everything within the row's `reach` of each of them.
        Returns: detached and final: the gradient of the *maximised* objective of the step is Σ κ·∇logp over all its
            tokens, with no further division.
        Raises: ValueError if the row needs a reference and the tokens have none.
        """
        if self.needs_reference and tokens.reference_logp is None:
            raise ValueError(f"objective {self.name!r} needs reference_logp on its tokens")
        ratio, weight = self.ratio(tokens), self.aggregate(tokens, denominators)
        credit = self.correction(tokens) * tokens.advantage * ratio
        if self.penalty is not None:
            credit = credit + self.penalty_weight * self.penalty(tokens)
        clipped = (ratio == 0) & (tokens.advantage != 0)
        return Coefficients(kappa=weight * credit, weight=weight, clipped=clipped, observation=self.observation)


def row(build: Callable[..., Objective]) -> Callable[..., Objective]:
    """A row of the table, from a function of all its options; the declaration of that name has the rest."""
    return row_of(OPTIONS[build.__name__], build)


def row_of(declaration: Declaration, build: Callable[..., Objective]) -> Callable[..., Objective]:
    """A row from its declaration and a function of all its options.

    Returns: a function of any of the options, by name or in the order of the declaration. It gives the others their
        defaults, and sets what is declared. It raises OptionError for an option that is out of range or does not exist.
    Raises: TypeError where the parameters of the function are not the declared options.
    """
    options = declaration.options
    if list(inspect.signature(build).parameters) != list(options):
        raise TypeError(f"the parameters of {declaration.name} are not its options: {', '.join(options) or 'none'}")

    @wraps(build)
    def make(*values: Value, **keywords: Value) -> Objective:
        if len(values) > len(options):
            raise TypeError(f"{declaration.name} has {len(options)} options, and {len(values)} are given")
        supplied = declaration.complete({**dict(zip(options, values, strict=False)), **keywords})
        return replace(
            build(**supplied),
            name=declaration.name,
            source=declaration.source,
            data=declaration.data,
            rewards=declaration.rewards,
            any_sampler=declaration.any_sampler,
            needs=declaration.needs_with(supplied),
            min_group=declaration.least_group(supplied),
        )

    make.__doc__ = docstring(declaration, inspect.getdoc(build) or "")
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=option.default)
            for name, option in options.items()
        ]
    )
    return make


def docstring(declaration: Declaration, more: str) -> str:
    """The docstring of a row: its sentence, what its function adds, and its options."""
    lines = [f"    {name}: {option.text}; {option.values_in_words}." for name, option in declaration.options.items()]
    args = "\n".join(["Args:", *lines]) if lines else ""
    return "\n\n".join(part for part in (declaration.summary, more, args) if part)
