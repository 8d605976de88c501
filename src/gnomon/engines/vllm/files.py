"""What the worker reads: the model folder, and the weights of each version, in a folder of the engine's own."""

from __future__ import annotations

import fcntl
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shutil import copyfile, rmtree
from tempfile import gettempdir, mkdtemp
from typing import IO

from gnomon.models.adapter import WEIGHTS, Adapter, layers_of, write_config
from gnomon.models.backends import has_experts
from gnomon.models.folder import image_token, table
from gnomon.models.published import as_published
from gnomon.models.weights import WeightsRef

__all__ = ["adapter_folder", "link_folder", "model_file", "own_folder", "remove", "weights_file"]

NAME, LOCK = "gnomon-engine-", "lock"


def own_folder() -> tuple[Path, IO[str]]:
    """A new folder, and a lock on it that the kernel releases when this process ends.

    Folders whose process has ended are deleted: one that is killed leaves its own.
    """
    for stale in Path(gettempdir()).glob(f"{NAME}*"):
        with suppress(OSError), (stale / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rmtree(stale, ignore_errors=True)
    folder = Path(mkdtemp(prefix=NAME))
    own = (folder / "locking").open("w", encoding="utf-8")
    fcntl.flock(own, fcntl.LOCK_EX)
    (folder / "locking").rename(folder / LOCK)  # Locked before it can be found.
    return folder, own


def model_file(weights: WeightsRef, path: Path, base: Path) -> Path:
    """Every parameter in a safetensors file of this name, as vLLM reads it. Args: base: the model's folder.

    Raises: ModelError, as `as_published`.
    """
    if has_experts(table(base / "config.json")) or image_token(base) is not None:
        weights = replace(weights, tensors=as_published(base, weights.read()))
    return weights_file(weights, path)


def weights_file(weights: WeightsRef, path: Path) -> Path:
    """The weights in a safetensors file of this name."""
    if isinstance(weights.tensors, Path):
        copyfile(weights.tensors, path)
    else:
        weights.write(path)
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


def link_folder(folder: Path, target: Path) -> Path:
    """A model folder as vLLM wants it: links to the files, and a `tokenizer_config.json` where there is none."""
    target.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (target / path.name).symlink_to(path.resolve())
    config = target / "tokenizer_config.json"
    if not config.exists():
        config.write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}), "utf-8")
    return target
