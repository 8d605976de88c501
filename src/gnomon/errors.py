"""Errors for users, each with a fix.

GnomonError              has a code, a place, a reason and a fix
├── ConfigErrors         several mistakes in one configuration, reported together
├── ConfigError   E0xx   the recipe or the command line
├── VerifierError E1xx   the verifier failed or returned an invalid verdict
├── NumericsError E2xx   sampler and learner disagree, or a number is not finite
├── ModelError    E3xx   a model folder
├── RunError      E4xx   a run folder, its records and checkpoints
└── ResourceError E5xx   disk, memory, a missing package
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from gnomon.terminal import printable

__all__ = [
    "TRAIN",
    "ConfigError",
    "ConfigErrors",
    "GnomonError",
    "ModelError",
    "NumericsError",
    "ResourceError",
    "RunError",
    "VerifierError",
    "explain_missing_package",
]

TRAIN = frozenset(("numpy", "safetensors", "torch", "transformers"))
"""Packages of the extra `train`. Everything that reads, judges and audits works without them."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class GnomonError(Exception):
    """An error that a user can fix. It is shown without a traceback."""

    exit_code = 1

    def __init__(self, code: str, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        self.code, self.what, self.where, self.why, self.fix = code, what, where, why, installable(fix)
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"error[{self.code}] {self.what}"]
        lines += [f"   {text}" for text in (self.where and f"at {self.where}", self.why) if text]
        lines += [f"   fix: {self.fix}"] if self.fix else []
        return printable("\n".join(lines))

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows."""
        return str(self).splitlines()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.code, self.what, self.where, self.why, self.fix)


def _rebuild(kind: type[GnomonError], code: str, what: str, where: str, why: str, fix: str) -> GnomonError:
    return kind(code, what, where=where, why=why, fix=fix)


def installable(fix: str) -> str:
    """A fix as it works in this environment: one that uv made has no pip."""
    return re.sub(r"(?<!-m )(?<!uv )\bpip install", "uv pip install", fix) if not find_spec("pip") else fix


class ConfigError(GnomonError):
    exit_code = 2


class ConfigErrors(GnomonError):
    """All mistakes of one configuration, reported together."""

    exit_code = 2

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
        super().__init__(errors[0].code, f"{count}. Nothing was started.")

    def __str__(self) -> str:
        return "\n".join([*map(str, self.errors), self.what])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.errors,)


class VerifierError(GnomonError):
    pass


class NumericsError(GnomonError):
    pass


class ModelError(GnomonError):
    pass


class RunError(GnomonError):
    pass


class ResourceError(GnomonError):
    pass


@contextmanager
def explain_missing_package() -> Iterator[None]:
    """Raises: ResourceError E505 in place of a ModuleNotFoundError for a package of the extra `train`."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAIN:
            raise
        raise ResourceError(
            "E505", f"the package {package} is not installed",
            why="models, objectives and training need it; verifiers, audits and the reading of runs do not",
            fix='pip install "gnomon[train]"',
        ) from error  # fmt: skip


def sibling(path: str | Path, suits: Callable[[Path], bool] = Path.exists) -> str:
    """The path in the same folder whose name is most like that of a path that does not exist; empty where none is."""
    path = Path(path)
    try:
        names = [name for name in os.listdir(path.parent) if suits(path.parent / name)]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, 1, 0.7)
    return str(path.parent / near[0]) if near else ""


def is_full(error: BaseException) -> bool:
    """Whether an error means that a disk is full. Libraries in other languages report it only as text."""
    if isinstance(error, OSError) and error.errno in FULL:
        return True
    words = [part for number in FULL for part in (os.strerror(number), f"os error {number})")]
    return any(part in str(error) for part in words)
