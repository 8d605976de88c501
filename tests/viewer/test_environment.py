"""The page of an environment: its tasks and solutions, the commands, the receipts of audits, the curves of its runs."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from gnomon.envs import ENVS, Countdown
from gnomon.envs.gallery import example, judge_source
from gnomon.store import Record, Run
from viewer.conftest import asked, served, task


def words(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def told(html: str) -> str:
    """The text of a page."""
    return words(unescape(re.sub(r"<[^>]+>", " ", html)))


def test_an_environment_that_ships_has_a_page_with_its_tasks_and_its_runs(runs: Path) -> None:
    first = Countdown().tasks("train")[0]
    with served(runs) as viewer:
        status, _, text = asked(viewer, "/environment/countdown")
        shown = told(text)
        assert status == 200 and first.messages[-1].content in shown and first.info["solution"] in shown
        assert "def check(self, task: Task, answer: str)" in shown and "env.largest" in shown
        for verb in ("play", "check", "audit", "train"):
            assert f"gnomon {verb} countdown" in shown
        assert all(f'href="/run/{name}/-/"' in text for name in ("first", "second", "third"))
        (source,) = re.findall(r'data-source="([^"]+)"', text)
        charts = json.loads(asked(viewer, unescape(source))[2])["charts"]
        assert {line["label"] for line in charts[0]["series"]} >= {"first", "second", "third"}
        listed = asked(viewer, "/environments")[2]
        assert all(f'href="/environment/{name}"' in listed for name in ENVS)
        assert 'href="/environment/countdown"' in asked(viewer, "/")[2]
        assert "None of the runs" in asked(viewer, "/environment/scramble")[2]
        status, _, text = asked(viewer, "/environment/count_down")
        assert status == 404 and 'href="/environment/countdown"' in text


@pytest.mark.parametrize("name", sorted(ENVS))
def test_every_environment_that_ships_has_a_page(runs: Path, name: str) -> None:
    with served(runs) as viewer:
        status, _, text = asked(viewer, f"/environment/{name}")
        assert status == 200 and words(example(name)) in told(text) and words(judge_source(name)) in told(text)


def test_an_environment_of_another_package_has_what_its_runs_recorded(tmp_path: Path) -> None:
    """Its code is not imported. The receipt of the audit of a run is beside the run."""
    name = "/somewhere/my env.py:Mine"
    receipt = {"audit": {"hash": "ab", "blocking": 1, "warning": 2, "note": 0, "acknowledged": [], "tasks": 40}}
    recipe = f'[env]\ntype = "{name}"\n[policy]\npath = "tiny"\n[objective]\ntype = "grpo"\n'
    with Run.create(tmp_path / "mine", recipe=recipe, manifest=receipt, genesis={"config": {}}) as run:
        run.append([Record(kind="task", step=0, task=0, body={**task("what is <b>it</b>?", "t0"), "of": "rollout"})])
    with served(tmp_path) as viewer:
        (link,) = re.findall(r'href="(/environment/[^"]*Mine)"', asked(viewer, "/")[2])
        status, _, text = asked(viewer, link)
        assert status == 200 and "what is &lt;b&gt;it&lt;/b&gt;?" in text and "not part of Gnomon" in text
        assert f"gnomon audit '{name}'" in told(text) and "1 blocking, 2 warnings" in told(text)
