"""Credit assignment for a batch: query the learner for the objective's inputs and compute every token's advantage."""

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
from gnomon.objectives import CreditState, Ended, Need, Objective, across_players, visits_per_task

__all__ = ["Crediting", "credit", "players_merged"]

FILE = "credit.safetensors"
Shown = Callable[[Batch], Sequence[TokenSequence]]
"""The sequences of a batch as a model reads them that sees more than the policy did: the same trainable tokens."""


def credit(
    batch: Batch,
    objective: Objective,
    *,
    logp: Tensor | None = None,
    reference_logp: Tensor | None = None,
    values: Tensor | None = None,
    entropy: Tensor | None = None,
    collision: Tensor | None = None,
    beyond: Tensor | None = None,
    state: CreditState,
) -> tuple[Batch, CreditState]:
    """The batch with an advantage on every token, and the state for the next step.

    Args:
        logp: [T] log-probability under the policy at the start of the step; also the centre of the trust region.
        reference_logp: [T] log-probability under the reference.
        values: [T] the critic's value before every token.
        entropy: [T] entropy of the policy's next-token distribution before every token, in nats.
        collision: [T] Σ_v π(v)² of that distribution.
        beyond: [G, N] the critic's value after the last token of the rollouts that a limit ended.
        state: the state from the step before.
    Returns: the advantage is 0 in the first `Objective.value_steps` batches, which teach the critic alone.
    Raises: ConfigError E033 if the objective does not accept these rewards; E119 if it needs a score at every token
        budget, and the rollouts have none.
    """
    rollouts = replace(
        batch.rollouts,
        logp=logp,
        reference_logp=reference_logp,
        values=values,
        entropy=entropy,
        collision=collision,
        beyond=beyond,
    )
    if Need.BUDGETS in objective.asks and rollouts.segment_rewards is None:
        if rollouts.budget_scores is None:
            raise unscored(objective.name)
        rollouts = replace(rollouts, segment_rewards=rollouts.budget_scores)
    if Need.BASELINE in objective.asks:
        baseline, state = objective.recall(rollouts, state)
        rollouts = replace(rollouts, baseline=baseline)
    if Need.VISITS in objective.asks:
        visits, state = visits_per_task(rollouts, state)
        rollouts = replace(rollouts, visits=visits)
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
    found = replace(
        batch,
        advantage=advantage.double(),
        values=values,
        proximal_logp=logp,
        reference_logp=reference_logp,
        returns=None if values is None else objective.value_targets(rollouts).double(),
    )
    return found, state


def unscored(name: str) -> ConfigError:
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
        shown: the sequences of a batch as the reference reads them, for an objective whose reference sees more than the
            policy did. None: as they are.
    Raises: ValueError for such an objective without `shown`.
    """

    def __init__(self, objective: Objective, *, shared: bool = False, shown: Shown | None = None) -> None:
        if Need.SOLUTION in objective.asks and shown is None:
            raise ValueError(f"the reference of {objective.name} reads sequences of its own, and there are none")
        self.objective, self.shared, self.shown, self.state = objective, shared, shown, CreditState()

    def __call__(self, batch: Batch, learner: Learner, *, updates: int = 1) -> Batch:
        """The batch with credit.

        Args: updates: number of optimiser steps on the batch. For more than one, the policy's log-probabilities are
            stored as the centre of the trust region. For one, the centre is the sampler, also where credit reads the
            policy's log-probabilities, so the ratio corrects for what the policy has moved since it sampled.
        """
        if self.shared:
            batch = players_merged(batch)
        asks = self.objective.asks

        def scored(model: Model, sequences: Sequence[TokenSequence] = batch.sequences) -> Tensor:
            found = learner.score(sequences, batch.temperature, model)
            parts = [torch.from_numpy(values).double() for values in found]
            return torch.cat([torch.zeros(0, dtype=torch.float64), *parts])

        found, self.state = credit(
            batch,
            self.objective,
            logp=scored(Model.POLICY) if updates > 1 or Need.LOGP in asks else None,
            reference_logp=scored(Model.REFERENCE, self._read_by_reference(batch)) if Need.REFERENCE in asks else None,
            values=scored(Model.CRITIC) if Need.VALUES in asks else None,
            entropy=scored(Model.ENTROPY) if Need.ENTROPY in asks else None,
            collision=scored(Model.COLLISION) if Need.COLLISION in asks else None,
            beyond=values_beyond(batch, learner) if Need.BEYOND in asks else None,
            state=self.state,
        )
        return found if updates > 1 else replace(found, proximal_logp=None)

    def _read_by_reference(self, batch: Batch) -> Sequence[TokenSequence]:
        return batch.sequences if self.shown is None else self.shown(batch)

    def save_state(self, folder: Path) -> None:
        means = self.state.means
        players = torch.tensor([*means], dtype=torch.int64)
        running, steps = torch.tensor([*means.values()], dtype=torch.float64), torch.tensor(self.state.steps)
        tasks = torch.tensor([*self.state.values], dtype=torch.int64).reshape(-1, 2)
        values = torch.tensor([*self.state.values.values()], dtype=torch.float64)
        visited = torch.tensor([*self.state.visits], dtype=torch.int64).reshape(-1, 2)
        visits = torch.tensor([*self.state.visits.values()], dtype=torch.float64).reshape(-1, 3)
        kept = {"players": players, "means": running, "steps": steps, "tasks": tasks, "values": values}
        kept |= {"visited": visited, "visits": visits}
        save_file(kept, folder / FILE)

    def load_state(self, folder: Path) -> None:
        """Restore the state. Raises: ModelError E322 for a checkpoint of an older Gnomon."""
        if not (folder / FILE).is_file():
            raise ModelError(
                "E322",
                "the checkpoint is from an older Gnomon, and training cannot continue from it",
                where=str(folder),
                why=f"it has no {FILE}, the state of credit between two steps",
                fix="start again: gnomon train RUN/recipe.toml run=OTHER; keep the policy: gnomon export RUN FOLDER",
            )
        kept = load_file(folder / FILE)
        means = dict(zip(kept["players"].tolist(), kept["means"].tolist(), strict=True))
        tasks = ((task, player) for task, player in kept["tasks"].tolist()) if "tasks" in kept else ()
        values = dict(zip(tasks, kept["values"].tolist() if "tasks" in kept else (), strict=True))
        visits: dict[tuple[int, int], tuple[int, float, float]] = {}
        if "visited" in kept:
            for (task, player), (count, mean, variance) in zip(
                kept["visited"].tolist(), kept["visits"].tolist(), strict=True
            ):
                visits[task, player] = int(count), mean, variance
        self.state = CreditState(means=means, values=values, visits=visits, steps=int(kept.get("steps", 0)))


def values_beyond(batch: Batch, learner: Learner) -> Tensor:
    """[G, N] the critic's value after the last token of every rollout that a limit ended; 0 for the others.

    A rollout of several sequences, whose history was rewritten, is read in its last one.
    """
    ended, found = batch.rollouts.ended, torch.zeros(batch.rollouts.rewards.numel(), dtype=torch.float64)
    if ended is None:
        return found.reshape(batch.rollouts.rewards.shape)
    cut = ended.flatten() != Ended.ITSELF
    last = {sequence.rollout: sequence for sequence in batch.sequences if cut[sequence.rollout]}
    scored = learner.score([one_more(sequence) for sequence in last.values()], batch.temperature, Model.CRITIC)
    for rollout, value in zip(last, scored, strict=True):
        found[rollout] = float(value[0])
    return found.reshape(ended.shape)


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
