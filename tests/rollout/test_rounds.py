"""Rounds: what is sampled together, and in which order, does not depend on what takes long."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from commands import command
from gnomon.rollout.rounds import Rounds
from gnomon.store import RunReader
from models.seeing import seeing

WORDS = ["threads=1", "steps=2", "prompts=4", "group=4", "rollout.max_tokens=8", "eval.tasks=4", "save.every=1"]
MAZE = ["env.cells=2", "env.spare=0"]


def batches(seed: int, rounds: Callable[[], Rounds | None], episodes: int = 6, room: int = 6) -> list[list[bytes]]:
    """What comes together, where episode n asks 1 + n % 3 times, and every step between takes as long as is drawn."""
    found, rng, begun = [list[bytes]()], random.Random(seed), rounds()

    async def play(n: int, running: asyncio.Semaphore) -> None:
        async with running:
            for turn in range(1 + n % 3):
                for _ in range(rng.randrange(20)):
                    await asyncio.sleep(0)
                key = bytes([turn, n])
                if begun:
                    await begun.join(key)
                if not found[-1]:
                    asyncio.get_running_loop().call_soon(found.append, [])
                found[-1].append(key)
            if begun:
                begun.leave()

    async def all_of_them() -> None:
        running = asyncio.Semaphore(room)
        await asyncio.gather(*(play(n, running) for n in range(episodes)))

    asyncio.run(asyncio.wait_for(all_of_them(), 20))
    return [batch for batch in found if batch]


def test_a_round_has_the_next_request_of_every_unfinished_episode_in_one_order() -> None:
    expected = [[bytes([turn, n]) for n in range(6) if n % 3 >= turn] for turn in range(3)]
    assert all(batches(seed, lambda: Rounds(6, 6)) == expected for seed in range(20))
    assert batches(0, lambda: None) != expected


@pytest.mark.parametrize("room", [1, 2, 4])
def test_episodes_that_have_no_room_yet_join_a_later_round(room: int) -> None:
    found = [batches(seed, lambda: Rounds(6, room), room=room) for seed in range(20)]
    assert all(each == found[0] for each in found) and max(map(len, found[0])) == room
    assert sorted(chain(*found[0])) == sorted(bytes([turn, n]) for n in range(6) for turn in range(1 + n % 3))


SEEING = pytest.mark.needs("PIL")


@pytest.fixture(params=["text", pytest.param("an image", marks=SEEING), pytest.param("several images", marks=SEEING)])
def words(request: Any, tmp_path: Path) -> list[str]:
    """A recipe whose policy computes by its own forward."""
    if request.param == "text":
        return ["char_count", "policy.attention=transformers", *WORDS]
    env = {"an image": ["count_shapes"], "several images": ["maze", *MAZE]}
    return [*env[request.param], f"policy={seeing(tmp_path / 'llava', 'llava')}", *WORDS]


def test_a_killed_run_by_the_models_own_forward_goes_on_to_the_bytes_of_a_whole_one(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repeats two steps before it is killed, and begins the third anew: its finished episodes are not kept."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = command("train", *words, f"run={whole}")
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("GNOMON_FAILPOINT", "append:before-commit:3")
    assert command("train", *words, f"run={killed}").returncode == -signal.SIGKILL
    monkeypatch.delenv("GNOMON_FAILPOINT")
    assert not (killed / "unfinished").exists() and command("resume", str(killed)).returncode == 0
    with RunReader(whole) as one, RunReader(killed) as other:
        assert one.fingerprint == other.fingerprint
