"""The Python module that a user names, a file or a dotted name, and the errors of importing it."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from gnomon.envs.blame import blamed_line, describe, quote
from gnomon.errors import ConfigError, GnomonError, sibling
from gnomon.import_path import add_working_folder
from gnomon.workers.fork_server import WORKER
from gnomon.workers.serialise import module_of

__all__ = ["classes", "load_module", "no_file", "require_outside", "unimportable"]


def no_file(name: str, attribute: str, where: str) -> ConfigError:
    """The error for a Python file that does not exist."""
    near = sibling(name, lambda path: path.suffix == ".py")
    fix = f"env={near}:{attribute}" if near else f"give a path relative to this folder: dir/file.py:{attribute}"
    return ConfigError("E021", f"there is no file {name}", where=where, fix=fix)


def no_module(name: str, attribute: str, where: str) -> ConfigError:
    """The error for a dotted name of no module."""
    file = f"{name.replace('.', '/')}.py"
    near = sibling(file, lambda path: path.suffix == ".py")
    fix = f"env={near}:{attribute}" if near else f"start in a folder from which {name} can be imported"
    return ConfigError("E021", f"there is no module {name}", where=where, fix=fix)


def classes(path: Path) -> list[str]:
    """The classes at the top of a file, without running it. Raises: SyntaxError or ValueError for what is no Python."""
    body = ast.parse(path.read_bytes(), str(path)).body
    return [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def load_module(name: str, attribute: str, where: str) -> ModuleType:
    """The module of a file or a dotted name.

    Args: attribute: what is wanted of it, for the fix.
    Raises: ConfigError E021 if there is no such file or module, E023 for code that does not run.
    """
    add_working_folder()
    LOADING.append(name)
    try:
        return module_of(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except FileNotFoundError as error:
        if Path(name).is_file():
            raise unimportable(name, error, where) from error
        raise no_file(name, attribute, where) from error
    except GnomonError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise no_module(name, attribute, where) from error
        raise unimportable(name, error, where) from error
    except Exception as error:
        raise unimportable(name, error, where) from error
    finally:
        LOADING.pop()


def unimportable(name: str, error: Exception, where: str) -> ConfigError:
    """The error for a module that does not run, at the author's line."""
    line = quote(blamed_line(error, None))
    if isinstance(error, SyntaxError) and error.filename:
        line = f"{Path(error.filename).name}:{error.lineno}: {(error.text or '').strip()}"
    fix = "correct this line, then repeat the command"
    if isinstance(error, ModuleNotFoundError) and error.name:
        fix = f"pip install {error.name}, or start in a folder from which {error.name} can be imported"
    elif isinstance(error, SyntaxError) and error.msg == "expected ':'" and error.text:
        fix = f"{error.text.strip()}:"
    elif "frozen dataclass" in str(error):
        fix = "@dataclass(frozen=True, kw_only=True), above the class"
    if own := shadowed_file(error):
        fix = f"mv {own} my_{own}, and import it by this name: an installed package is also called {Path(own).stem}"
    return ConfigError("E023", f"{name} cannot be imported: {describe(error)}", where=line or where, fix=fix)


def shadowed_file(error: Exception) -> str:
    """The file of the working folder that was not imported, because an installed package has its name; or empty."""
    of = error.obj if isinstance(error, AttributeError) else None
    name = (of.__name__ if isinstance(of, ModuleType) else getattr(error, "name", "") or "").partition(".")[0]
    file, origin = Path(f"{name}.py"), getattr(sys.modules.get(name), "__file__", None)
    return file.name if name and file.is_file() and origin and not Path(origin).samefile(file) else ""


LOADING: list[str] = []
"""Modules that are being imported for a run, the innermost last."""


def require_outside() -> None:
    """Raises: ConfigError E026 for a run that would start because its environment's file is imported."""
    if LOADING or WORKER in os.environ:
        raise ConfigError(
            "E026", "a run cannot start while a file is imported" + (f": {LOADING[-1]}" if LOADING else ""),
            why="every worker process imports the file of the environment and would start the run again",
            fix='put the call under `if __name__ == "__main__":`',
        )  # fmt: skip
