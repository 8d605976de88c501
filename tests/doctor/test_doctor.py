"""Every fault is named first on a run that has it, with rollouts to read and a fix; a sound run has none."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from commands import command
from doctor.conftest import STEPS, Reply, Script, sound
from gnomon.doctor.evidence import evidence_of, steps_to_read
from gnomon.doctor.finding import Finding, in_order
from gnomon.doctor.machine import Machine, faults
from gnomon.doctor.run import Change, examine
from gnomon.envs.agent import END_LIMITS, End
from gnomon.integrations.imports.files import Options
from gnomon.monitoring.alarms import alarms
from gnomon.reading.address import parse_address
from gnomon.reading.importing import import_log
from gnomon.store import RunReader
from gnomon.types import CALL_LIMITS, Calls, Part, Status, Stop


def changed(rate: float, **values: object):
    """A sound policy, of whose replies this share differs."""

    def play(step: int, task: int, sample: int, rng: random.Random) -> Reply:
        found = sound(step, task, sample, rng)
        return replace(found, **values) if rng.random() < rate else found

    return play


def never(step, task, sample, rng):
    found = sound(step, task, sample, rng)
    wrong = str((task + rng.randint(1, 9)) % 10)
    return replace(found, status=Status.WRONG, answer=wrong, text=f"so <answer>{wrong}</answer>")


def always(step, task, sample, rng):
    return replace(sound(step, task, sample, rng), status=Status.CORRECT, answer=str(task % 10))


def whatever(step, task, sample, rng):
    return replace(sound(step, task, sample, rng), status=Status.CORRECT)


def flipping(step, task, sample, rng):
    text = f"so <answer>{sample % 2}</answer>"
    return replace(sound(step, task, sample, rng), text=text, answer=str(sample % 2))


def hacking(step, task, sample, rng):
    """Jotted steps pay .5 each, and training finds that out."""
    found = sound(0, task, sample, rng)
    jotted = min(12.0, step + rng.randint(0, 2))
    right = found.status is Status.CORRECT and rng.random() > step / STEPS
    parts = (Part(name="correct", value=float(right)), Part(name="steps", value=jotted, weight=0.5))
    return replace(
        found, status=Status.CORRECT if right else Status.WRONG, parts=parts, text=found.text + "a1" * int(jotted)
    )


def collapsing(step, task, sample, rng):
    """It works until step 3, and writes noise up to the limit afterwards."""
    found = sound(0, task, sample, rng)
    noise = "".join(rng.choice("xyz") for _ in range(20))
    return replace(found, status=Status.NO_ANSWER, answer=None, text=noise, cut=True) if step > 3 else found


def flat(step, task, sample, rng):
    return sound(0, task, sample, rng)


def rambling(step, task, sample, rng):
    """One reply in four is right at any step."""
    found = (always if sample == 0 else never)(step, task, sample, rng)
    return replace(found, tokens=12 + 6 * step * (found.status is Status.WRONG))


def stuck(step, task, sample, rng):
    """Each task has one reply left from step 4 on, right for three in ten tasks."""
    one = random.Random(task)
    return sound(0, task, sample, one if step > 3 else rng)


SOUND = Script()
ENDED = End(status=0).dumps()
CASES = {
    "data.leak": Script(question=lambda split, task: f"{'A  ' if split == 'test' else 'a '} question {task}?"),
    "data.too_hard": Script(play=never),
    "data.too_easy": Script(play=always),
    "data.memorised": Script(play=lambda step, *rest: sound(min(STEPS, 3 * step), *rest), test_play=flat),
    "rollout.template": Script(play=changed(0.6, text="<|im_start|>user\nnext")),
    "rollout.malformed_call": Script(play=changed(0.9, calls=Calls(malformed=1))),
    "rollout.no_end": Script(play=changed(0.7, cut=True)),
    "rollout.truncated": Script(play=changed(0.8, cut=True, answer=None, status=Status.NO_ANSWER)),
    "rollout.limited": Script(play=changed(0.8, stop=Stop.TURNS, answer=None, status=Status.NO_ANSWER)),
    "program.silent": Script(play=changed(0.9, end=ENDED, silent=True)),
    "program.failed": Script(play=changed(0.9, end=End(status=1).dumps())),
    **{
        f"program.limit_{name}": Script(play=changed(0.6, end=End(status=None, limit=name).dumps()))
        for name in END_LIMITS
    },
    **{
        f"program.limit_{name}": Script(play=changed(0.6, end=ENDED, calls=Calls(refused={code: 1})))
        for name, code in CALL_LIMITS.items()
    },
    "program.refused": Script(play=changed(0.6, end=ENDED, calls=Calls(refused={"unsupported_n": 2}))),
    "program.malformed": Script(play=changed(0.9, end=ENDED, calls=Calls(malformed=1))),
    "program.retried": Script(play=changed(0.6, end=ENDED, calls=Calls(retried=1))),
    "program.undelivered": Script(play=changed(0.6, end=ENDED, calls=Calls(undelivered=9))),
    "rollout.unparsable": Script(play=changed(0.9, answer=None, status=Status.NO_ANSWER)),
    "rollout.alike": Script(play=lambda step, task, sample, rng: sound(step, task, sample, random.Random(task))),
    "judge.fails": Script(play=changed(0.33, status=Status.FAILED, answer=None)),
    "judge.random": Script(play=flipping),
    "judge.constant": Script(play=whatever),
    "judge.paid_elsewhere": Script(play=hacking),
    "advantage.sign": Script(play=flat, advantage=lambda rewards: [sum(rewards) / len(rewards) - r for r in rewards]),
    "advantage.zero": Script(play=flat, advantage=lambda rewards: [0.0] * len(rewards)),
    "update.stale": Script(play=flat, version=lambda step: 0),
    "update.mismatch": Script(metrics=lambda step: {"logp_mismatch": 1.3}),
    "update.too_large": Script(play=collapsing),
    "update.too_small": Script(play=flat, settings={"optim": {"lr": 1e-6}}),
    "update.entropy_collapse": Script(
        play=stuck, metrics=lambda step: {"entropy": 1.0 if step < 5 else 0.01, "logp_mismatch": 0.0}
    ),
    "update.length_runaway": Script(play=rambling, test_play=flat),
    "run.stopped": Script(status="failed", reason="error[E203] not finite\n   fix: optim.lr=0.0001", steps=3),
}


def diagnosis(folder: Path):
    with RunReader(folder) as reader:
        return examine(reader)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named_first(name, write):
    folder = write(CASES[name])
    found = diagnosis(folder)
    assert found.findings, "nothing was found"
    first = found.findings[0]
    assert first.name == name, [finding.name for finding in found.findings]
    assert first.sentence and first.fix
    assert any(sign.isdigit() for sign in first.sentence), "the evidence has numbers"
    assert sum(found.causes.values()) == pytest.approx(1.0, abs=1e-12)
    if name != "run.stopped":
        assert len(first.read) >= 3
    with RunReader(folder) as reader:
        for text in first.read:
            place = parse_address(text)
            reader.rollout(place.step or 0, place.task or 0, place.sample or 0, place.kind)


def test_a_weight_mismatch_that_grows_is_stale_weights(write):
    script = Script(play=flat, metrics=lambda step: {"logp_mismatch": 0.02 + 0.2 * step})
    first = diagnosis(write(script)).findings[0]
    assert first.name == "update.stale" and "grew from" in first.sentence


def test_what_follows_from_a_large_step_comes_after_it(write):
    names = [finding.name for finding in diagnosis(write(CASES["update.too_large"])).findings]
    assert names[0] == "update.too_large" and "rollout.truncated" in names[1:]


@pytest.mark.parametrize(
    "script",
    [
        SOUND,
        Script(steps=3),
        Script(play=flat),
        Script(play=changed(0.15, cut=True, answer=None, status=Status.NO_ANSWER)),
        Script(metrics=lambda step: {}),
        Script(status="interrupted", steps=5),
    ],
)
def test_a_sound_run_has_no_finding(script, write):
    found = diagnosis(write(script))
    assert [finding.name for finding in found.findings] == []


def test_every_rollout_has_one_cause(write):
    """A truncated rollout of a group that is all wrong is truncated; the others are counted by their group."""
    folder = write(CASES["rollout.truncated"])
    with RunReader(folder) as reader:
        rows = reader.rollout_rows()
    mute = sum(row.status == Status.NO_ANSWER for row in rows) / len(rows)
    assert diagnosis(folder).causes["truncated"] == pytest.approx(mute, abs=1e-12)


@pytest.mark.parametrize("truncated", [0.0, 0.33, 0.62, 0.95])
def test_alarms_and_doctor_name_the_same_cause_of_missing_answers(truncated, write):
    """95 % of the rollouts have no answer; some of them were cut off, the others cannot be read."""

    def mute(step, task, sample, rng):
        found = replace(sound(step, task, sample, rng), answer=None, status=Status.NO_ANSWER)
        kind = rng.random()
        return replace(found, cut=kind < truncated) if kind < 0.95 else sound(step, task, sample, rng)

    folder = write(Script(play=mute))
    with RunReader(folder) as reader:
        rung = [alarm.name for alarm in alarms(reader)]
    first = diagnosis(folder).findings[0].name
    assert (first, rung) == (
        ("rollout.truncated", ["replies.truncated"])
        if truncated > 0.475
        else ("rollout.unparsable", ["answers.unreadable"])
    )


def test_the_limit_that_was_reached_is_the_one_to_raise(write):
    finding = diagnosis(write(CASES["rollout.limited"])).findings[0]
    assert finding.fix.startswith("raise rollout.turns") and "rollout.max_tokens" not in finding.fix


def test_a_declared_reward_for_the_format_is_no_reward_for_a_wrong_answer(write):
    def formatted(step, task, sample, rng):
        found = sound(step, task, sample, rng)
        right = float(found.status is Status.CORRECT)
        tidy = Part(name="format", value=float(rng.random() < 0.5), weight=0.2)
        return replace(found, parts=(Part(name="correct", value=right), tidy))

    assert "rewarded although wrong" not in diagnosis(write(Script(play=formatted))).causes


def test_a_flat_curve_is_called_flat_and_says_what_would_tell(write):
    folder = write(Script(play=flat))
    found = diagnosis(folder)
    assert found.change is not None and found.change.flat
    assert found.causes["group all wrong"] > 0.1
    said = command("doctor", str(folder)).stdout
    assert "too early to tell" in said and f"about {found.change.tasks_to_tell} held-out tasks" in said


@pytest.mark.parametrize("gain", [0.03, 0.08])
def test_so_many_tasks_or_steps_would_tell(gain):
    """With them the gain is 2.8 standard errors: above 1.96 of them in four of five repetitions."""
    change = Change(before=0.2, after=0.2 + gain, error=0.05, tasks=80, steps=20)
    assert change.flat and change.steps_to_tell is not None
    assert gain / (change.error * (change.tasks / change.tasks_to_tell) ** 0.5) == pytest.approx(2.8, rel=0.01)
    assert gain * change.steps_to_tell / change.steps / change.error == pytest.approx(2.8, rel=0.03)


def test_an_increase_is_not_called_flat(write):
    found = diagnosis(write(SOUND))
    assert found.change is not None and not found.change.flat and found.change.after > found.change.before + 0.3


def test_order():
    """Before any update by stage; then an update before what it may have caused."""
    names = [
        ("rollout.truncated", 4),
        ("judge.exploited", 9),
        ("update.too_large", 3),
        ("judge.fails", 0),
        ("data.leak", 0),
    ]
    found = in_order(Finding(name=name, sentence="", fix="", since=since) for name, since in names)
    expected = ["data.leak", "judge.fails", "update.too_large", "judge.exploited", "rollout.truncated"]
    assert [finding.name for finding in found] == expected


@pytest.mark.parametrize("first, apart", [(0, 1), (1, 1), (10, 10)])
@pytest.mark.parametrize("steps", [0, 1, 59, 60, 61, 80, 5000])
def test_a_long_run_is_read_in_part(steps, first, apart):
    """A log of another trainer may count from 1, or hold every tenth step."""
    recorded = range(first, first + apart * (steps + 1), apart)
    chosen = steps_to_read(recorded)
    assert chosen == sorted(set(chosen)) and {*recorded[:5], *recorded[-6:]} <= set(chosen) <= set(recorded)
    assert len(chosen) == min(steps + 1, 61)


@pytest.mark.parametrize("steps", [range(3), range(1, 4), range(10, 40, 10)])
def test_the_steps_of_an_imported_log_are_read_whatever_their_numbers(tmp_path, steps):
    reply = {"question": "1+1?", "text": "2", "score": 0}
    columns = {"prompt": "question", "reply": "text", "reward": "score", "step": "it"}
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({**reply, "it": step}) + "\n" for step in steps for _ in range(2)))
    import_log(log, tmp_path / "run", "jsonl", "reward >= 1", Options(columns=columns))
    with RunReader(tmp_path / "run") as reader:
        evidence = evidence_of(reader)
    assert evidence.read == tuple(steps) and len(evidence.groups) == 3
    assert [group[0].step for group in evidence.start] == [step for step in steps if step == steps[0] <= 1]


def test_a_run_without_rollouts_of_training_is_not_called_sound(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"prompt": "1+1?", "reply": "2", "reward": 0}) + "\n")
    import_log(log, tmp_path / "run", "jsonl", "reward >= 1", Options(held_out=True))
    done = command("doctor", str(tmp_path / "run"))
    assert done.returncode == 0 and "there is nothing to examine: the run has no training rollouts" in done.stdout, (
        done.stderr
    )


def test_the_command_prints_it_and_its_fix_is_a_command(write):
    folder = write(CASES["update.too_large"])
    done = command("doctor", str(folder))
    assert done.returncode == 1 and "first cause: update.too_large" in done.stdout, done.stdout + done.stderr
    assert f"gnomon train {folder}/recipe.toml optim.lr=" in done.stdout and "held-out pass@1" in done.stdout
    body = json.loads(command("doctor", str(folder), "--json").stdout)
    assert body["findings"][0]["name"] == "update.too_large" and len(body["findings"][0]["read"]) == 3


def test_a_recipe_is_examined_before_it_runs(tmp_path):
    wrong = command("doctor", "char_count", "rolout.group=4", "group=1")
    assert wrong.returncode == 1 and "recipe.E012" in wrong.stdout and "recipe.E031" in wrong.stdout
    few = command("doctor", "char_count", "rollout.tasks=[1,2,3]", "prompts=8")
    assert few.returncode == 1 and "fix: rollout.prompts=3" in few.stdout, few.stdout + few.stderr
    assert command("doctor", "char_count").returncode == 0
    absent = command("doctor", str(tmp_path / "absent"))
    assert absent.returncode == 1 and "error[E404]" in absent.stderr


HEALTHY = Machine(python=(3, 11), unfit={}, cores=2, threads=1, memory=8 * 2**30, disk=50 * 2**30,
                  programs=frozenset({"bwrap"}))  # fmt: skip


@pytest.mark.parametrize(
    ("change", "name", "fix"),
    [
        ({}, None, ""),
        ({"python": (3, 10)}, "machine.python", "use Python 3.11"),
        ({"unfit": {"numpy": ("1.26", ">=2")}}, "machine.version", "pip install 'numpy>=2'"),
        ({"threads": 16}, "machine.threads", "export OMP_NUM_THREADS=2"),
        ({"memory": 2**30}, "machine.memory", "workers.count=1"),
        ({"memory": 0}, None, ""),
        ({"disk": 2**20}, "machine.disk", "run=/other"),
        ({"programs": frozenset()}, "machine.program", "apt-get install bubblewrap"),
    ],
)
def test_a_machine(change, name, fix):
    found = list(faults(replace(HEALTHY, **change)))
    assert [each.name for each in found] == ([] if name is None else [name])
    assert all(fix in each.fix for each in found)
