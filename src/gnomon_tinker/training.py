"""A model that the official SDK trains: passes, optimiser steps, and its state in files."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.config import RunConfig
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.learners.optimisers import Adam
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Denominators, Rollouts
from gnomon.run.makers import make_learner, make_objective
from gnomon_tinker.losses import loss
from gnomon_tinker.messages import Example, Pass

__all__ = ["Model"]


class Model:
    """Args: config: of the server; rank: of the adapter, 0 to train all weights; seed: of its initial weights."""

    def __init__(self, config: RunConfig, rank: int, seed: int | None) -> None:
        lora = config.policy.lora.model_copy(update={"rank": rank})
        changed: dict[str, object] = {"policy": config.policy.model_copy(update={"lora": lora}), "learner": "local"}
        adamw = config.optim.model_copy(update={"type": "adamw", "momentum": 0.0})  # The SDK has no other optimiser.
        whole = config.rollout.model_copy(update={"top_p": 1.0, "top_k": 0})
        changed |= {"ranks": 0, "optim": adamw, "rollout": whole} | ({} if seed is None else {"seed": seed})
        self.config, self.rank = config.model_copy(update=changed), rank
        self._learner = make_learner(self.config, make_objective(self.config))

    def train(self, work: Pass) -> tuple[list[NDArray[np.float32]], dict[str, float]]:
        """A pass over data; its gradient is added to that of the passes since the last optimiser step.

        Returns: log-probabilities of the targets of every example, under the policy before the pass; the loss.
        Raises: ValueError for data or a loss that cannot be computed.
        """
        sequences = [sequence_of(place, example) for place, example in enumerate(work.data)]
        logp = [np.asarray(each, dtype=np.float64) for each in self._learner.score(sequences)]
        found = [loss(work.loss, work.options, each, inputs_of(d)) for each, d in zip(logp, work.data, strict=True)]
        if not work.forward_only and work.data:
            kappa = torch.from_numpy(np.concatenate([each for each, _ in found]))
            weight, clipped = torch.zeros_like(kappa), torch.zeros(len(kappa), dtype=torch.bool)
            known = Coefficients(kappa=kappa, weight=weight, clipped=clipped)
            self._learner.forward_backward(batch_of(sequences), known)
        return [each.astype(np.float32) for each in logp], {"loss:sum": float(sum(value for _, value in found))}

    def step(self, params: Mapping[str, float]) -> dict[str, float]:
        """One step of AdamW. Args: params: as in the SDK's `AdamParams`. Raises: NumericsError E203."""
        self._learner.set_adam(
            Adam(
                betas=(params["beta1"], params["beta2"]),
                eps=params["eps"],
                weight_decay=params["weight_decay"],
                max_grad_norm=params["grad_clip_norm"] or inf,
            )
        )
        stats = self._learner.optim_step(params["learning_rate"])
        return {"grad_norm": stats["grad_norm"].value}

    def publish(self) -> WeightsRef:
        """The present weights, which stay as they are while the model is trained on."""
        return self._learner.publish().copy()

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._learner.save_state(folder)

    def load(self, folder: Path, *, optimizer: bool) -> None:
        """Args: optimizer: whether the state of the optimiser is loaded, too; if not, the optimiser starts anew."""
        self._learner.load_state(folder)
        if not optimizer:
            self._learner.optimizer.state.clear()


def sequence_of(place: int, example: Example) -> TokenSequence:
    """An example as one rollout. The target at each place must be the next token, so that one pass scores them all.

    Raises: ValueError for other targets.
    """
    targets = example.inputs.get("target_tokens")
    count = len(example.tokens)
    if targets is None or len(targets) != count or not count:
        raise ValueError("every example needs target_tokens, one for each token of model_input")
    if tuple(targets[:-1].tolist()) != example.tokens[1:]:
        raise ValueError("target_tokens must be the next token at each place of model_input")
    if wrong := [name for name, values in example.inputs.items() if len(values) != count]:
        raise ValueError(f"{wrong[0]} must have one value for each token of model_input")
    zeros = torch.zeros(count, dtype=torch.int64)
    return TokenSequence(
        token_ids=torch.tensor([*example.tokens, int(targets[-1])]),
        trainable=torch.arange(count + 1) > 0,
        behavior_logp=torch.full((count,), torch.nan, dtype=torch.float64),
        version=zeros,
        turn=zeros,
        rollout=place,
        group=place,
        player=0,
    )


def inputs_of(example: Example) -> dict[str, NDArray[np.float64]]:
    return {name: values.astype(np.float64) for name, values in example.inputs.items()}


def batch_of(sequences: list[TokenSequence]) -> Batch:
    """Sequences as a batch. Its coefficients are known, so the zero rewards and the denominators are not used."""
    lengths = [len(each) for each in sequences]
    return Batch(
        sequences=tuple(sequences),
        rollouts=Rollouts(rewards=torch.zeros(len(lengths), 1), lengths=torch.tensor(lengths)[:, None]),
        denominators=Denominators(
            groups=len(lengths), sequences=len(lengths), tokens=sum(lengths), max_tokens=max(lengths)
        ),
        temperature=1.0,
        exact=False,
    )
