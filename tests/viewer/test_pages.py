"""A group side by side, two runs paired by task, token channels, objective cards and the audit."""

from __future__ import annotations

import json
import math
import re
import time
from base64 import b64encode
from contextlib import closing
from html import unescape
from pathlib import Path
from statistics import fmean, stdev
from struct import pack

import pytest

from gnomon.integrations.imports.files import Options
from gnomon.reading.importing import import_log
from gnomon.store import Record, Run
from gnomon.store.codec import halves
from gnomon.store.journal import open_writing
from gnomon.viewer.report import report
from viewer.conftest import asked, body, served, step_records, task


def told(html: str) -> str:
    """The text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_a_group_is_shown_side_by_side_with_its_first_differences(written):
    folder = written("a", ["one two three", "one two four", "one two", "one two three", "other"])
    with served(folder) as viewer:
        status, _, text = asked(viewer, "/run/a/-/group/0:0")
        assert status == 200 and re.findall(r"<mark>(.*?)</mark>", text) == ["four", "(ends here)", "ther"]
        assert text.count("the same text") == 1 and "3 of 5 right, mean reward 0.6" in told(text)
        text = asked(viewer, "/run/a/-/group/0:0?with=2")[2]
        assert re.findall(r"<mark>(.*?)</mark>", text) == [" three", " four", " three", "ther"]
        assert 'href="/run/a/-/rollout/0:0:4"' in text and 'href="?with=4"' in text and 'href="?with=2"' not in text
        assert asked(viewer, "/run/a/-/group/0:0?with=99")[2] == asked(viewer, "/run/a/-/group/0:0")[2]
        for nowhere in ("0:9", "0", "task:0", "x", "attempt-3:0:0"):
            assert asked(viewer, f"/run/a/-/group/{nowhere}")[0] == 404
            assert asked(viewer, f"/run/a/-/rollout/{nowhere}")[0] == 404


def test_a_difference_far_into_long_replies_is_shown(written):
    alike = "x" * 2_000_000
    with served(written("a", [alike + "left", alike + "right" + "y" * 5000])) as viewer:
        text = asked(viewer, "/run/a/-/group/0:0")[2]
        assert "<mark>right" in text and "more characters" in text and len(text) < 20_000


def measured_run(
    folder: Path, rewards: dict[str, list[float]], lr: float, evaluations: tuple[int, ...] = (0, 2), **more: object
) -> None:
    """A run of two steps whose last evaluation gave these rewards, by id of the task; earlier ones gave zeros."""
    with Run.create(folder, recipe="", manifest={}, genesis={"config": {"optim": {"lr": lr}, "seed": 0}}) as run:
        for step in sorted({0, 1, *evaluations}):
            if step in evaluations:
                last = step == evaluations[-1]
                run.append(list(evaluation(step, {name: r if last else [0.0] for name, r in rewards.items()}, **more)))
            if step < 2:
                run.append(step_records(step, [f"{folder.name} one", "two"]))


def evaluation(step: int, rewards: dict[str, list[float]], **more: object):
    for number, (name, found) in enumerate(rewards.items()):
        yield Record(kind="task", step=step, task=number, body={**task(f"question {name}", name), "of": "held_out"})
        for sample, reward in enumerate(found):
            told = body(f"{name} pays {reward} at {step}", reward, **more)
            yield Record(kind="held_out", step=step, task=number, sample=sample, body=told)
    rate = {"value": 0.5, "low": 0.25, "high": 0.75}
    kind = "evaluation" if step else "baseline"
    yield Record(kind=kind, step=step, body={"pass_at": {"1": rate}, "length": 3.0, "truncated": 0.0})


REWARDS = {
    "a": {"t1": [1.0, 0.0], "t2": [1.0, 1.0], "t3": [0.0, 0.0], "mine": [1.0, 1.0]},
    "b": {"t3": [1.0], "other": [0.0], "t2": [0.25], "t1": [0.0]},
}
DIFFERENCES = {"t1": -0.5, "t2": -0.75, "t3": 1.0}


def test_two_runs_are_paired_by_the_id_of_their_held_out_tasks(tmp_path):
    for name, rewards in REWARDS.items():
        measured_run(tmp_path / name, rewards, lr=0.001 if name == "a" else 0.01)
    with served(tmp_path) as viewer:
        status, _, html = asked(viewer, "/compare?a=a&b=b")
        text = told(html)
        assert status == 200
        assert "3 held-out tasks are in both evaluations, 1 only in that of A, 1 only in that of B" in text
        values = list(DIFFERENCES.values())
        half = 4.302652729749464 * stdev(values) / math.sqrt(3)
        mean = fmean(values)
        assert f"mean reward, B − A {mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]" in text
        assert "tasks with more reward in A 2 in B 1 equal 0" in text
        assert "says nothing about the spread between seeds" in text
        assert "config.optim.lr 0.001 0.01" in text and "config.seed" not in text
        order = [row for row in re.findall(r"question (t\d)", text)]
        assert order == ["t3", "t2", "t1"]
        for sort, expected in (("a", ["t2", "t1", "t3"]), ("b", ["t3", "t1", "t2"]), ("task", ["t1", "t2", "t3"])):
            assert re.findall(r"question (t\d)", told(asked(viewer, f"/compare?a=a&b=b&sort={sort}")[2])) == expected
        for boxes in ("run=a&run=b", "run=b&run=a"):
            chosen = told(asked(viewer, f"/compare?{boxes}")[2])
            assert f"mean reward, B − A {mean:+.4f}" in chosen, "the run that was recorded first is A"
        first = told(asked(viewer, "/compare?a=a&b=b&a_step=0&b_step=0")[2])
        assert "mean reward, B − A +0.0000 [+0.0000, +0.0000]" in first
        both = asked(viewer, "/compare/task?a=a&b=b&task=2")[2]
        assert "t3 pays 0.0 at 2" in told(both) and 'href="/run/b/-/group/held-out:2:0"' in both
        assert re.findall(r"<mark>(.*?)</mark>", both) == ["1.0"]
        assert asked(viewer, "/compare/task?a=a&b=b&task=3")[0] == 404
        assert asked(viewer, "/compare?a=a&b=nothing")[0] == 404
        assert asked(viewer, "/compare")[0] == asked(viewer, "/compare?a=a")[0] == 200
        charts = json.loads(asked(viewer, "/compare/curves?a=a&b=b")[2])["charts"]
        reward = next(chart for chart in charts if chart["title"] == "Reward")
        assert [(line["label"], line["place"]) for line in reward["series"]] == [("A", 0), ("B", 1)]
        assert reward["x"] == [0, 1] and reward["series"][1]["values"] == [0.5, 0.5]
        held_out = charts[0]["series"]
        assert [(line["label"], line["low"], line["high"]) for line in held_out] == [
            (name, [0.25, 0.25], [0.75, 0.75]) for name in "AB"
        ]


def test_runs_without_a_common_task_or_an_evaluation_are_not_paired(tmp_path):
    measured_run(tmp_path / "a", {"t1": [1.0]}, lr=0.1)
    measured_run(tmp_path / "b", {"t2": [1.0]}, lr=0.1, evaluations=(0, 1, 2))
    measured_run(tmp_path / "none", {}, lr=0.1, evaluations=())
    with served(tmp_path) as viewer:
        for other in ("b", "none"):
            text = told(asked(viewer, f"/compare?a=a&b={other}")[2])
            assert "share no task, so nothing can be paired" in text and "both runs have the same recipe" in text
        held_out = json.loads(asked(viewer, "/compare/curves?a=a&b=b")[2])["charts"][0]
        assert held_out["x"] == [0, 1, 2] and held_out["series"][0]["values"] == [0.5, None, 0.5]


def floats(*values: float) -> str:
    return b64encode(pack(f"<{len(values)}f", *values)).decode()


def channel_run(folder: Path, tier: str, **more: object) -> None:
    """A run with one rollout of a prefilled and two sampled tokens after a prompt of template and task."""
    asked_for = {**task("what?"), "prompt_ids": [5, 6, 7], "origins": [["template", 1], ["task", 2]]}
    with Run.create(folder, recipe="", manifest={"tier": tier}, genesis={"config": {}}) as run:
        trained = body("reply", token_ids=[1, 2, 3], logprobs=floats(math.nan, -0.5, -2.0), **more)
        records = [Record(kind="task", step=0, task=0, body=asked_for)]
        run.append([*records, Record(kind="rollout", step=0, task=0, sample=0, body=trained)])


def tokens_of(viewer, channel: str) -> list[dict[str, str]]:
    """Class and data of the tokens that a channel shows."""
    text = asked(viewer, f"/run/run/-/rollout/0:0:0?channel={channel}")[2]
    shown = re.search(r'<p class="tokens">(.*?)</p>', text, re.S).group(1)
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', span)) for span in re.findall(r"<span ([^>]*)>", shown)]


def test_channels_of_a_run_that_recorded_them(tmp_path):
    more = {"advantage": 0.5, "advantages": floats(0.0, -0.5, 2.0), "proximal_logp": floats(-1.0, -0.5, -1.96875)}
    more["entropy"] = halves([math.nan, 0.0, 1.5])
    channel_run(tmp_path / "run", "measured", **more)
    with served(tmp_path) as viewer:
        found = tokens_of(viewer, "advantage")
        assert [token["class"] for token in found] == ["o-prefilled", "less2", "more5"]
        assert [token["data-advantage"] for token in found] == ["0", "-0.5", "2"]
        found = tokens_of(viewer, "difference")
        assert [token.get("data-difference") for token in found] == [None, "0", "0.03125"]
        assert [token["class"] for token in found] == ["o-prefilled", "zero", "more2"]
        found = tokens_of(viewer, "entropy")
        assert [token.get("data-entropy") for token in found] == [None, "0", "1.5"]
        assert [token["class"] for token in found] == ["o-prefilled", "zero", "more4"]
        found = tokens_of(viewer, "origin")
        assert [token["data-id"] for token in found] == ["5", "6", "7", "1", "2", "3"]
        origins = ["template", "task", "task", "prefilled", "sampled", "sampled"]
        assert [token["data-origin"] for token in found] == origins
        assert [token["class"] for token in found] == [f"o-{origin}" for origin in origins]
        found = tokens_of(viewer, "nothing")
        assert [token["class"] for token in found] == ["o-prefilled", "s6", "s1"]


@pytest.mark.parametrize("tier, more, says, differs", [
    ("exact", {"advantage": 0.25}, "equal in every bit", [None, "0", "0"]),
    ("measured", {"advantage": 0.25}, "Not recorded", [None, None, None]),
    ("exact", {}, "did not use this rollout", [None, None, None]),
])  # fmt: skip
def test_channels_of_a_run_that_did_not(tmp_path, tier, more, says, differs):
    channel_run(tmp_path / "run", tier, **more)
    with served(tmp_path) as viewer:
        assert says in told(asked(viewer, "/run/run/-/rollout/0:0:0?channel=difference")[2])
        assert [token.get("data-difference") for token in tokens_of(viewer, "difference")] == differs
        assert "rollout.entropy=true" in told(asked(viewer, "/run/run/-/rollout/0:0:0?channel=entropy")[2])
        text = told(asked(viewer, "/run/run/-/rollout/0:0:0?channel=advantage")[2])
        assert ("same advantage" if more else "did not use this rollout") in text
        expected = ["0.25"] * 3 if more else [None] * 3
        assert [token.get("data-advantage") for token in tokens_of(viewer, "advantage")] == expected


def test_a_card_shows_what_the_command_shows(written):
    with served(written("a", ["x"])) as viewer:
        status, _, text = asked(viewer, "/objective/grpo")
        assert status == 200
        for words in ("expected gradient", "By enumeration", "At the edges", "Options", "bias", "source"):
            assert words in text
        (chart,) = json.loads(asked(viewer, "/objective/grpo/curve")[2])["charts"]
        assert chart["axis"] == "p" and chart["series"][-1]["values"][5] == 1.0 and len(chart["x"]) == 11
        assert 'href="/objective/grpo"' in asked(viewer, "/objectives")[2]
        assert asked(viewer, "/objective/nothing")[0] == asked(viewer, "/objective/nothing/curve")[0] == 404


def test_the_audit_before_a_run_is_a_page(tmp_path):
    finding = {
        "axis": "exploit", "rule": "exploit.hedge", "severity": "blocking", "what": "a hedge is paid", "where": "",
        "why": "it will be found", "fix": "read one answer", "count": 2, "acknowledged": True,
        "evidence": {"task": "t", "index": 0, "reply": "1 or <b>2</b>"},
    }  # fmt: skip
    receipt = {"hash": "ab", "blocking": 1, "warning": 0, "note": 0, "acknowledged": ["exploit.hedge"], "tasks": 40}
    manifests = {
        "found": {
            "audit": {**receipt, "rules": ["exploit.hedge"], "findings": [finding], "skipped": {"search": "long"}}
        },
        "earlier": {"audit": {**receipt, "rules": ["exploit.hedge"]}},
        "none": {},
    }
    for name, manifest in manifests.items():
        Run.create(tmp_path / name, recipe="", manifest=manifest, genesis={"config": {}}).close()
    with served(tmp_path) as viewer:
        found, earlier, none = (asked(viewer, f"/run/{name}/-/audit")[2] for name in manifests)
        for words in ("a hedge is paid", "1 or &lt;b&gt;2&lt;/b&gt;", "read one answer", "acknowledged", "long"):
            assert words in found
        assert "kept only the rules of the findings: exploit.hedge" in earlier and "holds no audit" in none


def test_keys_lead_through_the_pages(written, browser):
    with served(written("a", ["first one", "second one"], ["third", "fourth"])) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/rollout/0:0:1?token={viewer.token}")
        browser.press("t")
        browser.wait("location.search === '?channel=advantage' && document.readyState === 'complete'")
        browser.press("g")
        browser.wait("location.pathname.endsWith('/group/0:0') && document.readyState === 'complete'")
        assert browser.value("document.querySelector('mark').textContent") == "first"
        browser.press("u")
        browser.wait("location.pathname.endsWith('/step/0') && document.readyState === 'complete'")
        browser.press("?")
        browser.wait("document.querySelector('dialog[open] dd') !== null")
        assert "next" in browser.value("document.querySelector('dialog').textContent")
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/")
        browser.press("/")
        browser.wait("location.pathname.endsWith('/search') && document.readyState === 'complete'")
        browser.press("/")
        assert browser.value("document.activeElement.id") == "filter"
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/rollout/0:0:1")
        browser.value("document.querySelector('.token-table').open = true")
        browser.wait("document.querySelectorAll('.token-table tbody tr').length === 3")


def test_curves_of_many_steps_keep_their_extremes(tmp_path):
    values = [float(step % 7) for step in range(5000)]
    values[1234], values[4321] = 99.0, -99.0
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run:
        for first in range(0, 5000, 500):
            some = range(first, first + 500)
            run.append([Record(kind="step", step=at, body={"metrics": {"reward": values[at]}}) for at in some])
    with served(tmp_path) as viewer:
        (chart,) = json.loads(asked(viewer, "/run/a/-/curves")[2])["charts"]
        line = chart["series"][0]
        assert len(chart["x"]) == len(line["values"]) == 1000 and "every 10 steps" in chart["note"]
        assert sorted(chart["x"]) == chart["x"] and set(chart["x"]) <= set(range(5000))
        at = {value: step for step, value in zip(chart["x"], line["values"], strict=True)}
        assert abs(at[99.0] - 1234) < 10 and abs(at[-99.0] - 4321) < 10
        assert set(line["values"]) == {0.0, 6.0, 99.0, -99.0}


def test_the_curves_of_a_run_follow_it_and_a_chain_that_became_another(tmp_path):
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run, served(tmp_path) as viewer:
        for step in range(3):
            run.append([Record(kind="step", step=step, body={"metrics": {"logp_mismatch": float(step)}})])
            (chart,) = json.loads(asked(viewer, "/run/a/-/curves")[2])["charts"]
            assert chart["x"] == list(range(step + 1)) and chart["series"][0]["values"][-1] == step
        with closing(open_writing(tmp_path / "a")) as db:
            db.execute("DELETE FROM records WHERE seq >= 2")
        assert json.loads(asked(viewer, "/run/a/-/curves")[2])["charts"][0]["x"] == [0]
        assert "after 1 step " in asked(viewer, "/run/a/-/")[2]


def imported_run(folder: Path, correct: str) -> Path:
    """Two rollouts of one task that another trainer logged, without tokens but for one."""
    row = {"question": "1+1?", "text": "2", "score": 1.0, "it": 3}
    log = folder.with_suffix(".jsonl")
    log.parent.mkdir(exist_ok=True)
    log.write_text(json.dumps(row) + "\n" + json.dumps({**row, "token_ids": [40, 41], "logprobs": [-1.0, -2.0]}) + "\n")
    columns = {"prompt": "question", "reply": "text", "reward": "score", "step": "it"}
    import_log(log, folder, "jsonl", correct, Options(columns=columns))
    return folder


@pytest.mark.parametrize("correct, says", [
    ("", ["no rule says which rollouts are right", "not judged"]),
    ("reward >= 1", ["right where reward >= 1", "2 of 2 right"]),
])  # fmt: skip
def test_what_an_imported_run_does_not_have_is_a_dash_and_never_a_guess(tmp_path, correct, says):
    folder = imported_run(tmp_path / "logs" / "run", correct)
    with served(folder) as viewer:
        paths = ["", "step/3", "group/3:0", "rollout/3:0:0", "rollout/3:0:1", "task/0", "tasks", "doctor"]
        pages = {path: told(asked(viewer, f"/run/run/-/{path}")[2]) for path in paths}
    assert says[0] in pages[""] and all(says[1] in pages[path] for path in ("step/3", "group/3:0"))
    for path, text in {**pages, "report": told(report(folder)).replace("Alarms None.", "")}.items():
        assert "None" not in text and "nats" not in text and "dr_grpo" not in text, path
    assert (
        "⟨40⟩ ⟨41⟩" in pages["rollout/3:0:1"] and "– 2" in pages["step/3"] and "version" not in pages["rollout/3:0:0"]
    )
    assert "gnomon train" not in report(folder)


def test_runs_without_verdicts_have_no_difference_of_pass_at_1(tmp_path):
    rewards = {"t1": [1.0], "t2": [0.0]}
    measured_run(tmp_path / "a", rewards, lr=0.1)
    measured_run(tmp_path / "b", rewards, lr=0.1, status="unjudged")
    with served(tmp_path) as viewer:
        text = told(asked(viewer, "/compare?a=a&b=b")[2])
    assert "mean reward, B − A" in text and "pass@1, B − A" not in text
    assert "1 of 1 – question t1" in text


def test_the_held_out_curve_has_its_interval_and_the_locked_baseline(written, browser, tmp_path):
    measured_run(tmp_path / "a", REWARDS["a"], lr=0.1)
    with served(tmp_path) as viewer:
        chart = json.loads(asked(viewer, "/run/a/-/curves")[2])["charts"][0]
        rate, baseline = chart["series"]
        assert rate["low"] == [0.25, 0.25] and rate["high"] == [0.75, 0.75] and rate["values"] == [0.5, 0.5]
        assert baseline["values"] == [0.5, 0.5] and baseline["dashed"]
        page = asked(viewer, "/run/a/-/held-out/0")[2]
        assert "<dt>pass@1</dt><dd>0.500 <span" in page and "<dt>tokens per rollout</dt>" in page
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/?token={viewer.token}")
        browser.wait("document.getElementById('charts').dataset.drawn")
        # The last values, while no point is under the cursor; no row for the edges of the band.
        legend = browser.value("document.querySelector('.u-legend').innerText")
        assert legend == "step2pass@10.5 [0.25, 0.75]baseline0.5"
        drawn = "document.querySelector('canvas').toDataURL()"
        pictures = []
        for scheme in ("light", "dark"):
            browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            time.sleep(0.2)
            pictures.append(browser.value(drawn))
        browser.ask("Emulation.setEmulatedMedia", features=[])
    assert pictures[0] != pictures[1]  # The names of the axes follow the scheme although the chart is drawn already.
