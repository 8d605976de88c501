"""A prediction on the page of its run."""

from __future__ import annotations

from pathlib import Path

from gnomon.store import Record, Run
from gnomon.viewer.report import report
from gnomon_lab.predictions.register import register
from viewer.conftest import asked, served


def test_the_prediction_and_its_scores_are_on_the_page_of_a_run(tmp_path: Path) -> None:
    question = {"kind": "reaches", "value": 0.5, "step": 2, "probability": 0.8}
    register(tmp_path / "a", [question], by="Ada <b>", settings={})
    with Run.create(tmp_path / "a", recipe="[budget]\nsteps = 2", manifest={}, genesis={"config": {}}) as run:
        for step, value in ((0, 0.2), (2, 0.7)):
            rate = {"value": value, "low": 0.0, "high": 1.0, "n": 100}
            body = {"pass_at": {"1": rate}, "length": 1.0, "truncated": 0.0, "statuses": {"correct": 100}}
            run.append([Record(kind="evaluation" if step else "baseline", step=step, body=body)])
            if not step:
                run.append([Record(kind="step", step=at, body={"metrics": {"reward": 0.5}}) for at in (0, 1)])
        run.set_status("finished")
    with served(tmp_path) as viewer:
        for text in (asked(viewer, "/run/a/-/")[2], report(tmp_path / "a")):
            assert "<h2>Prediction</h2>" in text and "Registered before the run by Ada &lt;b&gt;" in text
            assert "yes, 0.7" in text and "Brier 0.040" in text
