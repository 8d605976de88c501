"""`gnomon audit` as CI calls it: its exit codes, its files, and the run that it stops."""

import json
import subprocess
from pathlib import Path

import pytest

import gnomon
from commands import command, interpreter
from gnomon.errors import ConfigErrors
from gnomon.store import RunReader

LOOSE = """
from gnomon.envs import Arithmetic


class Loose(Arithmetic):
    def check(self, task, answer):
        return str(task.answer) in answer
"""
BOXED = """
import re

from gnomon.types import Part, Status, Verdict


class Boxed:
    reward_range = (0.0, 1.0)

    def verify(self, task, reply):
        said = reply.rpartition("</think>")[2]
        found = re.findall(r"\\\\boxed\\{([^{}]{1,20})\\}", said[-2000:])
        right = "<think>" not in said and len(found) == 1 and found[0].strip() == str(task.answer)
        status = Status.CORRECT if right else Status.WRONG
        return Verdict(status=status, parts=(Part(name="correct", value=float(right)),))
"""


def gnomon_audit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("audit", *words, cwd=folder)


@pytest.mark.long
def test_a_fault_exits_1_and_leaves_its_files(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text(LOOSE)
    done = gnomon_audit(
        tmp_path, "loose.py:Loose", "--tasks", "12", "--sarif", "a.sarif", "--repro", "repros", "--json"
    )
    assert done.returncode == 1, done.stderr
    body = json.loads(done.stdout)
    rules = {finding["rule"] for finding in body["findings"] if finding["severity"] == "blocking"}
    assert "correctness.hedge_accepted" in rules and body["passed"] is False
    sarif = json.loads((tmp_path / "a.sarif").read_text())
    assert {result["ruleId"] for result in sarif["runs"][0]["results"]} >= rules
    script = tmp_path / "repros" / "correctness.hedge_accepted.py"
    again = interpreter(str(script))
    assert again.returncode == 1 and "correct" in again.stdout, again.stderr
    words = [word for rule in rules for word in ("--ack", rule)]
    accepted = gnomon_audit(tmp_path, "loose.py:Loose", "--tasks", "12", *words)
    assert accepted.returncode == 0 and "acknowledged  correctness.hedge_accepted" in accepted.stdout


def test_a_bare_verifier_with_a_file_of_tasks_exits_0(tmp_path: Path) -> None:
    """No solution is given: how an answer stands in a reply is found by trying."""
    (tmp_path / "boxed.py").write_text(BOXED)
    lines = [json.dumps({"prompt": f"{n} + {n + 30}?", "answer": 2 * n + 30}) for n in range(20)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    done = gnomon_audit(tmp_path, "boxed.py:Boxed", "--tasks", "tasks.jsonl", "--json")
    body = json.loads(done.stdout)
    assert done.returncode == 0, [f for f in body["findings"] if f["severity"] == "blocking"]
    assert body["tables"]["errors"]["right answers refused"] == {
        "value": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.161, abs=0.001),
        "n": 20,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cuntdown"], "E021"),
        (["boxed.py:Boxed"], "E120"),
        (["boxed.py:Boxed", "--tasks", "none.jsonl"], "E122"),
        (["countdown", "largst=3"], "E123"),
    ],
)
def test_a_mistake_exits_2(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "boxed.py").write_text(BOXED)
    done = gnomon_audit(tmp_path, *words)
    assert done.returncode == 2 and said in done.stderr and "fix:" in done.stderr, done.stderr


def test_a_run_is_stopped_by_what_blocks_and_keeps_a_receipt(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text(LOOSE)
    small = {"steps": 1, "prompts": 2, "group": 2, "max_tokens": 32, "eval": {"tasks": 2, "samples": 1, "pass_at": [1]}}
    env = f"{tmp_path / 'loose.py'}:Loose"
    with pytest.raises(ConfigErrors, match="E124") as stopped:
        gnomon.train(env, run=tmp_path / "one", quiet=True, **small)
    rules = [str(error.what).partition(":")[0] for error in stopped.value.errors]
    assert "correctness.hedge_accepted" in rules and not (tmp_path / "one").exists()
    gnomon.train(env, run=tmp_path / "two", quiet=True, audit={"acknowledge": rules}, **small).close()
    with RunReader(tmp_path / "two") as reader:
        receipt = reader.manifest["audit"]
    assert receipt["acknowledged"] == sorted(rules) and receipt["blocking"] == len(rules)
