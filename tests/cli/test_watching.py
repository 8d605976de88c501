"""`gnomon ls`, `gnomon tail`, completion, and runs shown in notebooks."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

import gnomon
from commands import command
from gnomon.commands import completion
from gnomon.commands.reading import duration
from gnomon.reading.tail import follow
from gnomon.store import Record, Run, RunReader, RunStatus
from gnomon.store.attempts import Source
from gnomon.types import Completion, Finish, Group, Message, Part, Rollout, Status, Stop, Task, Turn, Verdict

HOSTILE = "<script>alert(1)</script> [red]x[/red] \x1b[31m \u202e"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    above = tmp_path_factory.mktemp("runs")
    settings = {"rollout": {"prompts": 2, "group": 2, "max_tokens": 16}, "eval": {"tasks": 2}, "threads": 1}
    gnomon.train("char_count", run=above / "deep" / "a", quiet=True, steps=2, **settings).close()
    (above / "broken").mkdir()
    (above / "broken" / "journal.db").write_text("no database")
    return above


def test_ls_lists_runs_and_those_that_cannot_be_read(runs):
    lines = command("ls", str(runs)).stdout.splitlines()
    assert len(lines) == 2 and lines[0].startswith("broken") and "error[E40" in lines[0]
    for word in ("deep/a", "finished", "2/2 steps", "pass@1 ", " to ", "char_count", " ago"):
        assert word in lines[1]
    rows = json.loads(command("ls", str(runs), "--json").stdout)
    assert rows[1]["steps"] == 2 and rows[1]["seconds"] < 600 and "error" in rows[0]
    for path in (runs / "deep" / "a").glob("journal.db*"):
        if not path.name.endswith("-shm"):
            os.utime(path, (0, time.time() - 3 * 3600))
    assert "3 h ago" in command("ls", str(runs)).stdout  # Not since the last command that read it.
    assert "no runs" in command("ls", str(runs / "deep" / "a" / "checkpoints")).stdout
    assert "error[E404]" in command("ls", str(runs / "absent")).stderr


def test_an_age_has_one_unit():
    assert [duration(s) for s in (0.4, 119, 121, 7200, 200000)] == ["0 s", "119 s", "2 min", "2 h", "2 days"]


def test_tail_of_a_finished_run(runs):
    run = str(runs / "deep" / "a")
    lines = command("tail", run).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "baseline after 0 steps", "step 0", "step 1", "evaluation after 2 steps", "finished: 2 steps"
    ]  # fmt: skip
    with RunReader(run) as reader:
        assert f"reward {reader.metrics()[1]['metrics']['reward']:.4g}" in lines[2]
        reply = reader.rollout_rows(1)[0]
    short = command("tail", run, "--last", "1", "--texts", "1").stdout.splitlines()
    assert short[0].startswith("step 1") and short[1].split()[0] == f"1:{reply.task}:0"
    assert command("tail", run, "-n", "0").stdout.splitlines()[0].startswith("evaluation")


def test_tail_follows_a_run_that_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("gnomon.reading.tail.SECONDS", 0.01)
    step = lambda n, reward: Record(kind="step", step=n, body={"metrics": {"reward": reward}, "statuses": {}})  # noqa: E731
    seen: list[str] = []
    three, again = threading.Event(), threading.Event()

    def read() -> None:
        for line in follow(tmp_path / "r"):
            seen.append(line)
            if line.startswith("step 2"):
                three.set()
            if line.startswith("the run went back"):
                again.set()

    with Run.create(tmp_path / "r", recipe="", manifest={}, genesis={}, varies="it may") as run:
        run.append([step(0, 0.1)])
        thread = threading.Thread(target=read)
        thread.start()
        run.append([step(1, 0.2), step(2, 0.3)])
        assert three.wait(10)
        run.tolerate = frozenset(Source)
        run.rewind(2)
        run.append([step(1, 0.25), step(2, 0.35)])
        assert again.wait(10)
        run.set_status(RunStatus.FINISHED)
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [
        "step 0  reward 0.1", "step 1  reward 0.2", "step 2  reward 0.3",
        "the run went back to step 1; its older records are kept as an attempt",
        "step 1  reward 0.25", "step 2  reward 0.35", "finished: 3 steps",
    ]  # fmt: skip


def test_tail_stops_quietly_on_an_interrupt(runs, monkeypatch):
    from typer.testing import CliRunner

    from gnomon.cli import app

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gnomon.reading.tail.follow", interrupted)
    done = CliRunner().invoke(app, ["tail", str(runs / "deep" / "a")])
    assert done.exit_code == 130 and done.output == ""


def hostile_group() -> Group:
    task = Task(id="t", messages=(Message(role="user", content=HOSTILE),), answer=HOSTILE)
    completion = Completion(token_ids=(1,), logprobs=(-1.0,), text=HOSTILE, finish=Finish.EOS, version=0)
    turn = Turn(prompt_ids=(), completion=completion, messages=task.messages)
    verdict = Verdict(status=Status.WRONG, parts=(Part(name=HOSTILE, value=0.5),), detail=HOSTILE)
    return Group(
        task=task, index=3, rollouts=(Rollout(task=task, sample=0, turns=(turn,), verdict=verdict, stop=Stop.DONE),)
    )


@pytest.mark.parametrize("pick", ["run", "group", "rollout"])
def test_a_notebook_and_a_terminal_show_it_as_text(runs, pick):
    group = hostile_group()
    with RunReader(runs / "deep" / "a") as reader:
        shown = {"run": reader, "group": group, "rollout": group.rollouts[0]}[pick]
        html, out = shown._repr_html_(), io.StringIO()
        Console(file=out, force_terminal=True, color_system=None, width=200).print(shown)
        written = out.getvalue()
    assert html.startswith("<table>") and "<script" not in html and "\x1b" not in html and "\u202e" not in html
    if pick == "run":
        assert "finished" in html and "pass@1" in written and "fingerprint" in written
        return
    assert "&lt;script&gt;" in html and "[red]x[/red]" in written and "\\x1b[31m" in written
    assert "\x1b[31m" not in written and "0.5" in html and "wrong" in written


def test_long_texts_of_a_group_are_shortened():
    from gnomon.notebook import excerpt

    assert excerpt("a" * 400) == "a" * 400 and excerpt("a" * 300 + "b" * 300) == "a" * 200 + " … " + "b" * 200


def test_what_a_shell_completes(runs, monkeypatch):
    monkeypatch.chdir(runs)
    (runs / "recipe.toml").write_text("")
    assert completion.env_names("char") == ["char_count"]
    assert completion.trainable("rec") == ["recipe.toml"] and completion.trainable("dee") == ["deep/"]
    assert completion.run_folders("deep/") == ["deep/a"] and completion.run_folders("absent/") == []
    assert completion.settings("rollout.gr") == ["rollout.group="]
    assert completion.settings("objective=dr_") == ["objective=dr_grpo"]
    assert completion.settings("env=countd") == ["env=countdown"] and completion.settings("seed=1") == []
    assert "wandb" in completion.tracker_names("") and "grpo" in completion.objective_names("grpo")


def test_the_shell_asks_the_command():
    asked = {"_GNOMON_COMPLETE": "complete_bash", "COMP_WORDS": "gnomon exact dr_", "COMP_CWORD": "2"}
    assert command(env=asked).stdout.split() == ["dr_grpo"]
