"""Held-out tasks that are drawn several times: an interval counts the different ones."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, stdev

import pytest

import gnomon
from gnomon.comparison.runs import compare_groups, difference_text, group_runs
from gnomon.doctor.evidence import evidence_of
from gnomon.doctor.run import change
from gnomon.run.display import evaluation_text
from gnomon.stats import mean_interval
from gnomon.store import RunReader

PLAYED = 40


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunReader]]:
    """Two runs of one seed."""
    found = []
    for rate in (1e-2, 1e-9):
        folder = tmp_path_factory.mktemp("runs") / "run"
        settings = {"threads": 1, "steps": 1, "rollout": {"prompts": 4, "group": 8}, "optim": {"lr": rate}}
        evaluation = {"tasks": PLAYED, "samples": 2}
        found.append(
            gnomon.train("arithmetic", run=folder, quiet=True, env={"largest": 9}, eval=evaluation, **settings)
        )
    yield found
    for reader in found:
        reader.close()


def scores(reader: RunReader, step: int) -> list[tuple[str, float]]:
    """The id of every played held-out task, with the fraction of right replies."""
    ids = {r.task: r.body["id"] for r in reader.records("task", step) if r.body["of"] == "held_out"}
    right: dict[int, list[bool]] = {}
    for row in reader.rollout_rows(step=step, kind="held_out"):
        right.setdefault(row.task or 0, []).append(row.status == "correct")
    return [(ids[task], fmean(each)) for task, each in right.items()]


def test_the_recorded_interval_is_over_different_tasks(runs: list[RunReader]) -> None:
    for reader in runs:
        for step, body in ((0, reader.baseline), (1, reader.held_out)):
            ids, values = zip(*scores(reader, step), strict=True)
            assert len(ids) == PLAYED and len(set(ids)) < PLAYED
            found, expected = body["pass_at"]["1"], mean_interval(values, ids)
            assert found["n"] == len(set(ids)) and found["value"] == pytest.approx(fmean(values))
            assert (found["low"], found["high"]) == (expected.low, expected.high)
            assert f"over {len(set(ids))} different tasks" in evaluation_text(body)


def test_two_runs_of_one_seed_are_compared_by_different_tasks(runs: list[RunReader]) -> None:
    found = compare_groups(group_runs([reader.folder for reader in runs]))[0]
    by_id: list[dict[str, list[float]]] = [{}, {}]
    for reader, mine in zip(runs, by_id, strict=True):
        for name, value in scores(reader, 1):
            mine.setdefault(name, []).append(value)
    assert found.unit == "tasks" and found.difference and found.difference.seeds == len(by_id[0]) < PLAYED
    assert found.difference.mean == pytest.approx(fmean(fmean(by_id[1][n]) - fmean(by_id[0][n]) for n in by_id[0]))
    assert f"over {len(by_id[0])} different tasks" in difference_text(found)


def test_the_error_of_a_change_counts_a_task_once(runs: list[RunReader]) -> None:
    """Sums of deviations by task; with no task drawn twice this is the standard error of a mean."""
    found = change(evidence_of(runs[0]))
    before, after = scores(runs[0], 0), scores(runs[0], 1)
    gains = [late - early for (_, early), (_, late) in zip(before, after, strict=True)]
    sums: dict[str, float] = {}
    for (name, _), gain in zip(before, gains, strict=True):
        sums[name] = sums.get(name, 0.0) + gain - fmean(gains)
    assert any(gains) and found and found.after - found.before == pytest.approx(fmean(gains))
    assert found.error == pytest.approx(stdev(sums.values()) * len(sums) ** 0.5 / PLAYED)
