"""What the worker reads: the model folder, and the weights of each version."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile, rmtree

from gnomon.models.adapter import WEIGHTS, Adapter, layers_of, write_config
from gnomon.models.weights import WeightsRef

__all__ = ["adapter_folder", "linked", "remove", "weights_file"]


def weights_file(weights: WeightsRef, path: Path) -> Path:
    """The weights in a safetensors file of this name."""
    if isinstance(weights.tensors, Path):
        copyfile(weights.tensors, path)
    else:
        weights.written(path)
    return path


def adapter_folder(weights: WeightsRef, folder: Path, adapter: Adapter, base: Path) -> Path:
    """An adapter as PEFT writes it. Args: base: the model that it belongs to."""
    folder.mkdir()
    weights_file(weights, folder / WEIGHTS)
    write_config(folder, adapter, layers_of(weights.read()), base=str(base))
    return folder


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content."""
    rmtree(path) if path.is_dir() else path.unlink()


def linked(folder: Path, place: Path) -> Path:
    """A model folder as vLLM wants it: links to the files, and a `tokenizer_config.json` where there is none."""
    place.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (place / path.name).symlink_to(path.resolve())
    config = place / "tokenizer_config.json"
    if not config.exists():
        config.write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return place
