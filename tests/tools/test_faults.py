"""Tools and sandboxes that hang, die and are killed while an actor plays: the rest goes on, and each is counted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gnomon.engines.scripted import Scripted
from gnomon.envs import Arithmetic
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout import Actor
from gnomon.tools import CalculatorTool, PythonTool, WithTools
from gnomon.types import Rollout, Sampling, Status, Stop
from sandbox.conftest import confined, descendants
from tools.faults import Stuck

TOKENIZER = Tokenizer(model_folder("tiny"))
ENV = WithTools(
    env=Arithmetic(), lent=(PythonTool(seconds=0.4, wall=2.0), CalculatorTool(), Stuck()), budget=3, brief=False
)
TASKS = [(index, ENV.tasks("train")[index]) for index in range(4)]


def played(script: Callable[[int, int], str], seconds: float = 1.0, **limits: float) -> list[Rollout]:
    """One rollout of each of four tasks. Args: script: what is said, by task and turn."""
    answers = {task.messages[-1].content: (index, task.answer) for index, task in TASKS}

    def say(prompt: str, key: bytes) -> str:
        index, answer = next(found for asked, found in answers.items() if prompt.startswith(asked))
        turn = prompt.count("\n<") - prompt.count("\n</")
        return script(index, turn) or f"<answer>{answer}</answer>"

    actor = Actor(
        ENV,
        TOKENIZER,
        Scripted(TOKENIZER, say),
        group=1,
        sampling=Sampling(max_tokens=120),
        workers=EnvWorkers(ENV, workers=2, seconds=seconds),
    )
    try:
        groups = asyncio.run(actor.collect(TASKS, Key(0)))
    finally:
        actor.workers.close()
    return [rollout for group in groups for rollout in group.rollouts]


def counts(rollout: Rollout) -> dict[str, float]:
    return {part.name: part.value for part in rollout.verdict.parts if part.weight == 0 and part.value}


def right(rollouts: list[Rollout], *places: int) -> None:
    """All but those at some places went on to their right answers."""
    for place, rollout in enumerate(rollouts):
        assert rollout.verdict.correct == (place not in places), (place, rollout.verdict)


@pytest.mark.parametrize("how", ["spin", "sleep"])
def test_a_tool_without_a_deadline_that_never_returns_is_ended_with_its_process(how):
    def script(index: int, turn: int) -> str:
        return f"<stuck>{how if index == 1 else 'go'}</stuck>" if turn == 0 else ""

    rollouts = played(script, seconds=0.3)
    right(rollouts, 1)
    assert rollouts[1].verdict.status is Status.EXCEEDED and rollouts[1].stop is Stop.EXCEEDED
    assert rollouts[1].verdict.reward == ENV.reward_range[0]
    assert [counts(rollout).get("calls") for rollout in rollouts] == [1, None, 1, 1]


def test_code_that_never_returns_is_told_so_and_counted():
    def script(index: int, turn: int) -> str:
        return (
            "<python>while True: pass</python>"
            if turn == 0 and index == 2
            else "<python>1</python>"
            if turn == 0
            else ""
        )

    rollouts = played(script, seconds=2.0)
    right(rollouts)
    assert [counts(rollout) for rollout in rollouts] == [
        {"calls": 1},
        {"calls": 1},
        {"calls": 1, "overtime": 1},
        {"calls": 1},
    ]


def test_a_sandbox_that_dies_under_its_code_is_told_and_counted():
    def script(index: int, turn: int) -> str:
        return ("<python>import os; os._exit(1)</python>", "<python>6*7</python>", "")[turn] if index == 0 else ""

    rollouts = played(script, seconds=2.0)
    right(rollouts)
    assert counts(rollouts[0]) == {"calls": 2, "ended": 1}
    assert [turn.messages[-1].content for turn in rollouts[0].turns[1:]][1] == "42"


@pytest.mark.skipif(os.geteuid() != 0, reason="only to root do sandboxes show by their user ids")
def test_a_session_that_is_killed_from_outside_is_told_and_counted():
    killed: list[int] = []

    def script(index: int, turn: int) -> str:
        if index != 3 or turn > 1:
            return ""
        if turn == 1:
            for pid in confined(descendants()):
                with suppress(ProcessLookupError):  # It went with another one.
                    os.kill(pid, 9)
                    killed.append(pid)
        return f"<python>x = {turn}</python>"

    rollouts = played(script, seconds=2.0)
    right(rollouts)
    assert killed
    # It may be played again, from what was said, in the other process: there its sandbox lives.
    assert counts(rollouts[3]) in ({"calls": 2, "ended": 1}, {"calls": 2})


def test_a_worker_that_is_killed_takes_its_sandboxes_along_and_the_episode_is_played_again():
    killed: list[int] = []

    def script(index: int, turn: int) -> str:
        if turn == 1 and not killed:
            for pid in workers():
                os.kill(pid, 9)
                killed.append(pid)
        return ("<python>x = 6</python>", "<python>print(x * 7)</python>", "")[turn] if index == 0 else ""

    rollouts = played(script, seconds=2.0)
    right(rollouts)
    assert killed and counts(rollouts[0]) == {"calls": 2}
    assert rollouts[0].turns[2].messages[0].content == "42"


def workers() -> list[int]:
    """The environment workers' own processes, which lead sessions and are Python, outside of sandboxes."""
    found = []
    for pid in descendants() - set(confined(descendants())):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"gnomon.workers.worker" in words and int(fields[3]) == pid:
            found.append(pid)
    return found
