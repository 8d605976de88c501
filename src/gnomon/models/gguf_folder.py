"""Model folders from weights in a Python package. A folder appears whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gnomon.errors import ModelError, is_full

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FILES",
    "Progress",
    "complete",
    "facts_of",
    "float_tensors",
    "hub_name",
    "require_whole",
    "write_folder",
    "write_json",
]

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
UNFINISHED = "unfinished"
"""In the name of a folder that takes the place of the model's when it is whole."""
Progress = Callable[[str, float], None]
"""Called with the current action and the finished fraction of the work, from 0 to 1."""


def complete(folder: Path) -> bool:
    """Whether the folder holds everything that a model needs, and nothing of it is truncated."""
    return not defect(folder)


def defect(folder: Path) -> str:
    """What is wrong with a model folder, as a sentence; empty where it is complete."""
    for path in (folder / name for name in FILES):
        if not path.is_file():
            return f"{path.name} is missing"
        facts = path.stat()
        if not _whole(path, facts.st_size, facts.st_mtime_ns):
            return f"{path.name} is truncated or damaged"
    return ""


@cache
def _whole(path: Path, size: int, changed: int) -> bool:
    """Whether a file can be read to its end: JSON as a whole, weights as far as their header says."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".json":
                return isinstance(json.load(file), dict)
            header = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(min(header, size)))
        ends = (facts["data_offsets"][1] for name, facts in tensors.items() if name != "__metadata__")
        return size == 8 + header + max(ends, default=0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def require_whole(folder: Path, name: str) -> None:
    """Raises: ModelError E307 where the folder of a model that comes in a package is neither complete nor empty."""
    if complete(folder) or not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    ours = (folder / "config.json").is_file()
    aside = next(
        name for number in count(1) if not Path(name := f"{folder}.old{number if number > 1 else ''}").exists()
    )
    raise ModelError(
        "E307",
        f"the folder for {name} is damaged" if ours else f"the folder for {name} contains other files",
        where=str(folder),
        why=defect(folder) if ours else f"{name} is written to a folder of its own",
        fix=f"mv {quote(str(folder))} {quote(aside)}",
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process of this machine at a time writes in a folder; what a killed one left there is removed.

    The folder itself is locked, so that no file of a lock stays. A file system without locks is not an error.
    """
    descriptor = os.open(folder.parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            for leftover in folder.parent.glob(f".{folder.name}-{UNFINISHED}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def write_folder(folder: Path, name: str, write: Callable[[Path, Path], None], elsewhere: str) -> Path:
    """Write the folder of a model unless it is complete, and return it.

    It appears whole or not at all, so an interrupted call can be repeated.

    Args: name: of the model, for errors; write: called with the folder to fill, and with one for files on the way;
        elsewhere: the fix where the folder cannot be written.
    Raises: ModelError E307 when something else stands in the way, or the folder cannot be written.
    """
    if complete(folder):
        return folder
    require_whole(folder, name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not complete(folder):  # Else a process beside this one has just written it.
                _write_beside(folder, write)
    except Exception as error:  # That a disk is full, pip and safetensors say in their own words.
        if not isinstance(error, OSError) and not is_full(error):
            raise
        why = "the disk is full" if is_full(error) else getattr(error, "strerror", None) or str(error)
        raise ModelError(
            "E307", f"the folder for {name} cannot be written", where=str(folder), why=why, fix=elsewhere
        ) from error
    return folder


def _write_beside(folder: Path, write: Callable[[Path, Path], None]) -> None:
    """Write to a folder beside it, which takes its place at the end."""
    with TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-{UNFINISHED}-", ignore_cleanup_errors=True
    ) as aside:
        new = Path(aside) / "model"
        new.mkdir()
        write(new, Path(aside))
        for path in new.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        new.replace(folder)


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

    for index, tensor in enumerate(reader.tensors):
        progress("weights", 0.7 + 0.3 * index / len(reader.tensors))
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
