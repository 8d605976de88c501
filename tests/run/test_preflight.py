"""The audit before a run shows how far it is, and how a slow one is made shorter."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass

import pytest

from gnomon.audit import Axis, audit, subject_of
from gnomon.config import RunConfig, overrides, resolve
from gnomon.envs import Countdown
from gnomon.errors import ConfigErrors
from gnomon.run import display, preflight
from gnomon.run.display import Display, Guarded, Silent
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class AlwaysRight(Countdown):
    def check(self, task: Task, answer: str) -> bool:
        return True


def test_an_audit_shows_every_axis_and_how_many_replies_are_judged() -> None:
    seen: list[tuple[Axis, int]] = []
    axes = [Axis.CORRECTNESS, Axis.EXPLOIT]
    audit(subject_of(Countdown(), count=8), axes=axes, watch=lambda axis, judged: seen.append((axis, judged)))
    assert list(dict.fromkeys(axis for axis, _ in seen)) == axes
    counts = [judged for _, judged in seen]
    assert counts == sorted(counts) and 0 < counts[0] < counts[-1]


def test_a_slow_audit_names_a_setting_that_leaves_an_axis_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SLOW", -1.0)
    config, texts = resolve([overrides(["env=countdown", "env.seed=91"])])[0], list[str]()
    preflight.audit_receipt(config, Countdown(seed=91), Silent(), texts.append)
    word = next(text.partition("; ")[2].removesuffix(" leaves this axis out") for text in texts if "exploit" in text)
    (setting,) = shlex.split(word)
    without, texts = resolve([overrides(["env=countdown", "env.seed=92", setting])])[0], []
    preflight.audit_receipt(without, Countdown(seed=92), Silent(), texts.append)
    assert texts and not any(text.startswith("exploit") for text in texts)


def test_the_way_to_accept_findings_keeps_those_that_are_accepted() -> None:
    """Else each error asks to accept the others alone, for ever."""
    words = ["env=countdown", "env.seed=93", 'audit.acknowledge=["availability.slow"]']
    config, env = resolve([overrides(words)])[0], AlwaysRight(seed=93)
    with pytest.raises(ConfigErrors) as caught:
        preflight.audit_receipt(config, env, Silent(), print)
    *others, last = caught.value.errors
    assert '["availability.slow","' in last.fix
    assert others and not any("accepts it" in error.fix for error in others)  # The last line of all says it once.


def test_a_phase_shows_how_far_it_is_where_no_terminal_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig.model_validate({"env": {"type": "countdown"}})
    with Guarded(Display(config)).phase("auditing") as show:
        show("a moment later")
        monkeypatch.setattr(display, "QUIET", 0.0)
        time.sleep(0.01)
        show("9 replies judged")
    assert capsys.readouterr().out.startswith("auditing …\nauditing: 9 replies judged\nauditing: ")
