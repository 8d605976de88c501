"""Where this process and those that it starts look for modules: the working folder after the standard library.

Python looks in the working folder, or in a script's folder, first. A file `random.py` there would be imported in place
of the library's module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["add_working_folder", "inherited_path", "library_first"]

LIBRARY = (os.path.dirname(os.__file__), os.path.join(os.path.dirname(os.__file__), "lib-dynload"))


def inherited_path() -> list[str]:
    """The import path for a process that this one starts."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return library_first(sys.path, [os.getcwd(), *([os.path.dirname(os.path.abspath(script))] if script else [])])


def add_working_folder() -> None:
    """Let this process import the modules of the working folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path[:] = library_first([here, *sys.path], [here])


def library_first(path: Sequence[str], folders: Sequence[str]) -> list[str]:
    """An import path in which these folders stand directly after the standard library, if they stand before it."""
    first = next((place for place, entry in enumerate(path) if entry in LIBRARY), 0)
    end = first + sum(entry in LIBRARY for entry in path[first : first + len(LIBRARY)])
    moved = [entry for entry in path[:end] if (entry or os.getcwd()) in folders]
    return [*(entry for entry in path[:end] if entry not in moved), *moved, *path[end:]]
