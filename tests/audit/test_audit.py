"""The audit passes what ships, finds each planted defect by its rule, and its scripts show the fault."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audit.defects import DEFECTS, EmptySlotPays, Sound, ToolBonus
from envs.test_check import Guessing
from gnomon.audit import AXES, Severity, audit, preflight, read_tasks, subject_of
from gnomon.audit.corpus import hostile_calls
from gnomon.audit.expressions import broken_rules
from gnomon.audit.frame import Frame, learnt
from gnomon.audit.reach import Reach
from gnomon.audit.sentinels import best_without_correct, paid_parts
from gnomon.audit.text import report_text, sarif
from gnomon.envs import ENVS, Countdown
from gnomon.errors import ConfigError
from gnomon.types import Message, Task

TASKS = 24
"""Enough for every defect that is planted here; a whole audit takes 200."""


def run_script(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=path.parent)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_and_its_script_shows_it(name: str, tmp_path: Path) -> None:
    kind, rule = DEFECTS[name]
    tasks = 200 if rule == "search.decimal_splice" else TASKS  # One task in thirty can be spliced.
    report = audit(subject_of(kind(), count=tasks), axes=[rule.partition(".")[0]])
    found = {finding.rule: finding for finding in report.findings}
    assert rule in found, report_text(report)
    assert found[rule].severity is Severity.BLOCKING and not report.passed
    script = tmp_path / "repro.py"
    script.write_text(found[rule].repro, "utf-8")
    done = run_script(script)
    assert done.returncode == 1, found[rule].repro + done.stdout + done.stderr
    assert done.stdout.strip() and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["an empty slot pays", "seeds the process"])
def test_the_script_is_content_when_the_fault_is_gone(name: str, tmp_path: Path) -> None:
    kind, rule = DEFECTS[name]
    report = audit(subject_of(kind(), count=TASKS), axes=[rule.partition(".")[0]])
    text = next(finding.repro for finding in report.findings if finding.rule == rule)
    script = tmp_path / "repro.py"
    script.write_text(text.replace(f"'{kind.__name__}'", "'Sound'"), "utf-8")
    done = run_script(script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_one_they_depart_from_is_clean() -> None:
    report = audit(subject_of(Sound(), count=TASKS))
    assert report.passed and {f.rule for f in report.findings} == set(), report_text(report)


def test_several_turns_without_a_solution_raise_no_alarm() -> None:
    """Hidden numbers behind one prompt are different tasks, and a part that only a win pays is not loose change."""
    report = audit(subject_of(Guessing(), count=12), axes=["exploit", "determinism", "sentinels"])
    assert report.findings == () and report.tables["breakdown"]["turns"] == 3, report_text(report)


def test_an_audit_repeats_itself() -> None:
    one, two = (audit(subject_of(EmptySlotPays(), count=TASKS), axes=["exploit", "search"]) for _ in range(2))
    assert one.hash == two.hash and [f.what for f in one.findings] == [f.what for f in two.findings]
    assert one.tables["lazy"] == two.tables["lazy"] and one.tables["search"] == two.tables["search"]


def test_what_is_acknowledged_is_told_and_does_not_block() -> None:
    report = audit(subject_of(EmptySlotPays(), count=TASKS), axes=["exploit"])
    rules = {finding.rule for finding in report.blocking}
    accepted = report.acknowledging(rules)
    assert rules and accepted.passed and len(accepted.findings) == len(report.findings)
    assert accepted.receipt()["acknowledged"] == sorted(rules) and "acknowledged" in report_text(accepted)
    assert accepted.hash != report.hash
    assert report.acknowledging(["exploit"]).passed, "an axis stands for all of its rules"


def test_five_tool_calls_pay_five_and_being_right_pays_one() -> None:
    """The arithmetic is told before training; the same bonus small enough is a note."""
    report = audit(subject_of(ToolBonus(), count=TASKS), axes=["exploit", "sentinels"])
    assert {"sentinels.parts_outpay", "exploit.chant"} <= {finding.rule for finding in report.blocking}
    assert report.tables["breakdown"]["best without being right"] == 5
    small = audit(subject_of(ToolBonus(bonus=0.01), count=TASKS), axes=["exploit", "sentinels"])
    assert small.passed and small.tables["breakdown"]["best without being right"] == pytest.approx(0.05)


def test_a_gate_that_stays_shut_pays_nothing() -> None:
    report = audit(subject_of(replace(Sound(), format=5.0, gate="correct"), count=TASKS), axes=["exploit", "sentinels"])
    assert report.passed and report.tables["breakdown"]["best without being right"] == 0
    assert best_without_correct(paid_parts([])) == (0, "nothing")


def test_an_axis_that_is_acknowledged_is_not_tried_before_a_run() -> None:
    env = EmptySlotPays()
    tried, accepted = (preflight(env, acknowledge=names) for names in (["exploit.empty_slot"], ["exploit"]))
    assert [each.rule for each in tried.findings if each.acknowledged] == ["exploit.empty_slot"]
    assert not [each for each in accepted.findings if each.axis == "exploit"] and accepted.passed


def test_the_preflight_is_quick_and_leaves_a_receipt() -> None:
    report = preflight(ENVS["countdown"]())
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert report.seconds < 6 * crowd, "under 3 s on an idle core; processes that share a core take turns"
    receipt = json.loads(json.dumps(report.receipt()))
    assert receipt["blocking"] == 0 and len(receipt["hash"]) == 64 and receipt["acknowledged"] == []
    assert preflight(ENVS["countdown"]()).seconds == report.seconds, "an environment is tried once in a process"


def test_sarif_has_the_shape_that_readers_want() -> None:
    report = audit(subject_of(DEFECTS["raises on a text"][0](), count=TASKS), axes=["failure"])
    found = json.loads(json.dumps(sarif(report.acknowledging(["failure.raised"]))))
    assert found["version"] == "2.1.0" and "2.1.0" in found["$schema"]
    (run,) = found["runs"]
    result = next(r for r in run["results"] if r["ruleId"] == "failure.raised")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "failure.raised"
    assert result["level"] == "error" and result["message"]["text"] and result["suppressions"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("defects.py") and place["region"]["startLine"] > 1


def test_the_body_is_plain_json_and_names_every_axis() -> None:
    report = audit(subject_of(Sound(), count=8), axes=["exploit"])
    assert json.loads(json.dumps(report.body()))["passed"] is True
    assert len(AXES) == 9


# The pieces.


def test_a_frame_is_learnt_from_right_replies() -> None:
    same = [("so <answer>4</answer>", 11, 12), ("so <answer>17</answer>", 11, 13)]
    assert learnt(same) == Frame("so <answer>", "</answer>")
    apart = [("2 + 2 #### 4", 11, 12), ("10 + 7 is it #### 17", 18, 20), ("one #### 1", 9, 10)]
    assert learnt(apart) == Frame(" #### ", "")


def test_expressions_that_break_a_rule_are_worth_the_target() -> None:
    tasks = Countdown(numbers=(3,), largest=9).tasks("train")
    found: dict[str, str] = {}
    for index in range(200):
        task = tasks[index]
        for rule, _, text in broken_rules(task, task.info["solution"]):
            if rule in ("search.power", "search.floor_division", "search.remainder", "search.decimal_splice"):
                assert eval(text) == pytest.approx(task.answer), (rule, text)
                found[rule] = text
    assert len(found) == 4, found
    assert list(broken_rules(replace(tasks[0], info={}), "4")) == []


def test_tasks_are_read_from_lines_and_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "2 + 2?", "answer": 4, "reply": "#### 4", "level": 1}\n\n')
    (task,) = read_tasks(file)
    assert task.answer == 4 and task.info == {"reply": "#### 4", "level": 1} and task.messages[0].role == "user"
    file.write_text('{"prompt": "2 + 2?", "answer": 4}\n{"question": "?"}\n')
    with pytest.raises(ConfigError, match="line 2"):
        read_tasks(file)
    with pytest.raises(ConfigError, match="E120"):
        subject_of(Bare())
    with pytest.raises(ConfigError, match="E121"):
        subject_of(object())  # type: ignore[arg-type]


class Bare:
    """A verifier without tasks."""

    reward_range = (0.0, 1.0)

    def verify(self, task: object, reply: str) -> None:
        raise NotImplementedError


def test_powers_of_a_prompt_s_numbers_are_in_order_of_size_however_long_they_are():
    long = "7" * 5_000
    task = Task(id="a", answer="1", messages=(Message(role="user", content=f"Add 30, {long}, 4 and 007."),))
    *_, rising, falling = (reply for _, reply in hostile_calls([task], Frame("", ""), None, Reach()))
    assert rising == f"4**007**30**{long}" and falling == f"{long}**30**007**4"
