"""Requests with keys of their own, and versions of weights."""

from __future__ import annotations

import torch

from gnomon.engines.vllm import VLLM
from gnomon.keys import Key
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.weights import WeightsRef
from gnomon.types import Request, Sampling


def ask(policy: Policy | VLLM, prompt: str, sample: int = 0, limit: int = 60, **options: object) -> Request:
    sampling = Sampling(max_tokens=limit, **options)  # type: ignore[arg-type]
    key = Key(0).at("test", prompt=prompt, sample=sample).bytes
    return Request(prompt_ids=policy.tokenizer.encode(prompt), key=key, sampling=sampling)


def three_versions() -> list[WeightsRef]:
    """Three versions of the shipped policy, every parameter somewhat smaller each time."""
    learner, found = LocalLearner(Policy.load(model_folder("tiny"))), []
    for _ in range(3):
        found.append(learner.publish().copy())
        with torch.no_grad():
            for parameter in learner.parameters.values():
                parameter.mul_(0.9)
        learner.version += 1
    return found
