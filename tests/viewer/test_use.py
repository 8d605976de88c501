"""What a reader does with the pages: sort, filter, overlay, smooth, search, read."""

from __future__ import annotations

import json
import re
import time

import pytest

from gnomon.store import Record, Run
from gnomon.viewer.curves import group_charts
from gnomon.viewer.rollout import markdown
from viewer.browser import Browser
from viewer.conftest import asked, body, served, step_records, task
from viewer.used import screen


def names(browser: Browser) -> list[str]:
    """The runs that the table shows, in its order."""
    shown = "[...document.querySelectorAll('#runs tbody tr')].filter(row => !row.hidden)"
    return browser.value(f"{shown}.map(row => row.querySelector('.name a').textContent)")


def test_the_table_of_runs_is_sorted_and_filtered_and_its_address_keeps_both(runs, browser):
    with served(runs) as viewer:
        browser.open(viewer.url)
        assert names(browser) == ["third", "second", "first"]  # The last one that was written comes first.
        table = browser.value("document.querySelector('#runs').innerText")
        for shown in ("big", "rloo", "0.0001", "2 alarms", "baseline 0.250"):
            assert shown in table, shown
        assert browser.value("document.querySelector('a.alarm').getAttribute('href')") == "/run/second/-/#alarms"
        assert browser.value("document.querySelectorAll('#runs svg.spark polyline').length") == 3
        column = "[...document.querySelectorAll('#runs th button')].find(each => each.textContent === {}).click()"
        browser.value(column.format("'held-out pass@1'"))
        assert names(browser) == ["second", "third", "first"]
        browser.value(column.format("'held-out pass@1'"))
        assert names(browser) == ["first", "third", "second"]
        browser.value(column.format("'run'"))
        assert names(browser) == ["first", "second", "third"]
        browser.value(column.format("'learning rate'"))
        assert names(browser) == ["second", "first", "third"]
        assert browser.value("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
        browser.press("/")
        browser.value("document.getElementById('filter').value = 'GRPO tiny'")
        browser.value("document.getElementById('filter').dispatchEvent(new Event('input', {bubbles: true}))")
        assert names(browser) == ["first"]
        assert browser.value("document.getElementById('runs-count').textContent") == "1 of 3 runs"
        browser.open(browser.value("location.href"))
        assert names(browser) == ["first"] and browser.value("document.getElementById('filter').value") == "GRPO tiny"
        browser.value("document.getElementById('filter').value = ''")
        browser.value("document.getElementById('filter').dispatchEvent(new Event('input', {bubbles: true}))")
        assert names(browser) == ["second", "first", "third"]


def test_the_roles_of_a_prompt_are_apart(tmp_path):
    roles = [{"role": role, "content": f"text of {role}"} for role in ("system", "user", "assistant", "odd <role>")]
    records = [Record(kind="task", step=0, task=0, body={**task(""), "messages": roles})]
    records.append(Record(kind="rollout", step=0, task=0, sample=0, body=body("x")))
    with Run.create(tmp_path / "a", recipe="", manifest={}, genesis={"config": {}}) as run:
        run.append(records)
    with served(tmp_path) as viewer:
        for page in ("step/0", "group/0:0", "task/0"):
            text = asked(viewer, f"/run/a/-/{page}")[2]
            found = re.findall(r'<div class="(\w+)"><dt>(.*?)</dt><dd><pre>(.*?)</pre>', text)
            assert found == [
                ("system", "system", "text of system"),
                ("user", "user", "text of user"),
                ("assistant", "assistant", "text of assistant"),
                ("other", "odd &lt;role&gt;", "text of odd &lt;role&gt;"),
                ("answer", "right answer", "1"),
            ], page


def test_curves_have_whole_steps_bands_throughput_and_kl_and_are_smoothed(runs, browser):
    with served(runs) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/second/-/?token={viewer.token}")
        browser.wait("document.getElementById('charts').dataset.drawn")
        titles = browser.value("[...document.querySelectorAll('.chart h3')].map(each => each.textContent)")
        assert titles[0] == "Held-out pass@1" and {"Sampled tokens per second", "Learning rate"} <= set(titles)
        assert "KL divergence to the initial policy in nats" in titles
        speed = titles.index("Sampled tokens per second")
        assert browser.value(f"plots[{speed}].data[1]") == [50.0] * 6
        ticks = browser.value("plots.flatMap(plot => plot.axes[0]._values ?? [])")
        assert ticks and all(re.fullmatch(r"\d+", tick) for tick in ticks)
        assert browser.value("plots[0].bands.length") == 1 and browser.value("plots[1].bands?.length ?? 0") == 0
        reward = titles.index("Reward")
        raw = browser.value(f"plots[{reward}].data[1]")
        browser.value("document.getElementById('smooth').value = '0.5'")
        browser.value("document.getElementById('smooth').dispatchEvent(new Event('input', {bubbles: true}))")
        smoothed = browser.value(f"plots[{reward}].data.slice(1, 3)")
        assert smoothed[0] == raw and smoothed[1][:2] == pytest.approx([raw[0], (0.25 * raw[0] + 0.5 * raw[1]) / 0.75])
        assert "smooth=0.5" in browser.value("location.search")
        assert browser.value("plots[0].data.length") == 5  # Step, two edges, pass@1, baseline: a measurement stays.


def test_runs_are_overlaid_and_grouped(runs, browser):
    with served(runs) as viewer:
        browser.open(viewer.url)
        browser.value("document.querySelectorAll('#runs input[type=checkbox]').forEach(each => each.click())")
        browser.click("form button")
        browser.wait("location.pathname === '/overlay' && document.getElementById('charts')?.dataset.drawn")
        assert browser.value("document.querySelectorAll('tbody .chip').length") == 3
        address = "run=first&run=second&run=third"
        charts = json.loads(asked(viewer, f"/overlay/curves?{address}")[2])["charts"]
        reward = next(chart for chart in charts if chart["title"] == "Reward")
        assert [line["label"] for line in reward["series"]] == ["first", "second", "third"]
        charts = json.loads(asked(viewer, f"/overlay/curves?{address}&by=objective")[2])["charts"]
        reward = next(chart for chart in charts if chart["title"] == "Reward")
        mean, alone = reward["series"]
        assert mean["label"] == "grpo (2)" and alone["label"] == "rloo (1)" and "low" not in alone
        assert mean["values"] == pytest.approx([0.6 * step for step in range(6)])
        assert mean["low"][5] == pytest.approx(2.5) and mean["high"][5] == pytest.approx(3.5)
        assert asked(viewer, "/overlay")[0] == 200 and asked(viewer, "/overlay?run=nothing")[0] == 404
        assert "Two runs, paired" in asked(viewer, "/compare?run=first&run=second")[2]


def test_a_group_says_how_many_samples_are_out_of_sight(runs, browser):
    with served(runs) as viewer, screen(browser, 1000):
        browser.open(f"http://127.0.0.1:{viewer.port}/run/first/-/group/3:2?token={viewer.token}")
        cue = "document.querySelector('.more').innerText"
        assert "8 samples: 0 to the left, 6 to the right" in browser.value(cue)
        browser.click(".more .on")
        browser.wait(f"!{cue}.includes(' 0 to the left')")
        assert browser.value("document.querySelector('.more .back').disabled") is False
        assert "all 8 rewards" not in asked(viewer, "/run/first/-/group/3:2")[2]
        assert "all 8 rewards of the group are 0, so none differs" in asked(viewer, "/run/first/-/group/3:1")[2]


def test_held_out_tasks_lead_the_list_of_tasks(runs):
    with served(runs) as viewer:
        text = asked(viewer, "/run/first/-/tasks")[2]
        links = re.findall(r'<td data-value="\d+" class="n"><a href="([\w/-]+)">', text)
        assert links == [*(f"held-out-task/{place}" for place in range(160)), *(f"task/{place}" for place in range(32))]
        assert text.count('class="heat h4"') == 80 * 2 + 11 * 6 and 'href="group/held-out:6:1"' in text


@pytest.mark.parametrize(("path", "link"), [
    ("/run/first/-/step/99", "/run/first/-/step/5"),
    ("/run/first/-/held-out/3", "/run/first/-/held-out/0"),
    ("/run/first/-/task/900", "/run/first/-/task/31"),
    ("/run/first/-/rollout/99:0:0", "/run/first/-/step/5"),
    ("/run/frist/-/", "/run/first/-/"),
    ("/objective/drgrpo", "/objective/dr_grpo"),
    ("/run/first/-/rollout/nonsense", "/run/first/-/"),
    ("/nothing", "/"),
])  # fmt: skip
def test_a_page_that_is_not_there_links_to_one_that_is(runs, path, link):
    with served(runs) as viewer:
        status, _, text = asked(viewer, path)
        assert status == 404 and f'<li><a href="{link}">' in text and "gnomon show" not in text
        assert asked(viewer, link)[0] == 200


def test_a_search_follows_a_run_and_clears_its_filters(tmp_path, browser):
    folder = tmp_path / "live"
    with Run.create(folder, recipe="", manifest={}, genesis={"config": {}}) as run, served(folder) as viewer:
        run.append(step_records(0, ["needle one"]))
        browser.open(f"http://127.0.0.1:{viewer.port}/run/live/-/search?text=needle&token={viewer.token}")
        browser.wait("document.querySelectorAll('#fresh tbody tr').length === 1")
        run.append(step_records(1, ["needle two"]))
        browser.wait("document.querySelectorAll('#fresh tbody tr').length === 2", 20)
        browser.click("form a")
        browser.wait("location.search === '' && document.readyState === 'complete'")
        assert browser.value("document.getElementById('filter').value") == ""
        assert "clear" not in browser.value("document.querySelector('form').innerText")


def test_what_a_reader_opened_stays_open_while_a_run_continues(tmp_path, browser):
    folder = tmp_path / "live"
    with Run.create(folder, recipe="a = 1", manifest={}, genesis={"config": {}}) as run, served(folder) as viewer:
        run.append(step_records(0, ["x"]))
        browser.open(f"http://127.0.0.1:{viewer.port}/run/live/-/?token={viewer.token}")
        browser.value("[...document.querySelectorAll('details')].at(-1).open = true")
        run.append(step_records(1, ["x"]))
        browser.wait("document.body.innerText.includes('after 2 steps')", 20)
        assert browser.value("[...document.querySelectorAll('details')].at(-1).open")
        browser.value("document.querySelector('textarea').value = 'not sent yet'")
        run.append(step_records(2, ["x"]))
        time.sleep(2.5)
        assert browser.value("document.querySelector('textarea').value") == "not sent yet"
        browser.value("document.querySelector('textarea').value = ''")
        browser.wait("document.body.innerText.includes('after 3 steps')", 20)


def test_the_doctor_appears_on_the_page_of_a_run(runs, browser):
    with served(runs) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/first/-/?token={viewer.token}")
        browser.wait("document.querySelector('#doctor #diagnosis') !== null")
        text = browser.value("document.getElementById('doctor').innerText")
        assert "First cause: " in text and "Rollouts by cause" in text
        assert browser.value("document.querySelector('#doctor a').pathname").startswith("/run/first/-/rollout/")
        assert asked(viewer, "/run/first/-/doctor")[0] == 200
        page = asked(viewer, "/run/first/-/")[2]
        assert page.index("Policy <code>tiny</code>") < page.index("Fingerprint")


def test_objectives_are_searched(runs, browser):
    with served(runs) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/objectives?filter=gspo&token={viewer.token}")
        rows = "[...document.querySelectorAll('#objectives tbody tr')]"
        shown = browser.value(f"{rows}.filter(row => !row.hidden).map(row => row.cells[0].textContent)")
        assert "gspo" in shown and len(shown) < browser.value(f"{rows}.length") / 5


MARKDOWN = "# Title\n\n**bold** `code` [link](javascript:x) ![p](http://127.0.0.1:9/p) <b>no</b>\n\n```py\na < b\n```\n"


def test_a_reply_is_shown_as_markdown_on_request(written, browser):
    with served(written("a", [MARKDOWN])) as viewer:
        assert 'class="formatted"' not in asked(viewer, "/run/a/-/rollout/0:0:0")[2]
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/rollout/0:0:0?token={viewer.token}")
        browser.press("m")
        browser.wait("document.querySelector('.formatted') !== null && document.readyState === 'complete'")
        inside = "document.querySelector('.formatted {}')?.textContent"
        assert browser.value(inside.format("h4")) == "Title" and browser.value(inside.format("strong")) == "bold"
        assert browser.value(inside.format("pre code")) == "a < b\n"
        assert browser.value("document.querySelector('.formatted :is(a, img, b)')") is None
        assert "<b>no</b>" in browser.value("document.querySelector('.formatted').textContent")
        browser.press("m")
        browser.wait("document.querySelector('.reply-text') !== null")


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "`" * 50_000, "*a " * 16_000, "> " * 25_000, "|" * 50_000, "- " * 25_000]
)
def test_markdown_that_is_hard_to_read_takes_no_time(text):
    assert len(markdown(text)) < 2_000_000


def test_a_group_of_runs_that_were_measured_at_other_steps_has_a_mean_at_all_of_them():
    def drawn(x: list[int], values: list[float | None]) -> dict[str, object]:
        return {"charts": [{"title": "t", "x": x, "series": [{"label": "t", "values": values}], "page": "step"}]}

    runs = [drawn([0, 4, 8], [0.0, 4.0, 8.0]), drawn([0, 1, 2, 4], [2.0, None, 4.0, 6.0]), drawn([6], [9.0])]
    (chart,) = group_charts({"g": runs})["charts"]
    (line,) = chart["series"]
    assert chart["x"] == [0, 1, 2, 4, 6, 8] and line["label"] == "g (3)"
    assert line["values"] == [1.0, 2.0, 3.0, 5.0, 7.5, 8.0]
    assert line["low"] == [0.0, 1.0, 2.0, 4.0, 6.0, 8.0] and line["high"] == [2.0, 3.0, 4.0, 6.0, 9.0, 8.0]
