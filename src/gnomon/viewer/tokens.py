"""A rollout's tokens with the log-probability at which each was sampled."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from gnomon.errors import GnomonError
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.store import logprobs_of
from gnomon.terminal import printable

__all__ = ["SHADES", "tokenizer_of", "turn_tokens"]

SHADES = 10
"""Classes of probability: class n holds tokens of probability n/SHADES up to (n + 1)/SHADES."""
MOST = 8000
"""Tokens of a turn that are shown one by one."""


@lru_cache(maxsize=8)
def loaded(path: str) -> Tokenizer | None:
    try:
        return Tokenizer(model_folder(path))
    except (GnomonError, OSError):
        return None


def tokenizer_of(recipe: str) -> Tokenizer | None:
    """The tokenizer of the policy that a recipe names; None where its folder is not there any more."""
    return loaded(str(tomllib.loads(recipe).get("policy", {}).get("path", "tiny")))


def turn_tokens(body: Mapping[str, Any], tokenizer: Tokenizer | None) -> list[list[dict[str, Any]]]:
    """Per turn its tokens: `text`, `id`, `logp` (None for a prefilled token) and `shade`."""
    logps = logprobs_of(body)
    sizes = [turn["tokens"] for turn in body.get("turns", ())] or [len(logps)]
    found, start = [], 0
    for size in sizes:
        stop = start + min(size, MOST)
        found.append(list(spelled(body["token_ids"][start:stop], logps[start:stop], tokenizer)))
        start += size
    return found


def spelled(ids: Sequence[int], logps: Sequence[float], tokenizer: Tokenizer | None) -> Iterator[dict[str, Any]]:
    """Tokens with their texts. Tokens that are parts of one character are shown together at the last of them."""
    waiting: list[int] = []
    for token, logp in zip(ids, logps, strict=True):
        waiting.append(token)
        text = tokenizer.spell(waiting) if tokenizer else f"⟨{token}⟩"
        if text.endswith("\N{REPLACEMENT CHARACTER}") and len(waiting) < 4:
            text = ""
        else:
            waiting = []
        sampled = not math.isnan(logp)
        yield {
            "text": printable(text),
            "id": token,
            "logp": logp if sampled else None,
            "shade": min(SHADES - 1, int(math.exp(logp) * SHADES)) if sampled else "prefilled",
        }
