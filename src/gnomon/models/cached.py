"""Decoding with the keys, values and states that a model of transformers keeps itself."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from gnomon.models.padded import input_names, read_by_head
from gnomon.models.policy import Policy
from gnomon.models.projection import logp_of
from gnomon.models.scoring import score

__all__ = ["Caching", "Running", "caching_of"]

NAMES = ("past_key_values", "cache_params", "state", "mems")
"""What models of transformers call their cache, where it is returned."""
CROWD = 0.75
"""Rows that have ended leave the cache once fewer than this fraction of its rows go on."""
PROMPTS = ((7, 12, 9, 4, 11, 8, 15, 3, 6), (7, 12, 9, 4, 11, 8, 15, 3, 6), (5, 14, 2, 10))
"""Prompts by which a cache is examined: two equal ones, and a shorter one."""
AFTER = ((3, 9, 13, 5, 2, 6), (8, 4, 4, 12, 7, 3), (11, 6, 3, 3, 9, 14))
ROUNDING, COARSE = 1e-4, 0.1
"""Largest mean difference in nats that rounding explains, in at least float32 and in less."""


class Caching(StrEnum):
    """Which rows a model can decode together."""

    PADDED = "rows of any lengths"
    """Prompts are padded at their beginning, and a mask hides the padding."""
    EQUAL = "rows of equal lengths"
    """The mask does not hide padding from everything that mixes tokens, such as a recurrent state."""
    NONE = "every token from the whole text"
    """The model keeps nothing that continues a text."""


EXAMINED: dict[tuple[str, torch.dtype], Caching] = {}
"""What this process has found of models, by their configuration and the dtype that they compute in."""


class Running:
    """Rows that began together. `hidden` and `grow` take turns.

    Args: prompts: of the rows; of equal lengths for `Caching.EQUAL`.
    """

    def __init__(self, policy: Policy, prompts: Sequence[tuple[int, ...]], caching: Caching) -> None:
        self.policy, self.caching = policy, caching
        self.texts = [list(prompt) for prompt in prompts]
        self._name, self._cache, self._mask = "", None, torch.empty(0)
        self._shift: Tensor | None = None
        """[B, 1] what the position of a token adds to its index, where images have positions in a grid."""

    def hidden(self) -> Tensor:
        """[B, size] what the vocabulary projection reads after the last token of every row."""
        if self.caching is Caching.NONE:
            ends = torch.tensor([len(text) - 1 for text in self.texts], device=self.policy.device)
            states, _ = self._pass(self._rows(self.texts, 0)[0], use_cache=False)
            return states[torch.arange(len(ends), device=ends.device), ends]
        if self._cache is None:
            return self._begin()
        last = self.policy.place([text[-1] for text in self.texts])[:, None]
        self._mask = torch.cat([self._mask, self._mask.new_ones(last.shape)], 1)
        states, out = self._pass(last, use_cache=True, **{self._name: self._cache})
        self._keep(out)
        return states[:, -1]

    def grow(self, tokens: Sequence[int | None]) -> list[int]:
        """Every row goes on with its token; those without one have ended. Returns: the rows that are left, by their
        places before. A row that has ended may be among them."""
        going = [index for index, token in enumerate(tokens) if token is not None]
        for text, token in zip(self.texts, tokens, strict=True):
            text.append(0 if token is None else token)
        if self.caching is not Caching.NONE and len(going) > CROWD * len(tokens):
            return list(range(len(tokens)))
        if self._cache is not None and going:
            self._select(going)
        self.texts = [self.texts[index] for index in going]
        return going

    def _begin(self) -> Tensor:
        """Every distinct prompt passes once."""
        distinct = list(dict.fromkeys(map(tuple, self.texts)))
        ids, mask = self._rows(distinct, max(map(len, distinct)))
        self._mask = mask
        states, out = self._pass(ids, use_cache=True)
        self._keep(out)
        if self._cache is None:
            raise ValueError("the model returns no cache")
        of = [distinct.index(tuple(text)) for text in self.texts]
        self._select(of)
        return states[:, -1][torch.tensor(of, device=states.device)]

    def _rows(self, texts: Sequence[Sequence[int]], end: int) -> tuple[Tensor, Tensor]:
        """[B, L] the texts and whether a place has a token; padded in front up to `end`, or behind where it is 0."""
        most = max(map(len, texts))
        pads = [[max(text[0], 0)] * (most - len(text)) for text in texts]  # Below zero are the names of images.
        rows = [[*text, *pad] for text, pad in zip(texts, pads, strict=True)]
        mask = [[1] * len(text) + [0] * (most - len(text)) for text in texts]
        if end:
            rows = [[*pad, *text] for text, pad in zip(texts, pads, strict=True)]
            mask = [row[::-1] for row in mask]
        device = self.policy.device
        return torch.tensor(rows, device=device), torch.tensor(mask, device=device)

    def _places(self, inputs: dict[str, Any]) -> dict[str, Tensor]:
        """What tells the model which places have tokens. Args: inputs: what it takes for the last of these places."""
        vision, ids = self.policy.vision, inputs["input_ids"]
        kind: Any = type(self.policy.model)
        places = {"attention_mask": self._mask} if self.caching is Caching.PADDED else {}
        if vision is not None and vision.in_grid:
            if self._shift is None:
                places["position_ids"], self._shift = vision.positions(inputs, self._mask)
            else:
                places["position_ids"] = self._indices(ids) + self._shift
        elif places and ((names := input_names(kind)) is None or "position_ids" in names):
            places["position_ids"] = self._indices(ids)
        return places

    def _indices(self, ids: Tensor) -> Tensor:
        """[B, L] how many tokens stand before each of the last places."""
        return (self._mask.cumsum(1) - 1).clamp_min(0)[:, -ids.shape[1] :]

    def _pass(self, ids: Tensor, *, use_cache: bool, **cache: Any) -> tuple[Tensor, Any]:
        vision = self.policy.vision
        with self.policy.as_adapted():
            inputs = {"input_ids": ids} if vision is None else vision.inputs(ids)
            places = self._places(inputs) if use_cache else {}
            return read_by_head(self.policy.model, **inputs, **places, **cache, use_cache=use_cache)

    def _keep(self, out: Any) -> None:
        self._name = next((name for name in NAMES if getattr(out, name, None) is not None), "")
        self._cache = getattr(out, self._name) if self._name else None

    def _select(self, rows: Sequence[int]) -> None:
        """Rows of the cache, each as often as it is named."""
        if list(rows) == list(range(len(self._mask))):
            return
        index = torch.tensor(rows, device=self.policy.device)
        cache: Any = self._cache
        # A cache of a class that says how rows are selected may hold more than its layers, such as a recurrent state.
        select = cache.batch_select_indices if "batch_select_indices" in vars(type(cache)) else cache.reorder_cache
        select(index)
        self._mask = self._mask[index]
        self._shift = None if self._shift is None else self._shift[index]


def caching_of(policy: Policy) -> Caching:
    """The fastest way in which the model decodes what a whole pass scores; measured once for a configuration."""
    name = policy.model.config.to_json_string(), policy.precision.compute
    if name not in EXAMINED:
        EXAMINED[name] = examine(policy)
    return EXAMINED[name]


@torch.inference_mode()
def examine(policy: Policy) -> Caching:
    expected = score(policy, PROMPTS, list(enumerate(AFTER))).float().cpu().view(len(PROMPTS), -1)
    coarse = torch.finfo(policy.precision.compute).bits < 32 or torch.get_float32_matmul_precision() != "highest"
    for caching in (Caching.PADDED, Caching.EQUAL):
        cohorts = [range(3)] if caching is Caching.PADDED else [range(2), range(2, 3)]
        try:
            apart = [float((decode(policy, rows, caching) - expected[list(rows)]).abs().mean()) for rows in cohorts]
        except Exception:  # Every family has rules of its own; one that cannot go on in this way has another.
            continue
        if max(apart) <= (COARSE if coarse else ROUNDING):
            return caching
    return Caching.NONE


def decode(policy: Policy, rows: Sequence[int], caching: Caching) -> Tensor:
    """[B, T] log-probabilities of the tokens after the prompts; the last token of a row but the first ends it."""
    running, logps = Running(policy, [PROMPTS[row] for row in rows], caching), []
    for position in range(len(AFTER[0])):
        logp = logp_of(policy.logits(running.hidden()), 1.0)
        tokens = torch.tensor([AFTER[row][position] for row in rows], device=logp.device)
        logps.append(logp.gather(1, tokens[:, None])[:, 0].float().cpu())
        running.grow(tokens.tolist())
    return torch.stack(logps, 1)
