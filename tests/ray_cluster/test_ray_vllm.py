"""vLLM itself in the samplers of a Ray cluster, where `GNOMON_VLLM_PYTHON=PATH/bin/python` names an environment."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.engines.vllm.engine import WORKER
from gnomon.store import StepRecord
from ray_cluster.actors import Killer, actors, ended

PYTHON = os.environ.get("GNOMON_VLLM_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs vLLM: GNOMON_VLLM_PYTHON=PATH/bin/python")
SETTINGS: dict[str, Any] = {
    "quiet": True,
    "steps": 16,
    "engine": {"type": "vllm", "python": PYTHON, "cache_gib": 0.0625},
    "rollout": {"prompts": 16, "group": 8, "max_tokens": 48, "context": 256},
    "eval": {"tasks": 64, "every": 100},
}
LATE: dict[str, Any] = {"objective": "tis", "rollout": SETTINGS["rollout"] | {"lag": 1, "in_flight": True}}


def workers() -> list[int]:
    """The processes of vLLM that samplers of this process's cluster started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = os.environ["RAY_AUTH_TOKEN"].encode() in (path / "environ").read_bytes()
            if ours and str(WORKER) in (path / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(path.name))
    return found


def launched(samplers: int) -> dict[str, Any]:
    return {"type": "ray", "samplers": samplers, "episodes": 32}


def gain(metrics: list[dict[str, float]]) -> float:
    """The mean reward of the last quarter of the steps minus that of the first."""
    quarter = len(metrics) // 4
    first, last = (sum(step["reward"] for step in part) / quarter for part in (metrics[:quarter], metrics[-quarter:]))
    return last - first


class Worker(Killer):
    """An observer that kills a process of vLLM after a step, and not its sampler."""

    def step(self, record: StepRecord) -> None:
        if record.step == self.at:
            self.killed = workers()[0]
            os.kill(self.killed, signal.SIGKILL)


@pytest.mark.needs("ray")
@pytest.mark.parametrize("samplers", [1, 2])
@pytest.mark.parametrize("rank", [0, 8])
@pytest.mark.parametrize("more", [{}, LATE], ids=["between steps", "in flight"])
def test_a_run_learns(tmp_path, cluster, more, rank, samplers):
    """Weights and adapters × in every step and in flight × one sampler and two."""
    own = SETTINGS | more | {"policy": {"lora": {"rank": rank}}, "lr": 3e-3 if rank else 1e-3}
    with gnomon.train("char_count", run=tmp_path / "r", launch=launched(samplers), **own) as run:
        metrics = [step["metrics"] for step in run.metrics()]
        assert run.status == "finished" and len(metrics) == 16
        assert gain(metrics) > 0.05  # Two runs gained .33 and .43.
        if more:
            assert max(step["staleness_max"] for step in metrics) <= 1
        else:
            assert max(step["logp_mismatch"] for step in metrics) < 1e-3
    assert ended() and gone()


@pytest.mark.needs("ray")
@pytest.mark.parametrize("killer", [Killer, Worker], ids=["sampler", "worker"])
@pytest.mark.parametrize("more", [{}, LATE], ids=["between steps", "in flight"])
def test_a_killed_process_is_replaced_and_nothing_is_lost(tmp_path, cluster, more, killer):
    observer = killer(step=3)
    own = SETTINGS | more | {"steps": 6}
    with gnomon.train("char_count", run=tmp_path / "r", launch=launched(2), observers=[observer], **own) as run:
        metrics = [step["metrics"] for step in run.metrics()]
        assert run.status == "finished" and len(metrics) == 6 and observer.killed
        restarts = sum(step["engine/restarts"] for step in metrics)
        deaths = len(list(run.events("sampler_died")))
        assert (deaths, restarts) == ((1, 0) if killer is Killer else (0, 1))
        for step in range(6):
            groups = list(run.groups(step))
            assert len(groups) == 16 and all(len(group.rollouts) == 8 for group in groups)
    assert ended() and gone()


def gone() -> bool:
    """Whether vLLM ends with its sampler, in ten seconds at most."""
    deadline = time.monotonic() + 10.0
    while workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not workers() and not actors()
