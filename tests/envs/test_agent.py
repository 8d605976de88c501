"""Environments whose episode is a program, without running one: ends, checks, and rows that a program plays."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gnomon.audit import audit
from gnomon.audit.subject import subject_of
from gnomon.envs import Agent, Dataset, End
from gnomon.envs.agent import launch_of
from gnomon.envs.base import identity, user
from gnomon.envs.check import check_env
from gnomon.envs.episodes import judge
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.rollout.programs import require_program
from gnomon.types import Status, Task

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "end",
    [
        End(status=0),
        End(status=-9, output="\udcff \x1b[31m", files={"a": b"1"}),
        End(status=None, limit="time", files={"b": b"\xff\x00", "a": b"2"}),
    ],
)
@pytest.mark.parametrize("before", [{}, {"a": b"1", "gone": b"x"}])
def test_an_end_is_the_same_when_read_again(end: End, before: dict[str, bytes]):
    text = end.dumps(before)
    assert End.loads(json.loads(json.dumps(text)), before) == end
    assert set(json.loads(text)["changed"]) == {name for name, data in end.files.items() if before.get(name) != data}


@pytest.mark.every
@pytest.mark.parametrize(
    "reply", ["", "text", "[1]", '{"status": 0}', '{"changed": 1, "removed": []}', "[" * 10**5, "NaN"]
)
def test_any_text_is_the_output_of_a_program_that_did_nothing_else(reply: str):
    assert End.loads(reply, {"a": b"1"}) == End(status=0, output=reply, files={"a": b"1"})


def test_the_prompt_is_an_argument_and_the_input():
    task = Task(id="0", messages=user("a 'b' $c"), answer=None)
    launch = launch_of("mini -t {prompt} -y 'two words'", task)
    assert launch.command == ("mini", "-t", "a 'b' $c", "-y", "two words") and launch.stdin == b"a 'b' $c"
    python, option, source = launch_of("", task).command
    assert (python, option) == ("python", "-c") and "bash" in source


@dataclass(frozen=True, kw_only=True)
class Written(Agent):
    """The answer is the content of a file."""

    def make(self, rng: random.Random) -> Task:
        number = rng.randint(10, 99)
        return Task(id=identity("copy", number), messages=user(f"Write {number}."), answer=number)

    def judge(self, task: Task, end: End) -> float:
        return end.text("out.txt").strip() == str(task.answer)

    def solution(self, task: Task) -> End:
        return End(status=0, files={"out.txt": str(task.answer).encode()})


def test_an_audit_writes_no_white_space_into_the_end_of_a_program():
    """It would not be the end of any program: the text is JSON."""
    report = audit(subject_of(Written(), count=9), axes=["invariance"])
    assert not report.findings and "invariance, white space" in report.skipped


def test_the_example_passes_the_checks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples/calculator"))
    sys.modules.pop("env", None)
    from env import Products  # type: ignore[import-not-found]

    report = check_env(Products(), tasks=40)
    assert report.passed, report
    assert len((ROOT / "examples/calculator/env.py").read_text().splitlines()) <= 40
    agent, task = Products(), Products().tasks("train")[0]
    assert isinstance(agent, Agent) and agent.verdict(task, agent.solution(task)).correct
    audited = subject_of(agent, count=9)
    assert audited.solution is not None
    assert all(judge(agent, each, audited.solution(each) or "").correct for each in audited.tasks)
    late = agent.verdict(task, End(status=None, limit="time"))
    assert late.status is Status.EXCEEDED and late.reward == 0


def test_what_a_program_prints_is_judged_as_a_reply_to_the_row(tmp_path: Path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{n}+1", "answer": str(n + 1)}) + "\n" for n in range(60)))
    env, plain = Dataset(path=str(rows), agent="python agent.py"), Dataset(path=str(rows))
    assert (env.max_turns, env.isolation, plain.max_turns, plain.isolation) == (16, ("session",), 1, ())
    task = env.tasks("train")[0]
    assert task == plain.tasks("train")[0]
    for output, status in ((f"<answer>{task.answer}</answer>\n", Status.CORRECT), ("", Status.NO_ANSWER)):
        step = env.start(task, Key(0)).step(End(status=1, output=output).dumps())
        assert step.verdict is not None and step.verdict.status is status
    over = env.start(task, Key(0)).step(End(status=None, limit="files").dumps()).verdict
    assert over is not None and over.status is Status.EXCEEDED


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("python agnt.py -x", "env.agent='python agent.py -x'"),
        ("missing {prompt}", "env.agent='/whole/path/of/missing {prompt}'"),
        ("python other/agnt.py", "env.agent='python /whole/path/of/agnt.py'"),
    ],
)
def test_a_program_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, fix: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text("")
    task = Task(id="0", messages=(), answer=None)
    with pytest.raises(ConfigError) as raised:
        require_program(launch_of(command, task), "env.agent", command)
    assert raised.value.code == "E525" and fix in str(raised.value) and str(tmp_path) in str(raised.value)
    for good in ("python agent.py", "python -m http", "sh -c ls", f"{sys.executable} -x", "python made.py"):
        launch = replace(launch_of(good, task), files={"made.py": b""})
        require_program(launch, "env.agent", good)
