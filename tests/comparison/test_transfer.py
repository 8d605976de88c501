"""Transfer and forgetting: gains against numbers by hand, on runs with known verdicts and on a run after another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from comparison.written import rollout
from gnomon.comparison.statistics import estimate
from gnomon.comparison.transfer import transfer, transfer_text
from gnomon.config import Source, resolve, to_toml
from gnomon.errors import RunError
from gnomon.run.find import make_env
from gnomon.store import Record, Run, RunStatus
from gnomon.store.codec import encode
from gnomon.store.layout import of_set
from gnomon.types import Group, Status

Scores = Sequence[Sequence[bool]]
"""Whether the replies to every task are right; by task."""
SETS: dict[str, Any] = {name: {"env": name, "tasks": 2, "samples": 2} for name in ("arithmetic", "scramble")}


def write(
    folder: Path,
    env: str,
    seed: int,
    measured: Mapping[str, tuple[Scores, Scores]],
    sets: Mapping[str, Any] = SETS,
    **more: Any,
) -> Path:
    """A finished run that was evaluated before and after one step. Args: measured: by set, "" for the main one."""
    values = {"env": env, "seed": seed, "eval": {"tasks": 2, "samples": 2, "sets": dict(sets)}, **more}
    config, _ = resolve([Source(values, {})])
    with Run.create(folder, recipe=to_toml(config), manifest={}, genesis={}) as run:
        for step in (0, 1):
            for name, scores in measured.items():
                spec = config.env_of(name) if name else config.env
                tasks = make_env(spec).tasks("test")
                for index, right in enumerate(scores[step]):
                    statuses = [Status.CORRECT if each else Status.WRONG for each in right]
                    replies = tuple(rollout(tasks[index], at, ["x"], status) for at, status in enumerate(statuses))
                    group = Group(task=tasks[index], index=index, rollouts=replies)
                    run.append(list(encode(group, kind=of_set("held_out", name), step=step)))
                rate = sum(map(sum, scores[step])) / sum(map(len, scores[step]))
                kind = of_set("evaluation" if step else "baseline", name)
                run.append([Record(kind=kind, step=step, body={"pass_at": {"1": {"value": rate}}})])
        run.set_status(RunStatus.FINISHED)
    return folder


NONE, HALF, ALL = [[False] * 2] * 2, [[False, True], [False, False]], [[True] * 2] * 2
"""pass@1 of 0, 1/4 and 1."""


def test_gains_are_paired_over_seeds(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / "a0", "char_count", 0, {"": (NONE, ALL), "arithmetic": (HALF, ALL), "scramble": (ALL, ALL)}),
        write(tmp_path / "b", "arithmetic", 0, {"": (NONE, NONE), "arithmetic": (NONE, ALL), "scramble": (ALL, HALF)}),
        write(
            tmp_path / "a1", "char_count", 1, {"": (NONE, HALF), "arithmetic": (NONE, HALF), "scramble": (ALL, NONE)}
        ),
    ]
    found = transfer(runs)
    first, second = found.rows
    assert (first.name, second.name) == ("char_count", "arithmetic") and len(first.runs) == 2
    assert found.columns == ["char_count", "arithmetic", "scramble"]
    assert first.cells["arithmetic"].gain == estimate([0.75, 0.25]) and first.cells["arithmetic"].unit == "seeds"
    assert (first.cells["arithmetic"].before, first.cells["arithmetic"].after) == (0.125, 0.625)
    assert first.cells["scramble"].gain.mean == -0.5 and first.cells["char_count"].gain == estimate([1.0, 0.25])
    # One run: over its tasks. Where a set has the name of the environment, the set counts and not the main evaluation.
    assert second.cells["arithmetic"].gain == estimate([1.0, 1.0]) and second.cells["arithmetic"].unit == "tasks"
    assert second.cells["scramble"].gain == estimate([-0.5, -1.0]) and set(second.cells) == {"arithmetic", "scramble"}
    text = transfer_text(found)
    assert text.splitlines()[0] == "| trained on | char_count | arithmetic | scramble |" and "before" not in text
    assert f"{0.05 * 5:.1f} of these 5 intervals" in text and not found.body()["forgetting"]


def test_rows_of_one_environment_and_other_settings_are_numbered(tmp_path: Path) -> None:
    measured = {"": (NONE, ALL), "arithmetic": (NONE, ALL), "scramble": (NONE, ALL)}
    runs = [write(tmp_path / f"r{at}", "char_count", 0, measured, optim={"lr": 10.0**-at}) for at in (3, 4)]
    assert [row.name for row in transfer(runs).rows] == ["char_count (1)", "char_count (2)"]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    measured = {"": (NONE, ALL), "arithmetic": (NONE, ALL), "scramble": (NONE, ALL)}
    one = write(tmp_path / "one", "char_count", 0, measured)
    with pytest.raises(RunError, match="E429"):
        transfer([one, write(tmp_path / "same", "char_count", 0, measured)])
    other = {**SETS, "scramble": {**SETS["scramble"], "temperature": 0.5}}
    with pytest.raises(RunError, match="E439"):
        transfer([one, write(tmp_path / "other", "char_count", 1, measured, other)])
    alone = {name: spec for name, spec in SETS.items() if name != "arithmetic"}
    main = write(
        tmp_path / "main",
        "arithmetic",
        0,
        {"": (NONE, ALL), "scramble": (NONE, ALL)},
        alone,
        rollout={"temperature": 0.5},
    )
    with pytest.raises(RunError, match="E439"):
        transfer([one, main])
    with Run.create(tmp_path / "running", recipe="seed = 1\n", manifest={}, genesis={}):
        pass
    with pytest.raises(RunError, match="E429"):
        transfer([tmp_path / "running"])


@pytest.mark.long
def test_a_run_that_begins_with_the_weights_of_another_is_put_behind_it(tmp_path: Path) -> None:
    """By a checkpoint and by an export; what it undoes is its own change, which starts where the first run ended."""
    small: dict[str, Any] = {
        "steps": 1, "prompts": 4, "group": 4, "quiet": True, "workers": {"count": 1}, "rollout": {"max_tokens": 10},
        "eval": {"tasks": 6, "sets": {name: {"env": name} for name in ("char_count", "arithmetic")}},
    }  # fmt: skip
    gnomon.train("arithmetic", run=tmp_path / "a", **small)
    assert command("export", f"{tmp_path}/a", f"{tmp_path}/model").returncode == 0
    gnomon.train("char_count", run=tmp_path / "ab", policy=f"{tmp_path}/model", **small)
    gnomon.train("arithmetic", run=tmp_path / "aba", policy=f"{tmp_path}/ab/checkpoints/000001", **small)
    gnomon.train("char_count", run=tmp_path / "b", **small)
    runs = [str(tmp_path / name) for name in ("aba", "ab", "a", "b")]
    facts = json.loads(command("transfer", *runs, "--json").stdout)
    rows = {row["name"]: row for row in facts["rows"]}
    assert set(rows) == {
        "arithmetic, then char_count, then arithmetic",
        "arithmetic, then char_count",
        "arithmetic",
        "char_count",
    }
    assert rows["arithmetic, then char_count"]["follows"] == "arithmetic" and rows["char_count"]["follows"] == ""
    for row in facts["forgetting"]:
        own, first = rows[row["row"]]["cells"][row["set"]], rows[rows[row["row"]]["follows"]]["cells"][row["set"]]
        assert row["before"] == first["before"] and row["between"] == first["after"] == own["before"]
        assert row["change"]["mean"] == pytest.approx(row["after"] - row["between"], abs=1e-12)
    assert len(facts["forgetting"]) == 4
    assert "change by the last" in command("transfer", *runs).stdout
