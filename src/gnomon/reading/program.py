"""What a program did in an episode: the branches of its calls, and how it ended."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gnomon.envs.agent import LOST
from gnomon.terminal import one_line, printable
from gnomon.types import Calls, Turn

__all__ = ["beside", "ending", "origin", "parents", "program_facts", "program_text", "tree"]


def program_facts(end: str, turns: Sequence[Turn], calls: Calls | None = None) -> dict[str, Any]:
    """Args: end, calls: as in `Rollout`."""
    value = json.loads(end)
    return {
        "status": value["status"],
        "limit": value["limit"],
        "output": value["output"],
        "changed": {name: listing(data) for name, data in value["changed"].items()},
        "removed": value["removed"],
        "parents": parents(turns),
        "branches": len({turn.fork for turn in turns}),
        "calls": list(beside(calls or Calls())),
    }


def parents(turns: Sequence[Turn]) -> list[int | None]:
    """For each turn, the earlier turn that it continues, token for token; None for one that begins anew."""
    result = list[int | None]()
    for i, turn in enumerate(turns):
        lengths = dict[int, int]()
        for earlier, other in enumerate(turns[:i]):
            whole = other.prompt_ids + other.completion.token_ids
            if turn.prompt_ids[: len(whole)] == whole:
                lengths[earlier] = len(whole)
        result.append(max(lengths, key=lengths.__getitem__, default=None))
    return result


def listing(data: str | Mapping[str, str]) -> str:
    if isinstance(data, str):
        return data
    size = len(b64decode(data["base64"]))
    return f"{size} byte{'' if size == 1 else 's'}, not text"


def beside(calls: Calls) -> Iterator[str]:
    """Yield what happened to calls beside the turns, in words."""
    if calls.refused:
        reasons = ", ".join(f"{one_line(code)} {count}" for code, count in calls.refused.items())
        yield f"calls refused: {reasons}"
    for words, count in (
        ("replies with a tool call that cannot be read", calls.malformed),
        ("replies without a legal action", calls.illegal),
        ("calls that demanded a tool call and got a free reply", calls.required),
        ("calls repeated by the client", calls.retried),
        ("sampled tokens that the program never received", calls.undelivered),
    ):
        if count:
            yield f"{words}: {count}"


def program_text(facts: Mapping[str, Any]) -> Iterator[str]:
    """How the program ended, its output and the files that it changed."""
    yield f"--- program: {'; '.join([ending(facts), *facts['calls']])}"
    if facts["output"]:
        yield printable(facts["output"])
    for name, text in facts["changed"].items():
        yield f"--- file {one_line(name)}"
        yield printable(text)
    if facts["removed"]:
        yield f"--- removed: {', '.join(map(one_line, facts['removed']))}"


def ending(facts: Mapping[str, Any]) -> str:
    """How the program ended, in words."""
    if facts["limit"] == LOST:
        return "its sandbox ended by itself"
    if facts["limit"]:
        return f"the limit of {facts['limit']} ended it"
    return f"exit status {facts['status']}"


def origin(facts: Mapping[str, Any], index: int) -> str:
    """Where a turn comes from, unless it continues the turn before."""
    parent = facts["parents"][index]
    if parent == index - 1 or not index:
        return ""
    return "a new conversation" if parent is None else f"continues turn {parent + 1}"


def tree(facts: Mapping[str, Any]) -> Iterator[tuple[int, list[int]]]:
    """Yield the branches: depth, and the turns that continue one another."""
    parents, depths, run = facts["parents"], dict[int, int](), list[int]()
    for i, parent in enumerate(parents):
        if i and parent == i - 1:
            run.append(i)
            depths[i] = depths[i - 1]
            continue
        if run:
            yield depths[run[0]], run
        depths[i], run = 0 if parent is None else depths[parent] + 1, [i]
    if run:
        yield depths[run[0]], run
