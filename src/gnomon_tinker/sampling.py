"""Completions for the official SDK, sampled from the base model or from weights that a client saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any

from gnomon.config import RunConfig
from gnomon.engines.base import sample_all
from gnomon.keys import Key
from gnomon.models.scoring import score
from gnomon.models.weights import WeightsRef
from gnomon.run.loops import run_to_end
from gnomon.run.makers import make_engine
from gnomon.run.makers.policy import policy_of
from gnomon.types import Completion, Request, Sampling

__all__ = ["Sampler"]


class Sampler:
    """One engine, which loads the weights of each request when it does not hold them.

    Args: config: of the model; adapters of other ranks need another sampler.
    """

    def __init__(self, config: RunConfig) -> None:
        engine = make_engine(config)
        policy = policy_of(engine)
        if policy is None:
            raise ValueError("a learner's server samples with the embedded engine")
        self._engine, self._policy, self._loaded = engine, policy, ""

    def sample(
        self, name: str, weights: WeightsRef | None, body: Mapping[str, Any], key: Key
    ) -> tuple[list[Completion], list[float]]:
        """Completions of a prompt, and the log-probabilities of the prompt's tokens if the request asks for them.

        Args: name: of the weights; weights: None for those of the base model; body: the request, as the SDK sends it.
        Raises: ValueError for a request that this engine does not support.
        """
        if weights is not None and name != self._loaded:
            self._engine.load(weights)
            self._loaded = name
        prompt, sampling = prompt_of(body["prompt"]), sampling_of(body["sampling_params"])
        if not prompt:
            raise ValueError("the prompt has no token")
        seed = body["sampling_params"].get("seed")
        own = key if seed is None else Key(seed).at("sample")
        requests = [
            Request(prompt_ids=prompt, key=own.at("number", number=number).bytes, sampling=sampling)
            for number in range(body.get("num_samples", 1))
        ]
        found = run_to_end(sample_all(self._engine, requests))
        if not body.get("prompt_logprobs"):
            return found, []
        scored = score(self._policy, [prompt[:1]], [(0, prompt[1:])]).tolist() if len(prompt) > 1 else []
        return found, [nan, *scored]

    def close(self) -> None:
        self._engine.close()


def prompt_of(body: Mapping[str, Any]) -> tuple[int, ...]:
    chunks = body["chunks"]
    if any("tokens" not in chunk for chunk in chunks):
        raise ValueError("only text can be sampled from")
    return tuple(token for chunk in chunks for token in chunk["tokens"])


def sampling_of(body: Mapping[str, Any]) -> Sampling:
    """Raises: ValueError for `top_k`, `top_p` or an empty `stop`, which this engine does not support."""
    if body.get("top_k", -1) != -1 or body.get("top_p", 1) != 1:
        raise ValueError("top_k and top_p are not supported; leave them at -1 and 1")
    found, stop = (
        Sampling(max_tokens=body.get("max_tokens") or 256, temperature=body.get("temperature", 1.0)),
        body.get("stop"),
    )
    if stop is None:
        return found
    if stop == []:
        raise ValueError("completions always end with the model's end token; leave stop out")
    if isinstance(stop, list) and isinstance(stop[0], int):
        return replace(found, stop_ids=frozenset(stop))
    return replace(found, stop=(stop,) if isinstance(stop, str) else tuple(stop))
