"""Finished and unfinished runs whose evaluations are known, with predictions registered before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gnomon.store import Record, Run
from gnomon_lab.predictions.register import register


def evaluation(rate: float, length: float = 20.0, failed: int = 0) -> dict[str, Any]:
    """The body of an evaluation of 100 rollouts."""
    interval = {"value": rate, "low": 0.0, "high": 1.0, "n": 100}
    counts = {"correct": 100 - failed, "failed": failed}
    return {
        "version": 0, "pass_at": {"1": interval}, "reward": rate, "length": length, "truncated": 0.0,
        "statuses": counts,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path) -> Callable[..., Path]:
    """Write a run. Args: rates: pass@1 by number of finished steps; questions: registered before it."""

    def write(
        name: str,
        rates: Mapping[int, float],
        questions: list[dict[str, Any]] | None = None,
        *,
        steps: int = 40,
        status: str = "finished",
        by: str = "Ada",
        settings: Mapping[str, Any] | None = None,
        env: str = "countdown",
        failed: int = 0,
    ) -> Path:
        folder = tmp_path / "runs" / name
        if questions is not None:
            register(folder, questions, by=by, settings=settings or {})
        recipe = f'[env]\ntype = "{env}"\n[budget]\nsteps = {steps}\n[rollout]\ngroup = 8\n'
        config = {"env": {"type": env}, "eval": {"tasks": 100, "samples": 1}}
        with Run.create(folder, recipe=recipe, manifest={}, genesis={"config": config}) as store:
            for step in range(steps + 1):
                if step in rates:
                    kind = "evaluation" if step else "baseline"
                    store.append([Record(kind=kind, step=step, body=evaluation(rates[step], failed=failed))])
                if step < steps and (status == "finished" or step < max(rates)):
                    store.append([Record(kind="step", step=step, body={"metrics": {"reward": 0.5, "length": 20.0}})])
            store.set_status(status)
        return folder

    return write
