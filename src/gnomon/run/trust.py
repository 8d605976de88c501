"""Code that a run folder names: run without a question where this user trained with it, and else only when asked for.

A recipe names an environment as `file.py:Class` or `module:Class`, and to read it back is to import it. So a run signs
its recipe with a key that this user alone can read; a folder from somebody else, or one whose recipe has changed, has
no signature of that key.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.envs import ENVS
from gnomon.errors import ConfigError, GnomonError
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["ask_trust", "code_of", "require_trusted", "signature", "unsigned_code"]

SIGNED = "signed"
"""Where a manifest holds the signature."""
KEY = 32
"""Bytes of the key."""


def code_of(config: RunConfig) -> list[str]:
    """What a recipe imports or runs beside this package: names of environments, verifiers, interpreters."""
    kind = config.env.type
    modules = [] if kind in ENVS or kind.startswith("rg:") else [kind]
    return modules + [
        text for text in texts(config.env.options) if ":" in text or (os.sep in text and os.access(text, os.X_OK))
    ]


def texts(value: Any) -> Iterator[str]:
    """Every text in a nested value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)


def signature(recipe: str) -> str:
    """The recipe signed by this user's key, which is made when it is first needed; empty where it cannot be kept."""
    try:
        return hmac.new(key(), recipe.encode(), "sha256").hexdigest()
    except OSError:
        return ""


def key() -> bytes:
    """Raises: OSError, where this user has no home folder, or its state folder cannot be written."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError(str(error)) from error
    path = Path(state) / "gnomon" / "key"
    with suppress(FileNotFoundError):
        if len(content := path.read_bytes()) == KEY:
            return content
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    fresh.touch(mode=0o600)
    fresh.write_bytes(secrets.token_bytes(KEY))
    with suppress(FileExistsError):  # Another process was first: its key counts.
        os.link(fresh, path)
    fresh.unlink()
    if len(content := path.read_bytes()) != KEY:
        raise OSError(f"{path} holds no key")
    return content


def unsigned_code(reader: RunReader, config: RunConfig) -> list[str]:
    """The code that a run folder names and this user has not trained with here."""
    names = code_of(config)
    if not names:
        return []
    try:
        extended = next(reversed(reader.events("extended")), reader.manifest)  # Its recipe was signed when it changed.
        supplied, due = str(extended.get(SIGNED, "")), signature(reader.recipe)
    except GnomonError:  # It is damaged.
        return names
    return [] if due and hmac.compare_digest(supplied.encode(), due.encode()) else names


def require_trusted(reader: RunReader, config: RunConfig, trust: bool) -> None:
    """Raises: ConfigError E052 for code that is not trusted."""
    if not trust and (names := unsigned_code(reader, config)):
        raise ConfigError(
            "E052",
            f"the run folder uses code that you have not trained with on this machine: {', '.join(names)}",
            where=str(reader.folder / RECIPE),
            why="this command runs that code with your permissions",
            fix="read the code, then repeat the command with --trust",
        )


def ask_trust(folder: Path, ask: Callable[[str], bool]) -> bool:
    """Whether a person lets the code of a run folder run. Args: ask: shows a question and returns yes or no."""
    with RunReader(folder) as reader:
        config, _ = resolve([recorded_recipe(folder / RECIPE)])
        names = unsigned_code(reader, config)
    what = f"{folder} uses code that you have not trained with on this machine"
    return not names or ask(f"{what}: {', '.join(names)}. Run it?")
