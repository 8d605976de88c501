"""Which tasks a step plays: curricula, what they may know, and their state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors, RunError
from gnomon.keys import Key
from gnomon.rollout.order import Band, Choice, Chosen, EasiestFirst, Result
from gnomon.store import RunReader

SMALL: dict[str, Any] = {
    "steps": 4,
    "threads": 1,
    "rollout": {"prompts": 4, "group": 2, "max_tokens": 24},
    "eval": {"tasks": 2, "every": 9},
    "save": {"every": 1, "keep": 9},
    "quiet": True,
}


def trained(folder: Path, rollout: dict[str, Any] | None = None, name: Any = "char_count", **more: Any) -> RunReader:
    return gnomon.train(name, run=folder, **{**SMALL, **more, "rollout": {**SMALL["rollout"], **(rollout or {})}})


def choice(count: int, offered: Any, results: list[tuple[int, int, int]] = (), step: int = 3, seed: int = 0) -> Choice:  # type: ignore[assignment]
    """Args: results: step, task and correct rollouts, of 4."""
    found = [Result(step=s, task=t, correct=c, rollouts=4) for s, t, c in results]
    return Choice(step=step, steps=10, count=count, offered=offered, results=found, key=Key(seed))


def test_the_band_keeps_tasks_by_their_latest_visit_and_adds_new_ones():
    band = Band(low=0.25, high=0.75)
    results = [(0, 1, 2), (0, 2, 4), (0, 3, 0), (1, 4, 0), (2, 4, 1), (2, 1, 4)]
    found = band.choose(choice(3, range(2**31), results))
    assert found[0] == 4 and not {1, 2, 3} & set(found) and len(set(found)) == 3
    assert band.choose(choice(1, range(5), results)) == [4]
    assert set(band.choose(choice(2, range(5), results))) == {4, 0}, "the only new task"
    assert set(band.choose(choice(5, range(5), results))) == {0, 1, 2, 3, 4}
    inside = [(0, task, 2) for task in range(9)]
    drawn = {tuple(sorted(band.choose(choice(2, range(9), inside, seed=seed)))) for seed in range(40)}
    assert len(drawn) > 10


def test_the_easiest_come_first_and_all_may_come_in_the_last_step():
    easiest = EasiestFirst(difficulty=lambda index: -index)
    assert set(easiest.choose(choice(2, range(20), step=0))) == {18, 19}
    assert {t for seed in range(60) for t in easiest.choose(choice(2, range(20), step=4, seed=seed))} == set(
        range(10, 20)
    )
    assert {t for seed in range(99) for t in easiest.choose(choice(2, range(20), step=9, seed=seed))} == set(range(20))
    early, late = (sum(easiest.choose(choice(50, range(2**31), step=s))) for s in (0, 9))
    assert early > 1.5 * late, "a split that cannot be sorted as a whole"


def test_a_choice_knows_only_results_that_are_older_than_the_lag(tmp_path):
    seen: list[list[int]] = []

    class Spy:
        def choose(self, asked: Choice) -> list[int]:
            seen.append([result.step for result in asked.results])
            return list(asked.offered[: asked.count])

    tasks, kept = CharCount().tasks("train"), {"offered": range(9), "count": 2, "steps": 9, "lag": 2, "key": Key(0)}
    order = Chosen(Spy(), tasks, **kept)
    order.results = [Result(step=step, task=0, correct=1, rollouts=2) for step in range(5)]
    order.of(5)
    order.of(6)
    assert seen == [[0, 1, 2], [0, 1, 2, 3]]
    order.save_state(tmp_path)
    again = Chosen(Spy(), tasks, **kept)
    again.load_state(tmp_path)
    assert again.results == order.results


@pytest.mark.parametrize("chosen", [[1, 1], [1], [1, 99], [1, 2, 3]])
def test_a_wrong_choice_is_an_error(chosen):
    class Wrong:
        def choose(self, asked: Choice) -> list[int]:
            return chosen

    order = Chosen(Wrong(), CharCount().tasks("train"), offered=range(9), count=2, steps=9, lag=0, key=Key(0))
    with pytest.raises(ConfigError, match="E167"):
        order.of(0)


@pytest.mark.long
@pytest.mark.parametrize("rollout", [{"curriculum": "band"}, {"curriculum": "band", "lag": 1}])
def test_a_run_with_a_band_repeats_and_resumes_to_the_bit(tmp_path, rollout):
    with trained(tmp_path / "whole", rollout) as run:
        print_, lag = run.fingerprint, rollout.get("lag", 0)
        for step in range(1 + lag, run.steps):
            latest = {g.index: g for s in range(step - lag) for g in run.groups(step=s)}
            rates = {index: sum(r.verdict.correct for r in g.rollouts) / 2 for index, g in latest.items()}
            inside = {index for index, rate in rates.items() if 0.2 <= rate <= 0.8}
            played = {group.index for group in run.groups(step=step)}
            assert len(played & inside) == min(4, len(inside)) and not played & (set(latest) - inside)
    trained(tmp_path / "again", rollout, budget={"seconds": 1e-3}).close()
    while RunReader(tmp_path / "again").status != "finished":
        gnomon.resume(tmp_path / "again", quiet=True).close()
    assert RunReader(tmp_path / "again").fingerprint == print_


def test_easy_tasks_of_the_environment_come_first(tmp_path):
    with trained(tmp_path / "r", {"curriculum": "easiest"}, steps=2) as run:
        first, last = ([len(g.task.messages[-1].content) for g in run.groups(step=step)] for step in (0, 1))
    assert max(first) <= min(last) or sum(first) < sum(last)


@dataclass(frozen=True)
class Again:
    """The same tasks in every step."""

    start: int = 7

    def choose(self, asked: Choice) -> list[int]:
        return list(asked.offered[self.start : self.start + asked.count])


def test_a_python_object_chooses(tmp_path):
    run = tmp_path / "r"
    with trained(run, curriculum=Again(), budget={"seconds": 1e-3}) as reader:
        assert "object:Again" in reader.recipe and "class Again" in reader.manifest["objects"]["curriculum"]["source"]
    with pytest.raises(RunError, match="curriculum is Again"):
        gnomon.resume(run, quiet=True)
    while RunReader(run).status != "finished":
        gnomon.resume(run, curriculum=Again(), quiet=True).close()
    with RunReader(run) as reader:
        assert all({g.index for g in reader.groups(step=step)} == {7, 8, 9, 10} for step in range(reader.steps))
    with pytest.raises(ConfigErrors, match=r"E029.*no choose"):
        trained(tmp_path / "other", curriculum=3)


@pytest.mark.parametrize(
    ("code", "name", "rollout"),
    [
        ("E168", "kuhn_poker", {"curriculum": "easiest"}),
        ("E169", "char_count", {"curriculum": "band", "refill": 1}),
        ("E169", "char_count", {"curriculum": "band", "candidates": 2}),
        ("E169", "char_count", {"curriculum": "band", "band": [0.8, 0.2]}),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, code, name, rollout):
    with pytest.raises((ConfigError, ConfigErrors), match=code):
        trained(tmp_path / "r", rollout, name)
