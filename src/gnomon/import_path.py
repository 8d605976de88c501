"""Where this process and those that it starts look for modules: the folder of a script after the standard library.

Python looks in the working folder, or in a script's folder, first. A file `random.py` there would be imported in place
of the library's module. This module is imported before the path is in order, so it imports only what Python has loaded.
"""

import os
import sys

__all__ = ["add_working_folder", "inherited_path", "library_first", "put_in_order"]

LIBRARY = (os.path.dirname(os.__file__), os.path.join(os.path.dirname(os.__file__), "lib-dynload"))


def put_in_order() -> None:
    """Put this process's import path in order, when Gnomon is imported.

    `python -m gnomon` means no module of the working folder, in which Python looks first.
    """
    words = sys.orig_argv
    command = "-m" in words and words[words.index("-m") + 1].partition(".")[0] == "gnomon"
    if command and sys.path[0] == os.getcwd():
        del sys.path[0]
    sys.path[:] = inherited_path()


def inherited_path() -> list[str]:
    """The import path for a process that this one starts."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return library_first(sys.path, [os.getcwd(), *([os.path.dirname(os.path.abspath(script))] if script else [])])


def add_working_folder() -> None:
    """Let this process import the modules of the working folder, after installed ones that Gnomon may need itself."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def library_first(path: list[str], folders: list[str]) -> list[str]:
    """An import path in which these folders stand directly after the standard library, if they stand before it."""
    first = next((index for index, entry in enumerate(path) if entry in LIBRARY), 0)
    end = first + sum(entry in LIBRARY for entry in path[first : first + len(LIBRARY)])
    moved = [entry for entry in path[:end] if (entry or os.getcwd()) in folders]
    return [*(entry for entry in path[:end] if entry not in moved), *moved, *path[end:]]
