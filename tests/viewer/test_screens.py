"""The pages on a wide and on a narrow screen, in the light and in the dark."""

from __future__ import annotations

import re

import pytest

from gnomon.viewer.report import report
from viewer.conftest import asked, served
from viewer.used import screen

NARROW = (
    "/", "/run/second/-/", "/run/second/-/step/3", "/run/second/-/held-out/6", "/run/second/-/group/3:2",
    "/run/second/-/rollout/3:2:0", "/run/second/-/rollout/3:2:0?as=markdown", "/run/second/-/task/2",
    "/run/second/-/tasks", "/run/second/-/search?text=sentence", "/run/second/-/doctor", "/run/second/-/audit",
    "/compare?a=first&b=second", "/compare/task?a=first&b=second&task=1", "/overlay?run=first&run=second&by=policy",
    "/objectives", "/objective/grpo", "/environments", "/environment/countdown", "/environment/dataset",
    "/run/second/-/step/99",
)  # fmt: skip


def test_a_narrow_screen_scrolls_no_page_sideways_and_shows_pass_at_1(runs, browser, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(report(runs / "second"), encoding="utf-8")
    with served(runs) as viewer, screen(browser, 420):
        browser.open(viewer.url)
        for path in NARROW:
            browser.open(f"http://127.0.0.1:{viewer.port}{path}")
            browser.wait("(e => !e || e.dataset.drawn)(document.getElementById('charts'))")
            assert browser.value("document.documentElement.scrollWidth <= innerWidth"), path
        browser.open(f"http://127.0.0.1:{viewer.port}/")
        cell = "document.querySelector('#runs tbody td:nth-child(3)').getBoundingClientRect()"
        assert browser.value(f"{cell}.right") <= 420 and "0.900" in browser.value("document.body.innerText")
        browser.open(file.as_uri())
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")


def test_a_step_shows_mixed_groups_first_and_folds_the_others(runs, browser):
    with served(runs) as viewer, screen(browser, 1400):
        browser.open(f"http://127.0.0.1:{viewer.port}/run/first/-/step/3?token={viewer.token}")
        right = browser.value("[...document.querySelectorAll('.group summary .n')].map(each => each.textContent)")
        assert right == ["4 of 8 right"] * 10 + ["0 of 8 right"] * 11 + ["8 of 8 right"] * 11
        assert browser.value("document.querySelectorAll('.group[open]').length") == 1
        assert browser.value("document.documentElement.scrollHeight") < 3500  # Unfolded: more than 30,000.
        assert "10 groups mixed, 11 groups all wrong, 11 groups all right" in browser.value("document.body.innerText")
        wrong = browser.value("document.querySelector('.group[open] .why').textContent")
        assert wrong == "(7-6)+6 = 7, not 1"
        browser.open(f"http://127.0.0.1:{viewer.port}/run/first/-/held-out/6")
        assert browser.value("document.documentElement.scrollHeight") < 5000
        assert browser.value("document.querySelectorAll('.group').length") == 100
        text = asked(viewer, "/run/first/-/held-out/6?from=100")[2]
        assert text.count('<details class="group"') == 60 and "next groups" not in text
        text = asked(viewer, "/run/first/-/step/3?low=0.5&text=SENTENCE")[2]
        assert "128 of 256 rollouts" in text and '<a href="3">clear</a>' in text and text.count("<details") == 21
        assert "128 of 256 rollouts" in asked(viewer, "/run/first/-/step/3?high=0.5")[2]


SHADES = """
(() => {
  const part = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * part(r / 255) + .7152 * part(g / 255) + .0722 * part(b / 255);
  const probe = document.body.appendChild(document.createElement('i'));
  const rules = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]);
  const names = rules.filter(rule => rule.selectorText === ':root').flatMap(rule => [...rule.style]);
  return Object.fromEntries(names.filter(name => name.startsWith('--')).map(name => {
    probe.style.color = `var(${name})`;
    return [name, light(getComputedStyle(probe).color.match(/\\d+/g).map(Number))];
  }));
})()
"""
"""The luminance of every colour of the pages."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_and_tokens_do_not_glare_in_the_dark(runs, browser, scheme):
    with served(runs) as viewer, screen(browser, 1200, scheme):
        browser.open(viewer.url)
        shade = browser.value(SHADES)

    def contrast(a: str, b: str) -> float:
        low, high = sorted((shade[f"--{a}"], shade[f"--{b}"]))
        return (high + 0.05) / (low + 0.05)

    for text in ("text", "quiet", "link", "right", "wrong"):
        assert min(contrast(text, "back"), contrast(text, "soft")) >= 4.5, text
    assert min(contrast(f"c{place}", "back") for place in range(8)) >= 3.0
    tokens = [name[2:] for name in shade if re.fullmatch(r"--(s\d|less\d|more\d|zero|o-\w+)", name)]
    assert len(tokens) == 28
    for token in tokens:
        assert contrast("token", token) >= 4.5, token
        assert scheme == "light" or shade[f"--{token}"] < 0.13, token
    assert contrast("text", "marked") >= 4.5
