"""What the files of a model folder say about the model, before it is loaded. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gnomon.errors import GnomonError
from gnomon.models.folder import chat_template, present_folder, table
from gnomon.models.vocabulary import turn_end

__all__ = ["SMALL", "Facts", "facts", "parameters"]

SMALL = 10_000_000
"""Parameters up to which a model is trained like the one that ships."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A model by its files. Numbers are 0 where the files do not say them."""

    parameters: int = 0
    family: str = ""
    """`model_type` of its configuration."""
    hidden: int = 0
    """Width of its hidden states."""
    activations: int = 0
    """Numbers that a training pass keeps for a token."""
    positions: int = 0
    """Most tokens of a conversation."""
    turn_end: str = ""
    """The end token in its chat template; empty for a model without a template that ends the turns of a chat."""
    thinks: bool = False
    """Whether its chat template knows reasoning before the answer."""

    @property
    def pretrained(self) -> bool:
        """Whether it is larger than a model of a few minutes, or of unknown size."""
        return not 0 < self.parameters <= SMALL


def facts(name: str) -> Facts:
    """Of a model as `policy.path` names it. Nothing is fetched: of a model that is not on this machine, nothing."""
    try:
        folder = present_folder(name)
        config, template = table(folder / "config.json"), chat_template(folder) or ""
    except (GnomonError, OSError, UnicodeDecodeError):
        return Facts()
    config = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    layers, hidden = (number(config, *names) for names in (("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd")))
    inner = number(config, "intermediate_size", "n_inner") or 4 * hidden
    return Facts(
        parameters=parameters(folder),
        family=str(config.get("model_type", "")),
        hidden=hidden,
        activations=layers * (8 * hidden + 3 * inner),
        positions=number(config, "max_position_embeddings", "n_positions"),
        turn_end=turn_end(folder, template) if template else "",
        thinks="<think>" in template,
    )


def number(config: Mapping[str, Any], *names: str) -> int:
    """The first of some fields that is a positive number, else 0."""
    values = (config.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), 0)


def parameters(folder: Path) -> int:
    """The number of weights in the safetensors files of a folder, by their headers; 0 where none can be read."""
    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length)) if 0 < length < min(path.stat().st_size, 10**8) else {}
            total += sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return 0
    return total
