"""Viewers that are really served, and a headless Chromium that really loads their pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest

from gnomon.store import Record, Run
from gnomon.viewer import Viewer
from viewer.browser import Browser

LOGPROBS = "AACAvwAAAL8AAMB/"
"""−1, −0.5 and NaN, a prefilled token, as little-endian float32."""


@contextmanager
def served(*places: Path) -> Iterator[Viewer]:
    viewer = Viewer(places)
    thread = Thread(target=viewer.run, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.stop()
        thread.join(10)


class NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def asked(viewer: Viewer, path: str, *, token: bool = True, method: str = "GET", **headers: str):
    """Status, headers and text of an answer. Args: token: whether the cookie is sent."""
    cookie = {"Cookie": f"gnomon_{viewer.port}={viewer.token}"} if token else {}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(f"http://127.0.0.1:{viewer.port}{path}", headers={**cookie, **names}, method=method)
    opener = build_opener(NoRedirects)
    try:
        answer = opener.open(request, timeout=30)
    except OSError as error:
        answer = error
    return answer.status, answer.headers, answer.read().decode()


def body(reply: str, reward: float = 1.0, **more: object) -> dict[str, object]:
    """The body of a rollout's record."""
    return {
        "reply": reply,
        "token_ids": [1, 2, 3],
        "logprobs": LOGPROBS,
        "tokens": 3,
        "finish": "stop",
        "stop": "done",
        "version": 0,
        "reward": reward,
        "status": "correct" if reward == 1.0 else "wrong",
        "parts": [{"name": "solved", "value": reward, "weight": 1.0, "gate": ""}],
        "extracted": "",
        "span": [],
        "detail": "",
        **more,
    }


def task(text: str, name: str = "t", answer: object = "1") -> dict[str, object]:
    return {
        "of": "rollout",
        "id": name,
        "messages": [{"role": "user", "content": text}],
        "answer": answer,
        "prompt_ids": [],
    }


def step_records(step: int, replies: list[str], asked_for: str = "what?") -> list[Record]:
    """A step of one task with these replies."""
    metrics = {"reward": 0.5, "correct": 0.5, "length": 3.0, "logp_mismatch": 0.0}
    return [
        Record(kind="task", step=step, task=0, body=task(asked_for)),
        *(
            Record(kind="rollout", step=step, task=0, sample=sample, body=body(reply, float(sample % 2 == 0)))
            for sample, reply in enumerate(replies)
        ),
        Record(kind="step", step=step, body={"metrics": metrics, "statuses": {}}),
    ]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def written(tmp_path) -> Callable[..., Path]:
    """A finished run whose steps hold these replies."""

    def write(
        name: str, *steps: list[str], recipe: str = '[env]\ntype = "char_count"\n', asked_for: str = "what?"
    ) -> Path:
        folder = tmp_path / "runs" / name
        with Run.create(folder, recipe=recipe, manifest={"tier": "exact"}, genesis={"config": {}}) as run:
            for step, replies in enumerate(steps):
                run.append(step_records(step, replies, asked_for))
        return folder

    return write


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs chromium")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """Three runs, of two objectives and two policies; one raised alarms."""
    from viewer.used import used_run

    folder = tmp_path_factory.mktemp("runs")
    used_run(folder / "first", policy="tiny", objective="grpo", lr=1e-3, rate=0.5)
    used_run(folder / "second", policy="tiny", objective="rloo", lr=1e-2, rate=0.9, alarms=2)
    used_run(folder / "third", policy="models/big", objective="grpo", lr=1e-4, rate=0.7)
    return folder
