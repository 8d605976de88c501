"""Model folders from weights in a Python package. A folder appears whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gnomon.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["FILES", "Progress", "complete", "facts_of", "float_tensors", "hub_name", "write_folder", "write_json"]

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
Progress = Callable[[str, float], None]
"""Called with the current action and the finished fraction of the work, from 0 to 1."""


def complete(folder: Path) -> bool:
    """Whether the folder holds everything that a model needs."""
    return all((folder / name).is_file() for name in FILES)


def write_folder(folder: Path, name: str, write: Callable[[Path, Path], None], elsewhere: str) -> Path:
    """Write the folder of a model unless it is complete, and return it.

    It appears whole or not at all, so an interrupted call can be repeated.

    Args: name: of the model, for errors; write: called with the folder to fill, and with one for files on the way;
        elsewhere: the fix where the folder cannot be written.
    Raises: ModelError E307 when something else stands in the way, or the folder cannot be written.
    """
    if complete(folder):
        return folder
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ModelError(
            "E307",
            f"the folder for {name} contains other files",
            where=str(folder),
            why=f"{name} is written to a folder of its own",
            fix=f"mv {quote(str(folder))} {quote(str(folder))}.old",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ModelError(
            "E307",
            f"the folder for {name} cannot be written",
            where=str(folder),
            why=f"{error.strerror}",
            fix=elsewhere,
        ) from error
    with beside as aside:
        new = Path(aside) / "model"
        new.mkdir()
        write(new, Path(aside))
        for path in new.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        try:
            new.replace(folder)
        except OSError:
            if not complete(folder):  # Otherwise a call beside this one was faster.
                raise
    return folder


def facts_of(reader: Any) -> dict[str, Any]:
    """The metadata of an open GGUF file."""
    return {name: field.contents() for name, field in reader.fields.items()}


def float_tensors(reader: Any, progress: Progress) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a GGUF file under its own name, in float32.

    Transformers' reader of such files is slower by far, and what it makes refuses to be saved.
    """
    import numpy as np
    import torch
    from gguf import dequantize

    for place, tensor in enumerate(reader.tensors):
        progress("weights", 0.7 + 0.3 * place / len(reader.tensors))
        yield tensor.name, torch.from_numpy(np.require(dequantize(tensor.data, tensor.tensor_type), requirements="W"))


def hub_name(name: str, layer_names: Mapping[str, str]) -> str:
    """Transformers' name of a tensor: `blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`.

    Args: layer_names: of the tensors of a layer, GGUF's names to transformers'.
    """
    ends = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in ends:
        return ends[name]
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{layer_names[kind]}.weight"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
