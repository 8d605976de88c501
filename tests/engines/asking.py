"""Requests with keys of their own."""

from __future__ import annotations

from gnomon.engines.vllm import VLLM
from gnomon.keys import Key
from gnomon.models.policy import Policy
from gnomon.types import Request, Sampling


def ask(policy: Policy | VLLM, prompt: str, sample: int = 0, limit: int = 60, **options: object) -> Request:
    sampling = Sampling(max_tokens=limit, **options)  # type: ignore[arg-type]
    key = Key(0).at("test", prompt=prompt, sample=sample).bytes
    return Request(prompt_ids=policy.tokenizer.encode(prompt), key=key, sampling=sampling)
