"""The rollouts of one task at one step side by side, with the first place where each differs from one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.reading.address import Address, rollout_records, task_at
from gnomon.reading.reasons import advantage_reason, verdict_reason
from gnomon.store import Record, RunReader

__all__ = ["columns", "group_facts"]

CONTEXT = 400
"""Characters that are shown of what a reply shares with the one it is compared with."""
SHOWN = 3000
"""Characters that are shown from the first difference on."""
WORD = re.compile(r"\s*\S+|\s+")


def group_facts(reader: RunReader, address: Address, base: int | None) -> dict[str, Any]:
    """What the page of a group shows.

    Args: base: the sample that the others are compared with; the first one where the group has no such sample.
    Raises: RunError E409 where the run has no such group.
    """
    records = list(rollout_records(reader, address))
    if not records:
        raise reader.absent(address.kind, address.step, address.task)
    task_body = task_at(reader, address)
    reference = next((record for record in records if record.sample == base), records[0])
    rewards = [float(record.body["reward"]) for record in records if record.body["reward"] is not None]
    return {
        "asked": task_body,
        "base": reference.sample,
        "mean": sum(rewards) / len(rewards) if rewards else None,
        "advantage": advantage_reason(reference.body, rewards, held_out=address.kind != "rollout"),
        "columns": columns(records, reference, task_body),
    }


def columns(records: Sequence[Record], base: Record, task_body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One per rollout: its numbers, and its reply cut where it first differs from the reply of `base`."""
    return [
        {
            "sample": record.sample,
            "is_base": record is base,
            "player": record.body.get("player", 0),
            "advantage": record.body.get("advantage"),
            "why": verdict_reason(record.body, task_body),
            **{name: record.body[name] for name in ("reward", "status", "tokens", "finish")},
            **split_at_difference(record.body["reply"], record.body["reply"] if record is base else base.body["reply"]),
        }
        for record in records
    ]


def split_at_difference(reply: str, base: str) -> dict[str, Any]:
    """A reply in three parts: what it shares with another one, the word at which it differs, and the rest."""
    if reply == base:
        return {"equal": True, "shared": reply[:SHOWN], "word": "", "rest": "", "left_out": max(0, len(reply) - SHOWN)}
    at = common_length(reply, base)
    word = WORD.match(reply, at, at + SHOWN)
    end = word.end() if word else at
    return {
        "equal": False,
        "shared": ("… " if at > CONTEXT else "") + reply[max(0, at - CONTEXT) : at],
        "word": reply[at:end] or "(ends here)",
        "rest": reply[end : at + SHOWN],
        "left_out": max(0, len(reply) - at - SHOWN),
    }


def common_length(a: str, b: str) -> int:
    """Number of characters at the beginning that two texts share, by bisection: a text may be very long."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low
