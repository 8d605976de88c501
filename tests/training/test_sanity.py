"""The gate: a sound objective gets through, a sabotaged one does not."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from commands import command
from gnomon.config import RunConfig, overrides, resolve
from gnomon.errors import ConfigError
from gnomon.objectives import TABLE, Denominators, Objective, Tokens, rloo
from gnomon.run.display import Silent
from gnomon.run.sanity import gate, sanity
from gnomon.store import RunReader
from gnomon.types import Conclusion

WORDS = [
    "env=char_count",
    "threads=1",
    "objective=rloo",
    "steps=24",
    "prompts=16",
    "eval.every=24",
    "eval.tasks=8",
    "optim.lr=2e-3",
]


def config() -> RunConfig:
    return resolve([overrides(WORDS)])[0]


@pytest.mark.parametrize(
    ("right", "verdict"),
    [
        ([0.3] * 5 + [0.96] * 5, Conclusion.PASS),
        ([0.96] * 5 + [0.94] * 5, Conclusion.FAIL),
        ([0.5] * 5 + [0.51] * 5, Conclusion.FAIL),
        ([0.5] * 5 + [0.6] * 5, Conclusion.INCONCLUSIVE),
        ([0.9] * 5 + [0.95] * 5, Conclusion.PASS),
    ],
)
def test_the_verdict_on_a_curve(right, verdict):
    assert gate(right, tasks=8, candidates=16).gate is verdict


def test_a_curve_too_short_is_no_verdict():
    with pytest.raises(ValueError, match="two windows"):
        gate([1.0] * 9, tasks=8, candidates=16)


@pytest.mark.long
def test_a_sound_objective_passes_and_trains_on_the_kept_tasks_alone(tmp_path: Path):
    """24 steps on 16 tasks: 0.988 with this seed; 0.928 to 0.995 over five, where one task is never found."""
    found = sanity(tmp_path / "run", config(), Silent(), candidates=64, keep=16)
    assert found.gate is Conclusion.PASS and found.tasks == 16 and found.right >= 0.95
    with RunReader(tmp_path / "run") as reader:
        kept = tomllib.loads(reader.recipe)["rollout"]["tasks"]
        assert len(kept) == 16 and kept == sorted(kept)
        assert {record.task for record in reader.records(kind="rollout")} <= set(kept)


def uphill_is_down(row: Objective) -> Objective:
    return replace(row, advantage=lambda rewards: -row.advantage(rewards))


def one_token_late(row: Objective) -> Objective:
    """Every coefficient on the token after its own, as a mask off by one would have it."""

    class Late(Objective):
        def coefficients(self, tokens: Tokens, denominators: Denominators) -> torch.Tensor:
            kappa = row.coefficients(tokens, denominators)
            first = torch.ones(len(kappa), dtype=torch.bool)
            first[1:] = tokens.sequence[1:] != tokens.sequence[:-1]
            return torch.where(first, torch.zeros_like(kappa), kappa.roll(1))

    return Late(**{name: getattr(row, name) for name in Objective.__dataclass_fields__})


# Measured: 0.0 and 0.0 uphill, 0.305 and 0.689 one token late, for two seeds each.
@pytest.mark.parametrize("sabotage", [uphill_is_down, one_token_late])
@pytest.mark.long
def test_a_sabotaged_objective_fails(sabotage, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(TABLE, "rloo", lambda: sabotage(rloo()))
    found = sanity(tmp_path / "run", config(), Silent(), candidates=64, keep=16)
    assert found.gate is not Conclusion.PASS and found.right < 0.9


def test_too_few_tasks_are_told(tmp_path: Path):
    hard, _ = resolve([overrides([*WORDS, "env.most=60"])])
    with pytest.raises(ConfigError, match="E038"):
        sanity(tmp_path / "run", hard, Silent(), candidates=12, keep=8)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_where_answers_are_given_the_policys_own_are_judged(tmp_path: Path):
    """Ten steps that hardly move it: its training rollouts are unjudged, its own answers as good as when chosen."""
    blind, _ = resolve([overrides([*WORDS, "objective=verifree", "steps=10", "optim.lr=1e-6"])])
    found = sanity(tmp_path / "run", blind, Silent(), candidates=48, keep=8)
    assert found.gate is Conclusion.FAIL and 0.2 < found.right < 0.8 and abs(found.right - found.before) < 0.02
    with RunReader(tmp_path / "run") as reader:
        assert all(step["metrics"]["correct"] == 0.0 for step in reader.metrics())
        assert reader.status == "finished"


@pytest.mark.long
def test_the_command_line_gives_the_verdict_as_json(tmp_path: Path):
    """Ten steps are too few: the exit status is that of a gate not passed, and the run can be read."""
    words = [word for word in WORDS if not word.startswith("env=")]
    words += ["steps=10", "--json", "--candidates", "48", "--keep", "8", f"run={tmp_path / 'run'}", "optim.lr=1e-5"]
    done = command("sanity", "char_count", *words)
    facts = json.loads(done.stdout)
    assert done.returncode == 1 and facts["gate"] in ("FAIL", "INCONCLUSIVE") and facts["tasks"] == 8
    with RunReader(facts["run"]) as reader:
        assert reader.status == "finished"


def test_a_run_too_short_to_be_judged_is_refused_before_it_starts(tmp_path):
    short, _ = resolve([overrides([*WORDS, "steps=9"])])
    with pytest.raises(ConfigError, match="E076"):
        sanity(tmp_path / "r", short, Silent(), candidates=8, keep=8)
    assert not (tmp_path / "r").exists()
