"""From rewards to advantages: what a learner reads of a batch, and the advantage of every token.

Before it stands the reward, in `batch`; after it the coefficient, in `coefficients`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import ConfigError, ModelError
from gnomon.learners.base import Learner, Model
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.objectives import CreditState, Ended, Need, Objective, Rollouts, across_players, visits_per_task

__all__ = ["Crediting", "credit", "players_merged"]

FILE = "credit.safetensors"
READ = {
    Need.LOGP: ("logp", Model.POLICY),
    Need.REFERENCE: ("reference_logp", Model.REFERENCE),
    Need.VALUES: ("values", Model.CRITIC),
    Need.ENTROPY: ("entropy", Model.ENTROPY),
    Need.COLLISION: ("collision", Model.COLLISION),
}
"""What a model reads of every token: the need to the field of `Rollouts`, and the model."""
Shown = Callable[[Batch], Sequence[TokenSequence]]
"""The sequences of a batch as a model reads them that sees more than the policy did: the same trainable tokens."""


def credit(batch: Batch, objective: Objective, *, state: CreditState, **fields: Tensor) -> tuple[Batch, CreditState]:
    """The batch with an advantage on every token, and the state for the next step.

    Args:
        state: the state from the step before.
        fields: what models read of the batch, named as in `Rollouts`: `logp`, `reference_logp`, `values`, `entropy`,
            `collision` and `beyond`. `logp` is also the centre of the trust region.
    Returns: the advantage is 0 in the first `Objective.value_steps` batches, which teach the critic alone.
    Raises: ConfigError E033 if the objective does not accept these rewards; E119 if it needs a score at every token
        budget, and the rollouts have none.
    """
    rollouts = replace(batch.rollouts, **fields)
    if Need.BUDGETS in objective.asks and rollouts.segment_rewards is None:
        if rollouts.budget_scores is None:
            raise score_error(objective.name)
        rollouts = replace(rollouts, segment_rewards=rollouts.budget_scores)
    rollouts, state = with_past(rollouts, objective, state)
    try:
        advantage = objective.credits(rollouts)
    except ValueError as error:
        raise ConfigError(
            "E033",
            f"{objective.name} cannot use the rewards of this step",
            why=str(error),
            fix="objective=rloo accepts any reward; env.format=0 gives rewards of 0 and 1",
        ) from error
    if state.steps < objective.value_steps:
        advantage, state = torch.zeros_like(advantage), replace(state, steps=state.steps + 1)
    credited = replace(
        batch,
        advantage=advantage.double(),
        values=rollouts.values,
        proximal_logp=rollouts.logp,
        reference_logp=rollouts.reference_logp,
        returns=None if rollouts.values is None else objective.value_targets(rollouts).double(),
    )
    return credited, state


def with_past(rollouts: Rollouts, objective: Objective, state: CreditState) -> tuple[Rollouts, CreditState]:
    """The rollouts with what earlier steps say of them, and the state with this step in it."""
    if Need.BASELINE in objective.asks:
        baseline, state = objective.recall(rollouts, state)
        rollouts = replace(rollouts, baseline=baseline)
    if Need.VISITS in objective.asks:
        visits, state = visits_per_task(rollouts, state)
        rollouts = replace(rollouts, visits=visits)
    return rollouts, state


def score_error(name: str) -> ConfigError:
    return ConfigError(
        "E119",
        f"{name} needs a score at every token budget, and the verdicts of this step have none",
        why="a verdict scores its budgets in parts at_0, at_1 … , the same in all verdicts of a step",
        fix="env=anytime, or objective=rloo",
    )


class Crediting:
    """Assigns credit to consecutive batches of an objective, and keeps the state between them.

    Args: shared: compare rewards across the players of a game, in groups and in the running mean, instead of for each
        player separately.
        solution_shown: the sequences of a batch as the reference reads them, for an objective whose reference sees more
            than the policy did. None: as they are.
    Raises: ValueError for such an objective without `solution_shown`.
    """

    def __init__(self, objective: Objective, *, shared: bool = False, solution_shown: Shown | None = None) -> None:
        if Need.SOLUTION in objective.asks and solution_shown is None:
            raise ValueError(f"the reference of {objective.name} reads sequences of its own, and there are none")
        self.objective, self.shared, self.shown, self.state = objective, shared, solution_shown, CreditState()

    def __call__(self, batch: Batch, learner: Learner, *, updates: int = 1) -> Batch:
        """The batch with credit.

        Args: updates: number of optimiser steps on the batch. For more than one, the policy's log-probabilities are
            stored as the centre of the trust region. For one, the centre is the sampler, also where credit reads the
            policy's log-probabilities, so the ratio corrects for what the policy has moved since it sampled.
        """
        if self.shared:
            batch = players_merged(batch)
        asks = self.objective.asks | ({Need.LOGP} if updates > 1 else set())
        fields = {name: self._read(model, batch, learner) for need, (name, model) in READ.items() if need in asks}
        if Need.BEYOND in asks:
            fields["beyond"] = values_beyond(batch, learner)
        credited, self.state = credit(batch, self.objective, state=self.state, **fields)
        return credited if updates > 1 else replace(credited, proximal_logp=None)

    def _read(self, model: Model, batch: Batch, learner: Learner) -> Tensor:
        """[T] float64 what a model reads of every token of a batch."""
        sequences = self.shown(batch) if self.shown and model is Model.REFERENCE else batch.sequences
        parts = [torch.from_numpy(values).double() for values in learner.score(sequences, batch.temperature, model)]
        return torch.cat([torch.zeros(0, dtype=torch.float64), *parts])

    def save_state(self, folder: Path) -> None:
        save_file(self.state.tensors(), folder / FILE)

    def load_state(self, folder: Path) -> None:
        """Restore the state. Raises: ModelError E322 for a checkpoint without one."""
        if not (folder / FILE).is_file():
            raise ModelError(
                "E322",
                "the checkpoint is from an older Gnomon, and training cannot continue from it",
                where=str(folder),
                why=f"it has no {FILE}, the state of credit between two steps",
                fix="start again: gnomon train RUN/recipe.toml run=OTHER; keep the policy: gnomon export RUN FOLDER",
            )
        self.state = CreditState.of(load_file(folder / FILE))


def values_beyond(batch: Batch, learner: Learner) -> Tensor:
    """[G, N] the critic's value after the last token of every rollout that a limit ended; 0 for the others.

    A rollout of several sequences, whose history was rewritten, is read in its last one.
    """
    ended, beyond = batch.rollouts.ended, torch.zeros(batch.rollouts.rewards.shape, dtype=torch.float64)
    if ended is None:
        return beyond
    cut = ended.flatten() != Ended.ITSELF
    last = {sequence.rollout: sequence for sequence in batch.sequences if cut[sequence.rollout]}
    values = learner.score([one_more(sequence) for sequence in last.values()], batch.temperature, Model.CRITIC)
    for rollout, value in zip(last, values, strict=True):
        beyond.view(-1)[rollout] = float(value[0])
    return beyond


def one_more(sequence: TokenSequence) -> TokenSequence:
    """The sequence with one token more, which alone is asked for: all that is read before it is the sequence itself."""
    ids = torch.cat([sequence.token_ids, sequence.token_ids[-1:]])
    return replace(
        sequence,
        token_ids=ids,
        trainable=torch.arange(len(ids), device="cpu") == len(ids) - 1,
        behavior_logp=torch.full((1,), math.nan, dtype=torch.float64),
        version=sequence.version[-1:],
        turn=sequence.turn[-1:],
    )


def players_merged(batch: Batch) -> Batch:
    """The batch with all players of a task in one group and with one running mean."""
    rollouts = across_players(batch.rollouts)
    groups, sizes = len(rollouts.rewards), batch.denominators
    players = sizes.groups // groups
    return replace(
        batch,
        sequences=tuple(replace(sequence, group=sequence.group // players) for sequence in batch.sequences),
        rollouts=replace(rollouts, player=None),
        denominators=replace(sizes, groups=groups, group_tokens=tuple(rollouts.lengths.sum(1).tolist())),
    )
