"""The pages of the viewer, served and loaded: what they show, what they refuse, and what they do not execute."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

import gnomon
import gnomon.viewer
from gnomon.errors import RunError
from gnomon.store import Record, Run, RunReader
from gnomon.viewer import Viewer
from gnomon.viewer.report import report
from viewer.conftest import asked, body, served, step_records, task
from viewer.hostile import attacks

STATIC = Path(gnomon.viewer.__file__).parent / "static"
PAGES = ("/", "/run/a/-/", "/run/a/-/step/0", "/run/a/-/task/0", "/run/a/-/rollout/0:0:0")


def test_every_page_shows_what_was_recorded(written):
    written("a", ["right <one>", "wrong"], ["later", "worse"])
    with served(written("b", ["x"]).parent) as viewer:
        texts = {page: asked(viewer, page) for page in PAGES}
        assert {status for status, _, _ in texts.values()} == {200}
        assert "a" in texts["/"][2] and "/run/b/-/" in texts["/"][2] and "char_count" in texts["/"][2]
        assert "right &lt;one&gt;" in texts["/run/a/-/step/0"][2] and "1 of 2 right" in texts["/run/a/-/step/0"][2]
        assert "<dt>mean reward</dt><dd>0.5</dd>" in texts["/run/a/-/step/0"][2]
        assert "later" in texts["/run/a/-/task/0"][2] and "what?" in texts["/run/a/-/task/0"][2]
        page = texts["/run/a/-/rollout/0:0:0"][2]
        assert (
            "solved" in page
            and 'href="./0:0:1"' in page
            and 'class="o-prefilled"' in page
            and 'data-logp="-0.5"' in page
        )
        curves = json.loads(asked(viewer, "/run/a/-/curves")[2])
        assert [chart["title"] for chart in curves["charts"]][:2] == ["Reward", "Length in tokens"]
        assert curves["charts"][0]["x"] == [0, 1] and curves["charts"][0]["series"][0]["values"] == [0.5, 0.5]


def test_the_page_of_a_run_leads_to_the_best_and_the_worst_rollouts_of_its_newest_step(tmp_path):
    rewards = [[0.5, 0.1], [0.9, 0.4], [0.95, 0.2], [None, 0.6], [0.7, 0.7]]
    records = [Record(kind="task", step=3, task=place, body=task("what?")) for place in range(5)]
    records += [
        Record(kind="rollout", step=3, task=place, sample=sample, body=body(f"reply {reward}") | {"reward": reward})
        for place, group in enumerate(rewards)
        for sample, reward in enumerate(group)
    ]
    records.append(Record(kind="step", step=3, body={"metrics": {"reward": 0.5}, "statuses": {}}))
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run:
        run.append(step_records(2, ["older"]))
        run.append(records)
    with served(tmp_path / "a") as viewer:
        text = asked(viewer, "/run/a/-/")[2]
        listed = ["3:2:0", "3:1:0", "3:4:0", "3:2:1", "3:0:1", "3:3:0"]
        assert re.findall(r'href="/run/a/-/rollout/(.*?)"', text) == listed
        assert 'href="/run/a/-/task/0"' in text and "reply 0.95" in text and "reply 0.5" not in text
        assert "older" not in text and asked(viewer, "/run/a/-/rollout/3:2:0")[0] == 200


def test_a_list_of_rollouts_is_filtered_by_status_and_text(written):
    with served(written("a", ["needle one", "needle two", "hay", "hay needle"])) as viewer:
        page = asked(viewer, "/run/a/-/step/0?status=wrong&text=NEEDLE")[2]
        assert "2 of 4 rollouts" in page and "needle two" in page and "hay needle" in page and "needle one" not in page
        assert "0 of 4 rollouts" in asked(viewer, "/run/a/-/step/0?status=nonsense")[2]


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/run/nothing/-/",
        "/run/a/-/step/9",
        "/run/a/-/rollout/0:0:9",
        "/run/a/-/rollout/x",
        "/run/a/-/task/9",
    ],
)
def test_what_is_not_there_is_answered_in_a_sentence(written, path):
    with served(written("a", ["x"])) as viewer:
        status, _, text = asked(viewer, path)
        assert status == 404 and "Traceback" not in text and "<h1>Not found</h1>" in text and len(text) < 3000


def test_a_task_of_many_steps_is_shown_page_by_page(written):
    with served(written("a", *([f"reply {step}"] * 100 for step in range(6)))) as viewer:
        first, second = (asked(viewer, f"/run/a/-/task/0{query}")[2] for query in ("", "?before=4"))
        assert "Step 5" in first and "Step 4" in first and "Step 3" not in first and 'href="?before=4"' in first
        assert "Step 3" in second and "Step 2" in second and "Step 5" not in second and "reply 3" in second
        assert "6 steps sampled it" in first and "before" not in asked(viewer, "/run/a/-/task/0?before=2")[2]
        (chart,) = json.loads(asked(viewer, "/run/a/-/task/0/curves")[2])["charts"]
        assert chart["x"] == list(range(6)) and chart["series"][0]["values"] == [0.5] * 6


def test_a_damaged_run_does_not_hide_the_others(written):
    good, bad = written("good", ["x"]), written("bad", ["x"])
    (bad / "journal.db").write_bytes(b"no database")
    with served(good.parent) as viewer:
        status, _, text = asked(viewer, "/")
        assert status == 200 and "/run/good/-/" in text and "error[E405]" in text


def test_only_a_browser_of_this_machine_with_the_token_is_answered(written):
    with served(written("a", ["x"])) as viewer:
        own = f"127.0.0.1:{viewer.port}"
        assert asked(viewer, "/", token=False)[0] == 403
        status, headers, _ = asked(viewer, f"/run/a/-/?token={viewer.token}&run=a&run=b&x=", token=False)
        assert status == 303 and headers["Location"] == "/run/a/-/?run=a&run=b&x="
        assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=strict" in headers["Set-Cookie"]
        assert asked(viewer, f"/?token={viewer.token}x", token=False)[0] == 403
        assert asked(viewer, "/", Host="evil.example")[0] == 403
        assert asked(viewer, "/", Host=f"127.0.0.1:{viewer.port + 1}")[0] == 403
        assert asked(viewer, "/", Origin="http://evil.example")[0] == 403
        assert asked(viewer, "/", Origin=f"http://{own}")[0] == 200
        assert asked(viewer, "/", Sec_Fetch_Site="cross-site")[0] == 403
        assert asked(viewer, "/", method="POST", Origin=f"http://{own}")[0] == 405
        assert asked(viewer, "/", method="PUT", Origin=f"http://{own}")[0] == 405
        assert asked(viewer, "/static/../app.py")[0] == 404
        for page in (*PAGES, "/static/viewer.js", "/run/nothing/-/"):
            headers = asked(viewer, page)[1]
            assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store"


def test_the_plotting_library_is_the_published_one():
    assert sha256((STATIC / "uplot.js").read_bytes()).hexdigest() == (
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
    )
    assert "MIT License" in (STATIC / "uplot.LICENSE").read_text()


def test_a_huge_reply_is_shown_in_pieces(written):
    with served(written("a", ["x" * 10_000_000])) as viewer:
        status, _, text = asked(viewer, "/run/a/-/rollout/0:0:0")
        assert status == 200 and len(text) < 200_000 and "?from=50000" in text
        assert len(asked(viewer, "/run/a/-/rollout/0:0:0?from=9990000")[2]) < 100_000


def test_a_click_leads_from_a_curve_to_the_text_and_keys_move_on(written, browser):
    with served(written("a", ["first", "second"], ["third", "fourth"])) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/?token={viewer.token}")
        browser.wait("document.getElementById('charts').dataset.drawn === '3'")
        browser.press("s")
        browser.wait("location.pathname.endsWith('/step/1') && document.readyState === 'complete'")
        browser.press("u")
        browser.wait("location.pathname.endsWith('/-/') && document.querySelector('.chart') !== null")
        browser.value("document.querySelector('.chart details').open = true")
        browser.wait("document.querySelector('.chart td a')?.getAttribute('href') === 'step/0'")
        browser.click(".chart .u-over")
        browser.wait("location.pathname.includes('/step/') && document.readyState === 'complete'")
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/step/0")
        browser.press("n")
        browser.wait("location.pathname.endsWith('/step/1') && document.body.innerText.includes('third')")
        browser.click(".rollouts a")
        browser.wait("location.pathname.endsWith('/rollout/1:0:0') && document.readyState === 'complete'")
        browser.press("n")
        browser.wait("location.pathname.endsWith('/rollout/1:0:1') && document.body.innerText.includes('fourth')")
        browser.click(".tokens span[data-logp]")
        browser.wait("document.querySelector('.token-facts').textContent.includes('log-probability')")


def test_a_page_of_a_running_run_shows_its_newest_step_within_two_seconds(tmp_path, browser):
    folder = tmp_path / "live"
    with Run.create(folder, recipe="", manifest={}, genesis={"config": {}}) as run, served(folder) as viewer:
        run.append(step_records(0, ["x", "y"]))
        browser.open(f"http://127.0.0.1:{viewer.port}/run/live/-/?token={viewer.token}")
        browser.wait("document.body.innerText.includes('after 1 step')")
        run.append(step_records(1, ["x", "y"]))
        # Two seconds are the promise on a quiet machine; tests share theirs.
        browser.wait("document.body.innerText.includes('after 2 steps')", 20)
        browser.wait("document.getElementById('charts').dataset.drawn === '3'")


def test_a_query_by_step_does_not_read_the_other_steps(written):
    folder = written("a", *(["x"] * 4 for _ in range(40)))
    with RunReader(folder) as reader:
        for named in ({"step": 7}, {"task": 0, "step": 7}):
            terms = " AND ".join(f"{'+' * (name == 'kind')}{name} = 0" for name in ("kind", *named))
            plan = reader._query(f"EXPLAIN QUERY PLAN SELECT body FROM records WHERE seq >= 0 AND {terms} ORDER BY seq")
            assert "records_by_kind" not in str(plan)
        assert len(list(reader.records("rollout", 7))) == len(reader.rollout_rows(7)) == 4


def test_a_report_is_one_page_with_rollouts_that_nobody_chose(written, browser, tmp_path):
    folder = written("a", *([text, "plain"] for text in attacks(13)))
    text = report(folder)
    assert text == report(folder) and len(text) < 2_000_000
    assert not re.search(r"<[^>]*(src|href)=", text) and "<script" not in text.replace("&lt;script", "")
    with RunReader(folder) as reader:
        assert reader.fingerprint in text and "save the recipe below" in text and "by dr_grpo, 32 tasks" in text
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    browser.open(file.as_uri())
    assert browser.value("document.querySelectorAll('article').length") == 10
    assert browser.value("document.querySelectorAll('svg path').length") == 4
    assert browser.value("document.title") == "a · report" and browser.value("window.owned") is None
    assert browser.value("document.querySelectorAll('h1').length") == 1


def test_a_rollout_without_an_answer_is_shown(tmp_path):
    part = {"name": "solved", "value": 0.0, "weight": 1.0, "gate": None}
    replied = body("no slot", 0.0, status="no_answer", extracted=None, span=None, parts=[part])
    records = [Record(kind="task", step=0, task=0, body=task("what?"))]
    records += [Record(kind="rollout", step=0, task=0, sample=0, body=replied)]
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run:
        run.append(records)
    with served(tmp_path / "a") as viewer:
        status, _, text = asked(viewer, "/run/a/-/rollout/0:0:0")
        assert status == 200 and "Extracted answer: none" in text and "None" not in text


def test_a_game_shows_its_boards_and_how_often_a_reply_was_not_legal(tmp_path):
    settings = {"steps": 1, "prompts": 2, "group": 2, "eval": {"every": 1000, "tasks": 2, "samples": 1}}
    with gnomon.train("tic_tac_toe", run=tmp_path / "a", quiet=True, **settings) as run:
        record = next(each for each in run.records(kind="rollout") if "calls" in each.body)
    with served(tmp_path / "a") as viewer:
        _, _, text = asked(viewer, f"/run/a/-/rollout/0:{record.task}:{record.sample}")
        assert "───┼───┼───\n 4 │ 5 │ 6 " in text and "Last position" in text
        assert "Replies without a legal action" in asked(viewer, "/run/a/-/curves")[2]
        assert f"replies without a legal action: {record.body['calls']['illegal']}" in text


@pytest.mark.parametrize(("span", "extracted", "marked"), [
    ([8, 11], "<1>", "so it is<mark>&lt;1&gt;</mark>, I think"),
    ([0, 2], "<1>", "so it is&lt;1&gt;, I think"),
    ([8, 9999], "<1>", "so it is&lt;1&gt;, I think"),
    (None, "", "so it is&lt;1&gt;, I think"),
])  # fmt: skip
def test_the_extracted_answer_is_marked_where_it_stands_in_the_reply(tmp_path, span, extracted, marked):
    records = [Record(kind="task", step=0, task=0, body=task("what?"))]
    replied = body("so it is<1>, I think", extracted=extracted, span=span)
    records += [Record(kind="rollout", step=0, task=0, sample=0, body=replied)]
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run:
        run.append(records)
    with served(tmp_path / "a") as viewer:
        page = asked(viewer, "/run/a/-/rollout/0:0:0")[2]
        assert f'<pre class="reply-text">{marked}</pre>' in page


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(RunError, match="E404"):
        Viewer([tmp_path / "nowhere"])
