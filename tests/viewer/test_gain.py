"""What training added, on the page of a run: the card of `gnomon gain`, without sampling again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon.comparison.gain_card import Beside, Card, Cost, Format, Gain, Rates, write_card
from gnomon.stats import Interval
from gnomon.store import Run, RunReader, RunStatus
from viewer.conftest import asked, served
from viewer.used import screen, used_run


def interval(value: float) -> Interval:
    return Interval(value=value, low=value - 0.1, high=value + 0.1, n=64)


def card(folder: Path, prompt: str = "prompt of the run") -> Card:
    """A card of a run in a folder."""
    with RunReader(folder) as reader:
        fingerprint = reader.fingerprint
    names = ((prompt, False), ("4 solved examples", False), (prompt, True))
    rates = (0.2, 0.3, 0.6)
    rows = [
        Rates(prompt=name, trained=trained, pass_1=interval(rate), pass_k=interval(rate + 0.2), majority=interval(rate))
        for (name, trained), rate in zip(names, rates, strict=True)
    ]
    beside = Beside(prompt="4 solved examples", difference=interval(0.3))
    gain = Gain(
        k=8, tasks=64, rows=tuple(rows), pass_1=interval(0.4), pass_k=interval(0.05), by_run=(0.4,), over_runs=None,
        beside_1=beside, beside_k=beside,
    )  # fmt: skip
    form = Format(before=interval(0.35), after=interval(0.6), form=interval(0.15), answers=interval(0.25))
    cost = Cost(cpu_seconds=143.0, seconds=310.0)
    return Card(
        asked={"samples": 8}, runs={"0": fingerprint}, env="char_count", policy="tiny", steps=8, gain=gain, format=form,
        transfer=None, cost=cost,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "a"
    used_run(folder, policy="tiny", objective="grpo", lr=1e-3, rate=0.5)
    with Run.resume(folder) as stored:
        stored.rewind(RunReader(folder).length)
        stored.set_status(RunStatus.FINISHED)
    return folder


def test_a_page_shows_the_card_of_this_run_alone(run):
    with served(run.parent) as viewer:
        (run / "gain.json").unlink(missing_ok=True)
        text = asked(viewer, "/run/a/-/")[2]
        assert f"<code>gnomon gain {run}</code>" in text and "pass@8" not in text
        write_card(run, card(run, "<b>\u202e"))
        text = asked(viewer, "/run/a/-/")[2]
        assert "trained, &lt;b&gt;" in text and "<b>" not in text and "\u202e" not in text
        assert "+0.400 [+0.300, +0.500]. Training raised it." in text
        (run / "gain.json").write_text((run / "gain.json").read_text().replace('"0": "', '"0": "0'))
        assert "gnomon gain" in asked(viewer, "/run/a/-/")[2]  # The card of another run, or of a shorter one.
        (run / "gain.json").write_text("{")
        assert asked(viewer, "/run/a/-/")[0] == 200


@pytest.mark.parametrize("width", [1400, 420])
def test_the_card_fits_a_screen(run, browser, width):
    write_card(run, card(run))
    with served(run.parent) as viewer, screen(browser, width):
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/?token={viewer.token}")
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        rows = (
            "[...document.querySelectorAll('#gain ~ .wide')[0].querySelectorAll('tbody tr')].map(row => row.innerText)"
        )
        assert [text.split("\t")[1][:5] for text in browser.value(rows)] == ["0.200", "0.300", "0.600"]
