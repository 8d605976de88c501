"""`gnomon audit` as CI calls it: its exit codes, its files, and the run that it stops."""

import json
import subprocess
from pathlib import Path

import pytest

import gnomon
from commands import command, interpreter
from gnomon.audit.text import card_text
from gnomon.errors import ConfigErrors
from gnomon.run.solving import Solving
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


def test_the_card_says_what_a_right_reply_of_a_policy_costs(tmp_path: Path) -> None:
    done = gnomon_audit(tmp_path, "arithmetic", "--tasks", "6", "--policy", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)["tables"]["card"]
    assert card["policy"] == "tiny" and card["replies"] == 256 and 50 < card["right replies"] < 200
    each, verdict = card["seconds per right reply"], card["milliseconds per verdict, median"]
    assert each > 0 and card["solve-to-verify ratio"] == pytest.approx(1000 * each / verdict)


def test_a_card_without_a_right_reply_has_no_ratio() -> None:
    card = {
        "milliseconds per verdict, median": 2.0,
        "milliseconds per verdict, slowest of 100": 3.0,
        "agreement on hostile texts": 1.0,
        "share of rewards between lowest and highest": 0.0,
    }
    assert Solving(policy="tiny", replies=8, right=4, seconds=2.0).on(card)["solve-to-verify ratio"] == 250.0
    never = Solving(policy="tiny", replies=8, right=0, seconds=2.0).on(card)
    assert never["solve-to-verify ratio"] is None and card_text(never).endswith("no reply of tiny (0 of 8 are right)")


def test_a_policy_that_is_not_there_is_named_before_the_audit(tmp_path: Path) -> None:
    done = gnomon_audit(tmp_path, "arithmetic", "--tasks", "6", "--policy", "nowhere")
    assert done.returncode == 2 and "nowhere" in done.stderr and "Traceback" not in done.stderr
