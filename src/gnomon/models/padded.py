"""Passes by transformers' own forward: texts as rows that are padded behind their ends, with the model's own attention.

A causal model never reads what follows a token, so padding behind a text needs no mask, whatever mixes the tokens:
linear attention, a recurrent state. Nothing is shared between rows, so a prompt passes through
the model once for each of its texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnomon.models.attention import gather
from gnomon.models.trie import Places, Trie
from gnomon.models.vision import Vision

__all__ = ["Padded", "cap_of", "composed", "freeze_unread", "read_by_head", "scale_of"]

FACTORS = {"logit_scale": 1.0, "lm_head_multiplier": 1.0, "logits_scaling": -1.0}
"""Names of the number that scores are multiplied by, in configurations of models, and its power."""
CAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
"""Names of the bound that scores stay below."""


class Padded:
    """The layout of a pass of padded rows: every text of a trie that no other one begins with."""

    attention: ClassVar[str | None] = None
    """Each model has its own."""

    def __init__(self, trie: Trie, device: torch.device | str = "cpu", vision: Vision | None = None) -> None:
        rows, self.vision = whole_texts(trie), vision
        length = max(map(len, rows))
        table, offsets = torch.zeros(len(rows), length, dtype=torch.int64), torch.zeros(len(trie), dtype=torch.int64)
        lengths = torch.tensor([len(path) for path in rows])
        self.padding = (torch.arange(length) >= lengths[:, None]).to(device)
        """[B, L] whether a place is behind the end of its row."""
        for row, path in reversed(list(enumerate(rows))):
            at = torch.from_numpy(path)
            table[row, : len(at)] = at
            offsets[at] = row * length + torch.arange(len(at))
        self.table, self.place = table.to(device), offsets.to(device)
        """[B, L] the flat token at every place, any one behind the end; [T] where each flat token stands."""

    def hidden(self, model: Any, ids: Tensor) -> Tensor:
        """[T, size] what the vocabulary projection reads of flat tokens [T].

        Raises: ValueError for a model that predicts several tokens from each.
        """
        inputs = {"input_ids": ids[self.table]}
        if self.vision is not None:
            inputs = self.vision.inputs(inputs["input_ids"].masked_fill(self.padding, 0))
        (states,) = read_by_head(model, **inputs, use_cache=False)[:1]
        if states.shape[:2] != self.table.shape:
            raise ValueError("the vocabulary projection does not read one state of each token")
        return gather(states.flatten(0, 1), self.place)


def whole_texts(trie: Trie) -> Sequence[Places]:
    """The paths of a trie that no other path continues."""
    after = [old for _, old in trie.branches[1:]] + [0]
    return [path for (path, _), old in zip(trie.branches, after, strict=True) if old < len(path)]


def read_by_head(model: Any, **inputs: Any) -> tuple[Tensor, Any]:
    """[B, L, size] the hidden states that the vocabulary projection reads in a pass, and the rest of what the model
    returns. Scores are not computed.

    Raises: ValueError for a model that does not call its vocabulary projection.
    """
    head, states = model.get_output_embeddings(), []

    def keep(hidden: Tensor, *_: Any, **__: Any) -> Tensor:
        states.append(hidden)
        return hidden

    with replace_forward(head, keep):
        out = model(**accepted_inputs(type(model), inputs))
    if not states:
        raise ValueError("the model does not call its vocabulary projection")
    return states[-1], out


@contextmanager
def replace_forward(head: torch.nn.Module, forward: Any) -> Iterator[None]:
    """The module computes something else."""
    before = head.__dict__.get("forward")
    head.forward = forward
    try:
        yield
    finally:
        del head.forward
        if before is not None:
            head.forward = before


def accepted_inputs(kind: type, inputs: dict[str, Any]) -> dict[str, Any]:
    """Those of the inputs that a model of this class takes."""
    names = input_names(kind)
    return inputs if names is None else {name: value for name, value in inputs.items() if name in names}


@cache
def input_names(kind: Any) -> frozenset[str] | None:
    """Names of the inputs of a class of models; None for any."""
    parameters = inspect.signature(kind.forward).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return frozenset(parameters)


def scale_of(config: Any) -> float:
    """What a model multiplies its scores by. Args: config: of the part of it that reads text."""
    scale = 1.0
    for name, power in FACTORS.items():
        value = getattr(config, name, None)
        scale *= float(value) ** power if isinstance(value, int | float) and value else 1.0
    return scale


def cap_of(config: Any) -> float | None:
    """The bound that a model's scores stay below, by a tanh. Args: config: as of `scale_of`."""
    return next((float(value) for name in CAPS if (value := getattr(config, name, None))), None)


def composed(model: Any) -> bool:
    """Whether a model has parts that read something else than text."""
    return bool(model.config.sub_configs)


def freeze_unread(model: Any, outputs: Iterable[Tensor]) -> None:
    """Freeze the parts of a model that no input passes through, such as a vision tower where there are no images.

    A part is a module directly below the model or its body. A part with a parameter that has a gradient is trained
    whole: experts that no token took are trained too.
    Args: outputs: of the inputs, with gradients: states of a text, and features of an image whose tower is trained.
    """
    used_ids = set().union(*map(dependencies, outputs), map(id, model.get_output_embeddings().parameters()))
    for part in [*model.children(), *model.base_model.children()]:
        own = list(part.parameters())
        if own and not any(id(value) in used_ids for value in own):
            part.requires_grad_(False)


def dependencies(out: Tensor) -> set[int]:
    """Ids of the parameters that a tensor depends on."""
    ids, visited, waiting = set(), set(), [out.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            ids.add(id(variable))
        waiting += [before for before, _ in node.next_functions]
    return ids
