"""Runs as a reader of many has them, and screens of a size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnomon.store import Record, Run
from viewer.browser import Browser
from viewer.conftest import body, task

__all__ = ["screen", "used_run"]

RECIPE = """
[env]
type = "countdown"
[policy]
path = "{policy}"
[objective]
type = "{objective}"
[optim]
lr = {lr}
"""
LONG = "a sentence of the reply that is rather long, and_a_word_without_any_spaces_" + "x" * 90 + " "


def group(step: int, place: int, rewards: list[float], kind: str = "rollout") -> Iterator[Record]:
    yield Record(kind="task", step=step, task=place, body={**task(f"question {place}", f"t{place}"), "of": kind})
    for sample, reward in enumerate(rewards):
        replied = body(f"{LONG * 4}{reward} at {step}", reward, extracted="(7-6)+6", advantage=0.0)
        yield Record(kind=kind, step=step, task=place, sample=sample, body=replied)


def used_run(folder: Path, *, policy: str, objective: str, lr: float, rate: float, alarms: int = 0) -> Path:
    """A run of 6 steps of 32 groups of 8, measured on 160 held-out tasks before and after."""
    recipe = RECIPE.format(policy=policy, objective=objective, lr=lr)
    with Run.create(folder, recipe=recipe, manifest={"tier": "exact"}, genesis={"config": {"lr": lr}}) as run:
        for step in range(7):
            if step in (0, 6):
                tasks = [
                    record for place in range(160) for record in group(step, place, [float(place % 2)], "held_out")
                ]
                value = rate if step else 0.25
                measured = {"pass_at": {"1": {"value": value, "low": value - 0.1, "high": value + 0.1}}}
                end = {**measured, "length": 3.0, "truncated": 0.0}
                run.append([*tasks, Record(kind="evaluation" if step else "baseline", step=step, body=end)])
            if step < 6:
                kinds = ([1.0] * 8, [0.0] * 8, [0.0, 1.0] * 4)
                tasks = [record for place in range(32) for record in group(step, place, kinds[place % 3])]
                metrics = {"reward": rate * step, "tokens": 100.0, "kl": 0.1 * step, "lr": lr}
                run.append([*tasks, Record(kind="step", step=step, body={"metrics": metrics, "statuses": {}})])
                run.time(step, {"seconds": 4.0, "training": 2.0})
        for number in range(alarms):
            sentence = f"alarm {number}"
            run.note("alarm", {"name": "variance.collapse", "step": 3, "sentence": sentence, "read": ["3:0:0"]})
    return folder


@contextmanager
def screen(browser: Browser, width: int, scheme: str = "light") -> Iterator[None]:
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        yield
    finally:
        browser.ask("Emulation.clearDeviceMetricsOverride")
        browser.ask("Emulation.setEmulatedMedia", features=[])
