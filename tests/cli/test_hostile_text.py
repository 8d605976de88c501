"""What others wrote reaches a terminal as visible text alone, whichever field of whichever command it stands in."""

from __future__ import annotations

import ast
import contextlib
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.cli import main
from gnomon.errors import ConfigError
from gnomon.store import Record, Run, Source
from gnomon.terminal import one_line, printable

HOSTILE = "A\x1b[31;5mB\x1b]0;owned\x07\x9b2JC\u202eD\u2066E\u200bF\rG\x08\x7f\u2028[red]H[/red]\ud800\tI\nJ"
SOURCE = Path(gnomon.__file__).parent


def safe(text: str) -> bool:
    """Whether nothing in a text acts on a terminal."""
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in text)


def test_every_sign_that_acts_is_written_out():
    text = printable(HOSTILE)
    assert safe(text) and not safe(HOSTILE)
    for escaped in (
        "\\x1b[31;5m",
        "\\x07",
        "\\x9b2J",
        "\\u202e",
        "\\u2066",
        "\\u200b",
        "\\r",
        "\\x08",
        "\\x7f",
        "\\u2028",
    ):
        assert escaped in text, escaped
    assert "[red]H[/red]" in text and text.endswith("\nJ") and "\n" not in one_line(HOSTILE)
    assert safe(printable("".join(map(chr, range(0x110000)))))
    assert printable("é 中 ∑ 👍\n") == "é 中 ∑ 👍\n"


def test_nothing_prints_what_is_not_made_printable():
    """Every `print` of the package is that of `put`, or writes what the package itself made."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert found <= {
        "terminal.py",
        "conformance/serve.py",
        "tiny_policy/build.py",
        "sandbox/run.py",
        "envs/shell_loop.py",
        "engines/vllm/worker.py",
    }


KEPT = ("kind", "of", "gate", "logprobs", "metrics", "statuses", "token_ids", "prompt_ids")
"""Fields that a reader computes with, or finds records by."""


def hostile(value: Any) -> Any:
    """The same plain values with every text made hostile."""
    if isinstance(value, str):
        return value + HOSTILE.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: each if key in KEPT else hostile(each) for key, each in value.items()}
    return [hostile(each) for each in value] if isinstance(value, list) else value


def spoilt(record: Record) -> dict[str, Any]:
    """Its body with hostile texts; a rollout that was trained on keeps its status, which alarms compute with."""
    kept = (*KEPT, "status") if record.kind == "rollout" else KEPT
    return {key: value if key in kept else hostile(value) for key, value in record.body.items()}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of two steps, and one like it whose every text is hostile."""
    home = tmp_path_factory.mktemp("hostile")
    small = {"prompts": 3, "group": 3, "max_tokens": 8}
    gnomon.train(
        "char_count", run=home / "good", quiet=True, threads=1, steps=2, rollout=small, eval={"tasks": 2}
    ).close()
    from gnomon.store import RunReader

    with RunReader(home / "good") as reader:
        records = [
            Record(kind=r.kind, step=r.step, task=r.task, sample=r.sample, body=r.body) for r in reader.records()
        ]
        genesis, *rest = records
        bad = Run.create(
            home / "bad",
            recipe=reader.recipe,
            manifest=hostile(reader.manifest) | {"signed": reader.manifest["signed"]},
            genesis={**genesis.body, "note": hostile("x")},
            varies=hostile("it varies"),
        )
    with bad:
        made = []
        for record in rest:
            body = spoilt(record)
            if record.kind == "step":
                body["metrics"] = {**body["metrics"], **{f"part/{hostile('p')}": 1.0, f"return/{hostile('p')}": 1.0}}
            made.append(Record(kind=record.kind, step=record.step, task=record.task, sample=record.sample, body=body))
        bad.append(made)
        bad.note("alarm", {"name": hostile("a"), "step": 1, "sentence": hostile("b"), "read": [hostile("1:2")]})
        bad.set_aside([made[-2]], hostile("it failed"))
        bad.tolerate = frozenset(Source)
        bad.set_status("failed", hostile("because"))
    return home / "good", home / "bad"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What a command prints, and what it complains of."""

    def run(*words: str) -> tuple[str, str]:
        monkeypatch.setattr("sys.argv", ["gnomon", *words])
        with contextlib.suppress(SystemExit):
            main()
        return capfd.readouterr()

    return run


def test_every_field_of_every_reading_command(folders, told):
    good, bad = map(str, folders)
    rows = json.loads(told("show", bad, "0", "--json")[0])
    held_out = json.loads(told("show", bad, "held-out:0", "--json")[0])
    reads = [
        ["show", bad],
        ["show", bad, "0"],
        ["show", bad, rows[0]["address"]],
        ["show", bad, held_out[0]["address"]],
        ["show", bad, "9"],
        ["show", bad, HOSTILE.replace("\x00", "").encode("utf-8", "replace").decode()],
        ["diff", good, bad],
        ["diff", bad, good],
        ["alarms", bad, "--trust"],
        ["replay", bad, "--trust"],
        ["rank", bad],
        ["verify", bad],
    ]
    seen = ""
    for words in reads:
        text = "".join(told(*words))
        assert safe(text), (words, [c for c in text if not safe(c)])
        assert "Traceback" not in text, (words, text)
        seen += text
    assert seen.count("\\x1b[31;5m") > 20


ENV = """
from dataclasses import dataclass
from gnomon.envs import SingleTurn, identity
from gnomon.types import Message, Task, Verdict, Part, Status
BAD = {bad!r}

@dataclass(frozen=True, kw_only=True)
class Bad(SingleTurn):
    def make(self, rng):
        n = rng.randint(0, 10**6)
        return Task(id=identity("bad", n), messages=(Message(role="user", content=BAD),), answer=BAD + str(n))

    def check(self, task, answer):
        if "raise" in answer:
            raise RuntimeError(BAD)
        return answer == task.answer

    def solution(self, task):
        return task.answer
"""


def test_every_field_of_an_environment(tmp_path, told):
    file = tmp_path / "bad.py"
    file.write_text(ENV.format(bad=HOSTILE.replace("\ud800", "")))
    for words in (
        ["check", f"{file}:Bad"],
        ["audit", f"{file}:Bad", "--tasks", "4"],
        ["train", f"{file}:Bad", f"run={tmp_path}/r"],
    ):
        assert safe("".join(told(*words))), words


def test_every_field_of_an_error():
    bad = HOSTILE
    assert safe(str(ConfigError("E001", bad, where=bad, why=bad, fix=bad)))


def test_a_person_at_play_sees_visible_text(monkeypatch, capsys):
    from gnomon.envs import CharCount
    from gnomon.envs.play import play

    env = CharCount()
    task = env.tasks("train")[0]
    monkeypatch.setattr(type(env), "tasks", lambda self, split: [gnomon_task(task)])
    play(env, 0, read=lambda prompt: HOSTILE)
    assert safe(capsys.readouterr().out)


def gnomon_task(task):
    from dataclasses import replace

    from gnomon.types import Message

    return replace(task, id=HOSTILE, messages=(Message(role="user", content=HOSTILE),))


def test_the_live_display_shows_visible_text(capsys):
    from gnomon.config import RunConfig
    from gnomon.run.display import Display

    display = Display(RunConfig.model_validate({"env": {"type": "char_count"}}))
    with display:
        display.message(HOSTILE)
    assert safe(capsys.readouterr().out)
