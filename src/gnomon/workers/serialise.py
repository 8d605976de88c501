"""Send values to other processes. Objects defined in the main script or a notebook are sent by value."""

from __future__ import annotations

import pickle
import pickletools
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Self

__all__ = ["Carried", "module_of", "pack_value"]


def pack_value(value: Any) -> bytes:
    """A pickle that another process can load.

    Classes and functions of a module are stored by name, and imported on loading. Those that cannot be imported,
    because they are defined in  `__main__`, in a notebook's cell or inside a function, are stored by value.

    Raises: exceptions of pickling, for example for an open file or a lock.
    """
    try:
        plain = pickle.dumps(value)
    except RecursionError as error:
        raise pickle.PicklingError("its values are nested too deep") from error
    except (pickle.PicklingError, AttributeError, TypeError):
        plain = b"__main__"
    if b"__main__" not in plain:
        return plain
    import cloudpickle  # Few values need it, and every worker would pay for it.

    payload: bytes = cloudpickle.dumps(value)
    return payload


@dataclass(frozen=True)
class Carried:
    """A value for another process, with the files of modules that are not on the path."""

    files: tuple[tuple[str, str], ...]
    """Name and file of modules that were loaded by path."""
    payload: bytes

    @classmethod
    def of(cls, value: Any) -> Self:
        """Raises: what pickling raises."""
        payload = pack_value(value)
        words = {word for _, word, _ in pickletools.genops(payload) if isinstance(word, str)}
        return cls(tuple((name, file) for name in sorted(words) if (file := file_alone(name))), payload)

    def load(self) -> Any:
        """The value, loaded in the receiving process."""
        for name, file in self.files:
            load(name, file)
        return pickle.loads(self.payload)


def file_alone(name: str) -> str | None:
    """The file of a loaded module that `import` would not find; None for other modules."""
    module = sys.modules.get(name)
    if module is None or "." in name or name == "__main__" or name in sys.builtin_module_names:
        return None
    return None if PathFinder.find_spec(name) else getattr(module, "__file__", None)


def module_of(file: Path) -> ModuleType:
    """The module of a file, loaded once under a name made of its path. Raises: FileNotFoundError, or what it raises."""
    file = file.resolve()
    if not file.is_file():
        raise FileNotFoundError(file)
    return load("gnomon_env_" + sha256(str(file).encode()).hexdigest()[:12], str(file))


def load(name: str, file: str) -> ModuleType:
    """The module of a file under a name, loaded once per process."""
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{file} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
