"""Earlier groups in the place of sampled ones: which are drawn, what is kept of them, and what is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.errors import ConfigError, ConfigErrors, GnomonError, RunError
from gnomon.keys import Key
from gnomon.rejudge.replay import replay
from gnomon.rollout.replay import draw
from gnomon.store import RunReader, decode
from gnomon.types import Group

SMALL: dict[str, Any] = {
    "steps": 3,
    "threads": 1,
    "rollout": {"prompts": 4, "group": 2, "max_tokens": 24},
    "eval": {"tasks": 2, "every": 2},
    "save": {"every": 1, "keep": 9},
    "quiet": True,
}
ENVS = ["char_count", "guess_number", "kuhn_poker"]
"""One turn; several turns; two players."""


def trained(folder: Path, name: str = "char_count", rollout: dict[str, Any] | None = None, **more: Any) -> RunReader:
    return gnomon.train(name, run=folder, **{**SMALL, **more, "rollout": {**SMALL["rollout"], **(rollout or {})}})


def groups(reader: RunReader, step: int | None = None) -> list[Group]:
    return list(decode(record for record in reader.records(step=step) if of_training(record)))


def of_training(record: Any) -> bool:
    return record.kind in ("rollout", "greedy") or (record.kind == "task" and record.body["of"] == "rollout")


def by_address(reader: RunReader) -> dict[tuple[int, int, int], Group]:
    """By step, task and player."""
    return {
        (step, group.index, group.rollouts[0].player): group
        for step in range(reader.steps)
        for group in groups(reader, step)
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("sources")
    for env in ENVS:
        trained(root / env, env, seed=3).close()
    return {env: root / env for env in ENVS}


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize(("share", "lag"), [(1.0, 0), (0.5, 0), (0.5, 2)])
def test_recorded_groups_are_what_was_stored(tmp_path, sources, env, share, lag):
    """Turns × players × shares × lags: tokens, log-probabilities and verdicts are those of the recorded run."""
    rollout = {"recorded": str(sources[env]), "replay": share, "lag": lag}
    with RunReader(sources[env]) as before, trained(tmp_path / "r", env, rollout, objective="topr") as run:
        stored, players = by_address(before), 2 if env == "kuhn_poker" else 1
        for step in range(run.steps):
            found = groups(run, step)
            earlier = [group for group in found if group.replayed is not None]
            assert len(earlier) == round(4 * share) * players and len(found) == 4 * players
            assert len({group.index for group in found}) == 4
            for group in earlier:
                seed, at = group.replayed
                was = stored[at, group.index, group.rollouts[0].player]
                assert seed == 3 and group.rollouts == was.rollouts
        metrics = run.metrics()[1]["metrics"]
        sampled = [r for g in groups(run, 1) if g.replayed is None for r in g.rollouts]
        assert metrics["replayed"] == share and metrics["tokens"] == sum(r.tokens for r in sampled)
        if share < 1:
            assert metrics["reward"] == pytest.approx(sum(r.reward for r in sampled) / len(sampled))


@pytest.mark.parametrize("env", ENVS)
def test_own_groups_come_from_the_steps_before(tmp_path, env):
    with trained(tmp_path / "r", env, {"replay": 0.5}, objective="topr") as run:
        stored, players = by_address(run), 2 if env == "kuhn_poker" else 1
        for step in range(run.steps):
            earlier = [group for group in groups(run, step) if group.replayed is not None]
            assert len(earlier) == (2 * players if step else 0)
            for group in earlier:
                seed, at = group.replayed
                was = stored[at, group.index, group.rollouts[0].player]
                assert seed == 0 and at < step and was.replayed is None and group.rollouts == was.rollouts
        assert run.metrics()[2]["metrics"]["staleness_max"] >= 1


def test_tasks_are_drawn_uniformly_and_then_their_visits():
    """4,000 draws of 2 of 3 tasks; five standard deviations."""
    known, count = {1: [0], 5: [0, 1, 2, 3], 8: [2]}, 4000
    pairs = [pair for n in range(99) for pair in draw(known, 2, {8}, Key(n))]
    assert all(task != 8 for task, _ in pairs)
    tasks, visits = Counter(), Counter()
    for n in range(count):
        for task, step in draw(known, 2, (), Key(n).at("more")):
            tasks[task] += 1
            visits[step] += task == 5
    for task in known:
        assert abs(tasks[task] / count - 2 / 3) < 5 * sqrt(2 / 9 / count)
    for step in known[5]:
        assert abs(visits[step] / tasks[5] - 1 / 4) < 5 * sqrt(3 / 16 / tasks[5])


@pytest.mark.parametrize(
    "rollout", [{"replay": 0.5}, {"replay": 0.5, "lag": 2}, {"recorded": "source", "replay": 0.5, "refill": 1}]
)
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, sources, rollout):
    """Stopped after every step."""
    rollout = {name: str(sources["char_count"]) if value == "source" else value for name, value in rollout.items()}
    with trained(tmp_path / "whole", rollout=rollout, objective="topr") as whole:
        print_ = whole.fingerprint
    trained(tmp_path / "again", rollout=rollout, objective="topr", budget={"seconds": 1e-3}).close()
    while RunReader(tmp_path / "again").status != "finished":
        gnomon.resume(tmp_path / "again", quiet=True).close()
    assert RunReader(tmp_path / "again").fingerprint == print_


SCRIPT = """
import os, sys, gnomon
if __name__ == "__main__":
    folder = sys.argv[1]
    if os.path.exists(folder + "/journal.db"):
        gnomon.resume(folder).close()
    else:
        gnomon.train("char_count", run=folder, **SETTINGS).close()
"""


@pytest.mark.long
def test_killed_with_replay_and_a_lag_it_ends_the_same(tmp_path):
    settings = {**SMALL, "objective": "topr", "rollout": {**SMALL["rollout"], "replay": 0.5, "lag": 1}}
    with gnomon.train("char_count", run=tmp_path / "whole", **settings) as run:
        whole = run.fingerprint
    script = tmp_path / "go.py"
    script.write_text(SCRIPT.replace("SETTINGS", repr(settings)))
    folder = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, str(script), str(folder)])
    while not (folder / "checkpoints/000001").exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with gnomon.resume(folder, quiet=True) as run:
        assert run.fingerprint == whole


def test_the_source_is_in_the_manifest_and_a_changed_one_is_refused(tmp_path, sources):
    source = tmp_path / "source"
    shutil.copytree(sources["char_count"], source)
    run = tmp_path / "r"
    with RunReader(source) as before:
        print_ = before.fingerprint
    with trained(run, rollout={"recorded": str(source)}, objective="topr", budget={"seconds": 1e-3}) as reader:
        assert reader.manifest["data"]["rollout.recorded"] == print_
        assert reader.genesis["config"]["rollout"]["recorded"] == print_
    shutil.rmtree(source)
    trained(source, seed=4).close()
    with pytest.raises(RunError, match=r"E190.*\n.*rollout.recorded"):
        gnomon.resume(run, quiet=True)
    shutil.rmtree(source)
    with pytest.raises(RunError, match="E404"):
        gnomon.resume(run, quiet=True)


def test_an_unfinished_run_can_be_a_source_and_a_moved_copy_gives_the_same_bytes(tmp_path):
    source = tmp_path / "source"
    trained(source, budget={"seconds": 1e-3}, rollout={"prompts": 8}).close()
    shutil.copytree(source, tmp_path / "copy")
    prints = [
        trained(tmp_path / f"r{n}", rollout={"recorded": str(place)}, objective="topr").fingerprint
        for n, place in enumerate((source, tmp_path / "copy"))
    ]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("env", ENVS)
def test_replayed_episodes_are_judged_again_with_their_own_keys(tmp_path, sources, env):
    trained(tmp_path / "r", env, {"recorded": str(sources[env]), "replay": 0.5}, objective="topr").close()
    found = replay(tmp_path / "r", trust=True)
    assert found.judged and not found.flips


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("E077", {"rollout": {"recorded": "source", "replay": 0.0}}),
    ("E077", {"rollout": {"replay": 0.1}}),
    ("E077", {"rollout": {"replay": 1.0}}),
    ("E078", {"objective": "rloo"}),
    ("E078", {"objective": "topr", "optim": {"epochs": 2}}),
    ("E078", {"objective": "verifree"}),
    ("E079", {"rollout": {"recorded": "source", "group": 4}}),
    ("E079", {"rollout": {"recorded": "source", "max_tokens": 16}}),
    ("E079", {"rollout": {"recorded": "source", "prompts": 64}}),
    ("E079", {"env": {"most": 2}}),
    ("E404", {"rollout": {"recorded": "nowhere"}}),
]


@pytest.mark.parametrize(("code", "more"), REFUSED)
def test_what_cannot_be_replayed_is_refused(tmp_path, sources, code, more):
    rollout = {"recorded": "source", **more.get("rollout", {})}
    if code == "E077" and "recorded" not in more.get("rollout", {}):
        del rollout["recorded"]
    rollout |= {"recorded": str(sources["char_count"])} if rollout.get("recorded") == "source" else {}
    with pytest.raises((ConfigErrors, GnomonError), match=code):
        trained(tmp_path / "r", **{"objective": "topr", **more, "rollout": rollout})
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("objective", ["rft", "tis", "sequence_is", "kimi_k15"])
def test_what_corrects_or_learns_from_any_sampler_is_accepted(tmp_path, sources, objective):
    env = {"format": 0} if objective == "rft" else {}
    source = sources["char_count"]
    if env:
        source = tmp_path / "source"
        trained(source, env=env).close()
    with trained(tmp_path / "r", rollout={"recorded": str(source)}, objective=objective, env=env, steps=1) as run:
        assert run.status == "finished"


def test_another_environment_is_refused(tmp_path, sources):
    with pytest.raises(ConfigError, match="E079"):
        trained(tmp_path / "r", "guess_number", {"recorded": str(sources["char_count"])}, objective="topr")


def test_an_objective_that_does_not_correct_can_be_acknowledged(tmp_path, sources):
    audit = {"acknowledge": ["replay.on_policy"]}
    rollout = {"recorded": str(sources["char_count"])}
    with trained(tmp_path / "r", rollout=rollout, objective="reinforce_centred", audit=audit, steps=1) as run:
        assert run.metrics()[0]["metrics"]["replayed"] == 1
