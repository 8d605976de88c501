"""Predictions about evaluation sets."""

from __future__ import annotations

from pathlib import Path

from gnomon_lab.predictions.outcome import score
from gnomon_lab.predictions.questions import Interval, Reaches
from gnomon_lab.predictions.register import register
from training.test_evaluation_sets import SETS, trained


def test_a_prediction_can_be_about_a_set(tmp_path: Path) -> None:
    asked = [
        Interval(metric="sums/pass@1", low=0.0, high=1.0),
        Interval(metric="absent/reward", low=0.0, high=1.0),
        Reaches(metric="sums/length", value=1.0, step=2, probability=0.9),
    ]
    register(tmp_path / "r", asked, by="a", settings={})
    with trained(tmp_path / "r", {"sums": {**SETS["sums"], "every": 1}}) as run:
        found = score(run)
        assert found is not None
        assert [answer.state for answer in found.answers] == ["resolved", "void", "resolved"]
        value = run.evaluations("sums")[-1].body["pass_at"]["1"]["value"]
        assert found.answers[0].value == value and found.answers[2].happened
