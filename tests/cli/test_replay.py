"""Stored rollouts judged again: exactly those flip whose judgement changed, whatever the new verifier does."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.store import RunReader

OTHERS = '''
from dataclasses import dataclass
from gnomon.envs import CharCount
from gnomon.verifiers import Answered, integer
import os, time


@dataclass(frozen=True, kw_only=True)
class Lucky(CharCount):
    """Two is always right."""

    def check(self, task, answer):
        return integer(answer) == 2 or super().check(task, answer)


@dataclass(frozen=True, kw_only=True)
class Alone(Answered):
    """A verifier without an environment."""

    def accepts(self, answer, gold):
        return integer(answer) == gold


@dataclass(frozen=True, kw_only=True)
class Bomb(CharCount):
    """Three replies that hang, end the process and raise."""

    def check(self, task, answer):
        if integer(answer) == 0:
            while True:
                pass
        if integer(answer) == 1:
            os._exit(0)
        if integer(answer) == 2:
            raise RuntimeError("two")
        return super().check(task, answer)


class Nothing:
    pass
'''


def replayed(*words: str) -> dict:
    done = command("replay", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay") / "r"
    size = {"prompts": 6, "group": 6, "max_tokens": 32}
    gnomon.train("char_count", run=folder, quiet=True, threads=1, steps=2, rollout=size, eval={"tasks": 12}).close()
    return folder


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("verifiers") / "others.py"
    file.write_text(OTHERS)
    return file


def stored(run: Path) -> dict[str, dict]:
    with RunReader(run) as reader:
        return {
            f"{'held-out:' if kind == 'held_out' else ''}{r.step}:{r.task}:{r.sample}": dict(r.body)
            for kind in ("rollout", "held_out")
            for r in reader.records(kind)
        }


def digests(folder: Path) -> dict[str, str]:
    return {str(p): sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_same_verifier_flips_nothing_and_touches_nothing(run):
    before = digests(run)
    facts = replayed(str(run))
    assert facts["judged"] == len(stored(run)) == 2 * 36 + 2 * 12 and facts["flips"] == []
    assert digests(run) == before


def test_one_changed_line_flips_exactly_the_rollouts_it_concerns(run, others):
    expected = {place for place, body in stored(run).items() if body["extracted"] == "2" and body["status"] == "wrong"}
    facts = replayed(str(run), "--verifier", f"{others}:Lucky")
    assert expected and {flip["address"] for flip in facts["flips"]} == expected
    assert facts["changes"] == {"wrong to correct": len(expected)}
    assert facts["reward"] == pytest.approx(len(expected) / facts["judged"])
    one = facts["flips"][0]
    assert one["was"] == {"status": "wrong", "reward": 0.1} and one["now"] == {"status": "correct", "reward": 1.1}
    assert one["extracted"] == "2"
    text = command("replay", str(run), "--verifier", f"{others}:Lucky").stdout
    assert one["address"] in text and f"{len(expected)} verdicts changed" in text and f"gnomon show {run}" in text


def test_other_options_of_the_same_environment(run):
    facts = replayed(str(run), "env.correct=2.0")
    right = {place for place, body in stored(run).items() if body["status"] == "correct"}
    assert {flip["address"] for flip in facts["flips"]} == right
    assert facts["changes"] == {"correct, paid otherwise": len(right)}


def test_a_verifier_without_an_environment(run, others):
    """It pays nothing for the format, so the same verdicts are paid 0.1 less."""
    facts = replayed(str(run), "--verifier", f"{others}:Alone")
    assert set(facts["changes"]) == {"correct, paid otherwise", "wrong, paid otherwise"}
    assert facts["reward"] == pytest.approx(-0.1 * len(facts["flips"]) / facts["judged"])


@pytest.mark.long
def test_a_verifier_that_hangs_dies_or_raises_is_told_and_harms_no_other(run, others):
    facts = replayed(str(run), "--verifier", f"{others}:Bomb", "--seconds", "0.3")
    flips = {flip["address"]: flip for flip in facts["flips"]}
    for place, body in stored(run).items():
        word = {"0": "exceeded", "1": "failed", "2": "failed"}.get(body["extracted"])
        assert (flips[place]["now"]["status"] if place in flips else None) == word, place
    for words in ("used up the limit of time", "the process that judged it died", "RuntimeError: two"):
        assert any(words in flip["detail"] for flip in flips.values())


def test_tasks_that_are_not_what_they_were_are_refused(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    recipe = other / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('type = "char_count"', 'type = "char_count"\nseed = 9'))
    done = command("replay", str(other))
    assert done.returncode == 1 and "E142" in done.stderr and "has changed since the run" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["env.colour=3"], "E143"),
        (["env.gate=never"], "E143"),
        (["--verifier", "nobody"], "E021"),
        (["--verifier", "{others}:Nothing"], "E143"),
    ],
)
def test_mistakes_are_told(run, others, words, code):
    done = command("replay", str(run), *(word.format(others=others) for word in words))
    assert done.returncode == 2 and code in done.stderr and "Traceback" not in done.stderr


def test_alarms_are_read_from_the_records(run, others):
    done = command("alarms", str(run))
    assert done.returncode == 0 and "0 alarms in 2 steps" in done.stdout
    assert json.loads(command("alarms", str(run), "--json").stdout) == {"steps": 2, "alarms": []}


def test_show_has_the_reward_breakdown(run):
    facts = json.loads(command("show", str(run), "--json").stdout)
    for when in ("first", "last"):
        rows = facts["breakdown"][when]
        assert [row["part"] for row in rows] == ["correct", "format"]
        assert sum(row["return_share"] for row in rows) == pytest.approx(1.0)
    text = command("show", str(run)).stdout
    assert "of the variance" in text and "correct" in text and facts["alarms"] == []
