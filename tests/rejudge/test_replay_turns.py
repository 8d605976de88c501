"""Episodes of several turns and players are played again as they were: an honest run shows no difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.envs import CharCount
from gnomon.errors import ConfigError
from gnomon.rejudge.replay import replay
from gnomon.store import RunReader

OTHERS = '''
from dataclasses import dataclass, replace
from gnomon.envs import CharCount, GuessNumber, KuhnPoker


@dataclass(frozen=True, kw_only=True)
class Generous(GuessNumber):
    """Everybody wins."""

    def play(self, task, rng):
        yield from super().play(task, rng)
        return [1.0]


@dataclass(frozen=True, kw_only=True)
class Rude(GuessNumber):
    """The same verdicts after other words."""

    def play(self, task, rng):
        inner, reply = super().play(task, rng), None
        try:
            while True:
                ask = inner.send(reply)
                reply = yield replace(ask, text=ask.text and ask.text + "!")
        except StopIteration as end:
            return end.value


@dataclass(frozen=True, kw_only=True)
class Strict(KuhnPoker):
    """A reply without a legal move costs four."""

    @property
    def payoffs(self):
        return -4.0, 4.0


@dataclass(frozen=True, kw_only=True)
class Own(CharCount):
    """What the object below is, where a command can import it."""
'''


SIZE = {"prompts": 4, "group": 3, "max_tokens": 24}
RUNS = {
    "one turn": ("char_count", {}),
    "several turns": ("guess_number", {}),
    "turns cut short": ("guess_number", {"rollout": {**SIZE, "turns": 2}}),
    "two players": ("kuhn_poker", {}),
    "refilled": ("guess_number", {"rollout": {**SIZE, "refill": 2}}),
    "several evaluations": ("kuhn_poker", {"eval": {"tasks": 3, "samples": 3, "every": 1}}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    found = {}
    for name, (env, more) in RUNS.items():
        found[name] = tmp_path_factory.mktemp("replay") / "r"
        settings = {"rollout": SIZE, "eval": {"tasks": 5, "samples": 2}, **more}
        gnomon.train(env, run=found[name], quiet=True, steps=2, **settings).close()
    yield found


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("verifiers") / "others.py"
    file.write_text(OTHERS)
    return file


def bodies(run: Path) -> list[dict]:
    with RunReader(run) as reader:
        return [dict(record.body) for kind in ("rollout", "held_out") for record in reader.records(kind)]


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.long
def test_an_honest_run_shows_no_difference(runs, name):
    found = replay(runs[name], workers=2)
    assert found.flips == () and found.opposed == 0 and found.judged == len(bodies(runs[name]))
    if name != "one turn":
        assert max(len(body.get("turns", [0])) for body in bodies(runs[name])) > 1
    if name == "turns cut short":
        assert any(body["stop"] == "turns" for body in bodies(runs[name]))


@pytest.mark.long
def test_another_verdict_is_found(runs, others):
    found = replay(runs["several turns"], f"{others}:Generous")
    played_out = [body for body in bodies(runs["several turns"]) if body["status"] == "wrong"]
    assert 0 < len(played_out) <= len(found.flips) and {flip.now[0] for flip in found.flips} == {"correct"}


def test_another_verdict_on_either_player_is_found(runs, others):
    found = replay(runs["two players"], f"{others}:Strict")
    concerned = [body for body in bodies(runs["two players"]) if "no legal move" in body["detail"] + body["status"]
                 or body["status"] in ("no_answer", "rejected", "malformed", "several")]  # fmt: skip
    assert len(found.flips) == len(concerned) > 0
    assert {flip.now[1] for flip in found.flips} == {-4.0, 4.0}


def test_other_observations_are_found_although_the_verdicts_are_the_same(runs, others):
    found = replay(runs["several turns"], f"{others}:Rude")
    longer = [body for body in bodies(runs["several turns"]) if len(body.get("turns", [0])) > 1]
    assert 0 < len(found.flips) <= len(longer)
    assert all(flip.was == flip.now and "another observation" in flip.detail for flip in found.flips)


def test_rollouts_against_an_opponent_are_left_out_and_counted(tmp_path):
    run = tmp_path / "r"
    gnomon.train("kuhn_poker", run=run, quiet=True, steps=1, rollout=SIZE, eval={"tasks": 2},
                 players={"opponent": "past"}).close()  # fmt: skip
    found = replay(run)
    assert found.judged == 0 and found.opposed == len(bodies(run)) and found.flips == ()
    assert "left out" in command("replay", str(run)).stdout


def test_a_run_of_an_object_is_replayed_with_the_class_of_a_file(tmp_path, others):
    @dataclass(frozen=True, kw_only=True)
    class Own(CharCount):
        """No command can import it."""

    run = tmp_path / "r"
    gnomon.train(
        Own(), run=run, quiet=True, steps=1, rollout=SIZE, eval={"tasks": 2}, audit={"acknowledge": []}
    ).close()
    with pytest.raises(ConfigError, match="E025") as told:
        replay(run, trust=True)
    assert "--verifier file.py:Class" in str(told.value)
    found = replay(run, f"{others}:Own", trust=True)
    assert found.flips == () and found.judged == len(bodies(run))
    facts = json.loads(command("replay", str(run), "--verifier", f"{others}:Own", "--trust", "--json").stdout)
    assert facts["flipped"] == 0
