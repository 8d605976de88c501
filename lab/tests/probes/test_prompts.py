"""Dependence on the prompt: the rates are those of evaluations, and the permutation test agrees with enumeration."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import command
from gnomon.comparison.prompts import chance, prompts, prompts_text, spread, wordings
from gnomon.config import RunConfig, overrides, resolve
from gnomon.errors import RunError
from gnomon.export.model import weights_of
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import score
from gnomon.run.saved import saved_policy
from gnomon.run.session import measure
from gnomon.run.subject import is_run
from gnomon.stats import difference_interval
from gnomon_lab.probes.policies import settings_of

WORDS = ["env=arithmetic", "eval.tasks=12", "eval.samples=2", "rollout.max_tokens=12", "workers.count=1", "threads=1"]


def config(*words: str) -> RunConfig:
    return resolve([overrides([*WORDS, *words])])[0]


def test_a_rate_is_that_of_an_evaluation_with_these_options() -> None:
    asked = [{}, {"hint": False}, {"template": "Sum? {prompt}"}]
    found = prompts(config(), asked)
    alone = [measure(config(*words))[""] for words in ([], ["env.hint=false"], ["env.template=Sum? {prompt}"])]
    assert [each.rate for each in found.wordings] == [each.pass_at[1] for each in alone]
    assert found.wordings[0].difference is None
    by_task = [{g.task.id: sum(r.verdict.correct for r in g.rollouts) / 2 for g in each.groups} for each in alone]
    for each, scores in zip(found.wordings[1:], by_task[1:], strict=True):
        assert each.difference == difference_interval([scores[task] - by_task[0][task] for task in by_task[0]])
    text = prompts_text(found)
    assert "as it is" in text and "hint=False" in text and "12 different tasks" in text


def test_the_permutation_test_agrees_with_enumeration() -> None:
    columns = [[1.0, 1.0, 0.5, 1.0, 0.0, 1.0], [0.0, 0.5, 0.5, 0.0, 0.0, 1.0]]
    rows = list(zip(*columns, strict=True))
    swapped = [
        spread([row[::-1] if swap else row for row, swap in zip(rows, swaps, strict=True)])
        for swaps in itertools.product((False, True), repeat=len(rows))
    ]
    exact = sum(each >= spread(rows) - 1e-9 for each in swapped) / len(swapped)
    # 2,000 draws: four standard errors of a share of 0.25.
    assert chance(columns) == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 2000) ** 0.5) and exact == 0.25


def test_wordings_that_score_alike_have_no_spread() -> None:
    assert chance([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]) == 1.0


def test_the_default_wordings_and_those_that_are_named() -> None:
    assert len(wordings()) == 5 and wordings(["Q {prompt}"])[2:] == [{"template": "Q {prompt}"}]


def test_a_run_is_asked_with_its_settings_and_its_weights(tmp_path: Path) -> None:
    import gnomon

    small: dict[str, Any] = {
        "prompts": 2,
        "group": 2,
        "quiet": True,
        "rollout": {"max_tokens": 8},
        "workers": {"count": 1},
    }
    gnomon.train("arithmetic", run=tmp_path / "r", steps=1, eval={"tasks": 3}, save={"every": 1}, **small)
    name = str(tmp_path / "r")
    own = settings_of(name, ["eval.tasks=2"])
    assert is_run(name) and is_run(f"{name}:1") and not is_run("tiny")
    assert own.env.type == "arithmetic" and own.rollout.max_tokens == 8 and own.eval.tasks == 2
    assert Path(own.policy.path) == weights_of(name) == weights_of(f"{name}:1")
    with pytest.raises(RunError, match="E185"):
        settings_of(f"{name}:7")
    facts = json.loads(command("probe", "prompts", name, "--template", "Q {prompt}", "--json").stdout)
    assert [each["options"] for each in facts["wordings"]] == [{}, {"hint": False}, {"template": "Q {prompt}"}]
    assert "{prompt}" in command("probe", "prompts", name, "--template", "Q").stderr


def test_the_adapter_of_a_run_is_merged_into_its_base(tmp_path: Path) -> None:
    import gnomon

    small = {"prompts": 8, "group": 4, "max_tokens": 32, "quiet": True}
    folder = tmp_path / "r"
    gnomon.train("char_count", run=folder, steps=1, lora=4, lr=1e-2, eval={"tasks": 2}, **small)
    own = settings_of(str(folder))
    assert own.policy.lora.rank == 0 and own.rollout.max_tokens == 32
    ids = [(1, 5, 9)], [(0, (20, 21, 22))]
    merged, base = (score(Policy.load(path), *ids) for path in (own.policy.path, model_folder("tiny")))
    with_adapter = score(saved_policy(str(folder), Precision()), *ids)
    torch.testing.assert_close(merged, with_adapter, rtol=3e-6, atol=0)  # Float32 in another order of additions.
    assert not torch.allclose(merged, base, rtol=0, atol=1e-4)
