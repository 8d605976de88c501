"""What an error prints as its fix, taken as a user pastes it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from gnomon.config import SHORT

__all__ = ["REMARK", "Printed", "brief", "pasted", "printed"]

SETTING = re.compile(r"[A-Za-z_][\w.]*=.*", re.DOTALL)
SOON = ("steps=1", "prompts=2", "max_tokens=8", "eval.tasks=2", "threads=1")
"""Settings with which a training that starts ends soon."""
REMARK = re.compile(r", or |, the |, which |, above |; |   \(| is a | finds | prints ")
"""What ends the part of a fix that is pasted."""


class Printed(NamedTuple):
    """One error as it is printed."""

    code: str
    what: str
    where: str
    fix: str


def printed(text: str) -> list[Printed]:
    """The errors in what a command printed."""
    found = []
    for part in re.split(r"^(?=error\[)", text, flags=re.MULTILINE)[1:]:
        first, *lines = part.rstrip().splitlines()
        match = re.match(r"error\[(\w+)\] (.*)", first)
        assert match, part
        named = {word: next((line for line in lines if line.startswith(f"   {word}")), "") for word in ("at ", "fix: ")}
        found.append(Printed(match[1], match[2], named["at "][6:], named["fix: "][8:]))
    return found


def pasted(words: list[str], error: Printed, cwd: Path) -> list[str] | None:
    """The command after its fix, or None for a fix that is no setting, command or path.

    A command replaces the whole line. A line of a recipe is replaced in its file.
    A setting replaces the argument at fault, or one of the same name, or is added.
    """
    paste = REMARK.split(error.fix)[0]
    if error.code == "E012" and (place := re.fullmatch(r"(.+), line (\d+)", error.where)):
        lines = (cwd / place[1]).read_text().splitlines()
        lines[int(place[2]) - 1] = paste
        (cwd / place[1]).write_text("\n".join(lines))
        return words
    if paste == "leave it out":
        return without(words, error.where)
    parts = shlex.split(paste) if not re.search(r"\w'\w", paste) else []  # An apostrophe is in a sentence.
    if parts[:1] == ["gnomon"]:
        return parts[1:]
    if parts and all(map(SETTING.fullmatch, parts)):
        kept = without(words, error.where) if error.code in ("E003", "E012") else words
        if error.where == "the command line" and len(parts) == 1:  # The only argument of a command without settings.
            return [*words[:-1], parts[0]]
        for part in parts:
            kept = with_setting(kept, part)
        return kept
    if parts[:1] and parts[0].startswith("--"):
        at = words.index(parts[0])
        return [*words[: at + 1], *parts[1:], *words[at + 2 :]]
    if parts and (cwd / parts[0]).exists():
        return [parts[0] if word == error.where else word.replace(f"={error.where}", f"={parts[0]}") for word in words]
    return None


def without(words: list[str], where: str) -> list[str]:
    """The command without the argument that an error names; of an option without its value too."""
    place = re.search(r"argument (\d+)|the command line: (.*)", where)
    if place is None:
        return words
    at = int(place[1]) if place[1] else next(n for n, word in enumerate(words) if word.startswith(place[2]))
    option = words[at].startswith("-") and "=" not in words[at] and len(words) > at + 1 and "=" not in words[at + 1]
    return words[:at] + words[at + 1 + option :]


def with_setting(words: list[str], part: str) -> list[str]:
    """The command with a setting, in the place of one with the same key; of the environment, as the first word."""
    key = part.partition("=")[0]
    if key in ("env", "env.type") and not any(word.startswith(f"{key}=") for word in words[2:]):
        return [words[0], part, *words[2:]]
    whole = SHORT.get(key, key)
    kept = [word for word in words if SHORT.get(word.partition("=")[0], word.partition("=")[0]) != whole]
    return [*kept, part]


def brief(words: list[str]) -> list[str]:
    """The command with settings by which a training ends soon, where it has none of its own."""
    if words[0] != "train":
        return words
    keys = {SHORT.get(word.partition("=")[0], word.partition("=")[0]) for word in words}
    return [*words, *(word for word in SOON if SHORT.get(word.partition("=")[0], word.partition("=")[0]) not in keys)]
