"""Weights in safetensors files, read as they are asked for: a tensor, or some of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from safetensors import safe_open
from torch import Tensor

__all__ = ["Stored", "weights_of"]

INDEX = "model.safetensors.index.json"
"""File of a model folder that says which file has which tensor, where there are several."""


class Stored(Mapping[str, Tensor]):
    """The tensors of some files by name. None of them is kept: each is read where it is asked for.

    Args: device: that whole tensors are read onto. Raises: OSError, SafetensorError for files that cannot be read.
    """

    def __init__(self, *paths: Path, device: str = "cpu") -> None:
        self._undo = ExitStack()
        self._files: dict[str, Any] = {}
        for path in paths:
            file: Any = self._undo.enter_context(safe_open(path, framework="pt", device=device))
            self._files |= dict.fromkeys(file.keys(), file)

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, which is not read."""
        return tuple(self._files[name].get_slice(name).get_shape())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self.shape(name) for name in self}

    def rows(self, name: str, first: int, end: int) -> Tensor:
        """[end − first, …] rows of a tensor."""
        tensor: Tensor = self._files[name].get_slice(name)[first:end]
        return tensor

    def leave_out(self, names: Iterable[str]) -> None:
        """Have no tensors of these names any more."""
        for name in names:
            self._files.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._files = {}
        self._undo.close()


def weights_of(folder: Path) -> Stored:
    """The weights of a model folder."""
    if (folder / INDEX).is_file():
        names = json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values()
        return Stored(*(folder / name for name in sorted(set(names))))
    return Stored(folder / "model.safetensors")
