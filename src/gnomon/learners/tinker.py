"""A learner on the Tinker service: coefficients are computed here, passes and optimiser steps there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.learners.base import FloatArray, Model, Named
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.learners.coefficients import coefficients
from gnomon.learners.mismatch import compare_logp, drift
from gnomon.learners.optimisers import Adam
from gnomon.models.tinker import answer, open_client, sdk
from gnomon.models.weights import Kind, WeightsRef, probe_of
from gnomon.objectives import Coefficients, Objective
from gnomon.stats import Mean, Stats, Sum, merge

__all__ = ["TinkerLearner"]

STATE = "tinker.json"
"""File of a checkpoint that names the state on the service."""
KEPT_SECONDS = 7 * 24 * 3600
"""How long the service keeps weights that were saved for sampling."""


class TinkerLearner:
    """Gradients of Σ κ·log π by the loss `cross_entropy` of the service, −Σ weights·log π with weights = κ.

    A gradient takes two passes: one for the log-probabilities that κ depends on, and one with κ.

    Args:
        base: name of the service's model that training begins from.
        rank, seed: of the adapter.
        vocabulary: tokens of the model.
    """

    def __init__(self, base: str, *, rank: int, seed: int, optimizer: Adam, vocabulary: int) -> None:
        self.base, self.optimizer, self.version = base, optimizer, 0
        self._probe, self._types, self._service = probe_of(vocabulary), sdk().types, open_client()
        creating = self._service.create_lora_training_client(base_model=base, rank=rank, seed=seed)
        self._training = answer(creating, f"begin to train {base}")
        self._published: WeightsRef | None = None
        self._reference: Any = None

    def score(
        self, sequences: Sequence[TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        """Natural log-probabilities of the trainable tokens, under the policy or the base model, at temperature 1.

        Raises: ValueError for another model or temperature.
        """
        if temperature != 1.0 or model not in (Model.POLICY, Model.REFERENCE):
            raise ValueError(f"the Tinker service cannot score with {model.value} at temperature {temperature:g}")
        if not sequences:
            return []
        if model is Model.REFERENCE:
            return self._scored_by_base(sequences)
        zeros = [torch.zeros(len(each)) for each in sequences]
        output = answer(self._training.forward(self._data(sequences, zeros), "cross_entropy"), "score")
        logps = [each["logprobs"].to_numpy() for each in output.loss_fn_outputs]
        return [logp[trainable_indices(each)].astype(np.float64) for each, logp in zip(sequences, logps, strict=True)]

    def _scored_by_base(self, sequences: Sequence[TokenSequence]) -> list[FloatArray]:
        if self._reference is None:
            sampling = self._service.create_sampling_client(base_model=self.base)
            self._reference = answer(sampling, f"sample from {self.base}")
        ids = [each.token_ids[: len(each.inputs) + 1].tolist() for each in sequences]
        inputs = [self._types.ModelInput.from_ints(each) for each in ids]
        requests = [self._reference.compute_logprobs(each) for each in inputs]
        logps = [np.array(answer(each, "score")[1:], dtype=np.float64) for each in requests]
        return [logp[trainable_indices(each)] for each, logp in zip(sequences, logps, strict=True)]

    def _data(self, sequences: Sequence[TokenSequence], kappa: Sequence[Tensor]) -> list[Any]:
        return [self._example(each, own) for each, own in zip(sequences, kappa, strict=True)]

    def _example(self, sequence: TokenSequence, kappa: Tensor) -> Any:
        """A sequence up to its last trainable token. Args: kappa: [T] of its trainable tokens."""
        ids = sequence.token_ids[: len(sequence.inputs) + 1]
        weights = np.zeros(len(ids) - 1, dtype=np.float32)
        weights[trainable_indices(sequence)] = kappa.numpy()
        inputs = {"target_tokens": ids[1:].numpy(), "weights": weights}
        return self._types.Datum(model_input=self._types.ModelInput.from_ints(ids[:-1].tolist()), loss_fn_inputs=inputs)

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        """Add the gradient of a batch with credit. Returns: as `LocalLearner`, without `entropy`."""
        if not batch.sequences:
            return {"trained": Sum(0)}
        row = objective.row() if isinstance(objective, Named) else objective
        logp = torch.cat([torch.from_numpy(each) for each in self.score(batch.sequences, batch.temperature)])
        parts = row if isinstance(row, Coefficients) else coefficients(batch, logp, row)
        kappa = torch.split(parts.kappa, [len(each) for each in batch.sequences])
        moving = [index for index, own in enumerate(kappa) if own.any()]
        # A step without a gradient still decays the moments of Adam, so one sequence is sent with weights of zero.
        data = self._data(
            [batch.sequences[index] for index in moving or [0]], [kappa[index] for index in moving or [0]]
        )
        answer(self._training.forward_backward(data, "cross_entropy"), "train")
        stats: Stats = {"trained": Sum(sum(len(batch.sequences[index]) for index in moving))}
        stats |= drift(logp, batch, parts.clipped)
        return merge(stats, compare_logp(logp, batch, self.version))

    def optim_step(self, lr: float) -> Stats:
        """One AdamW step. Returns: `lr`, and `grad_norm` if the service reports it."""
        adam = self.optimizer
        params = self._types.AdamParams(
            learning_rate=lr,
            beta1=adam.betas[0],
            beta2=adam.betas[1],
            eps=adam.eps,
            weight_decay=adam.weight_decay,
            grad_clip_norm=adam.max_grad_norm,
        )
        metrics = answer(self._training.optim_step(params), "take an optimiser step").metrics or {}
        self.version += 1
        norm: Stats = {"grad_norm": Mean(metrics["grad_norm"])} if "grad_norm" in metrics else {}
        return {"lr": Mean(lr)} | norm

    def save_state(self, folder: Path) -> None:
        """Save weights and optimiser on the service, and their name in the folder."""
        saving = self._training.save_state(f"step-{self.version:06d}", overwrite=True)
        body = {"path": answer(saving, "save the state").path, "version": self.version, "base": self.base}
        (folder / STATE).write_text(json.dumps(body, indent=1) + "\n", "utf-8")

    def load_state(self, folder: Path) -> None:
        """Raises: ModelError E304 for the state of another learner."""
        path = folder / STATE
        body = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        if body.get("base") != self.base:
            why = f"its base model is {body['base']}" if body else f"it has no {STATE}"
            fix = "resume with the learner that the run began with"
            what = f"the checkpoint has no state of a Tinker learner for {self.base}"
            raise ModelError("E304", what, where=str(folder), why=why, fix=fix)
        loading = self._service.create_training_client_from_state_with_optimizer(body["path"])
        self._training = answer(loading, f"load {body['path']}")
        self.version, self._published = int(body["version"]), None

    def publish(self) -> WeightsRef:
        """The present version, which the service keeps for a week."""
        if self._published is None or self._published.version != self.version:
            saving = self._training.save_weights_for_sampler(f"step-{self.version:06d}", ttl_seconds=KEPT_SECONDS)
            path = answer(saving, "save weights for sampling").path
            self._published = WeightsRef(
                kind=Kind.SERVICE,
                base="",
                version=self.version,
                tensors={},
                probe=self._probe,
                probe_logp=tuple(self.score([probe_sequence(self._probe)])[0].tolist()),
                service=path,
            )
        return self._published


def trainable_indices(sequence: TokenSequence) -> FloatArray:
    """Places of the trainable tokens among the targets of a sequence: [T]."""
    return (sequence.trainable.nonzero().flatten() - 1).numpy()


def probe_sequence(ids: tuple[int, ...]) -> TokenSequence:
    """A token sequence of which all but the first are trainable."""
    count = len(ids) - 1
    zeros = torch.zeros(count, dtype=torch.int64)
    return TokenSequence(
        token_ids=torch.tensor(ids),
        trainable=torch.arange(len(ids)) > 0,
        behavior_logp=torch.full((count,), torch.nan, dtype=torch.float64),
        version=zeros,
        turn=zeros,
        rollout=0,
        group=0,
        player=0,
    )
