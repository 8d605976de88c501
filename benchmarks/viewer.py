"""How fast the viewer serves runs of many rollouts: python benchmarks/viewer.py --rollouts 50000 1000000

Writes a run of so many rollouts through the store, verifies it, builds its side index, and then measures the time in
which the server answers each page (median and largest of 20 requests) and the first paint in a headless Chromium.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from gnomon.store import Record, Run, RunReader, RunStatus, canonical, verify
from gnomon.store.journal import INSERT, open_writing, tail, transaction
from gnomon.store.layout import ROOT, link
from gnomon.store.layout import pack as pack_row
from gnomon.viewer import Viewer
from gnomon.viewer.index import Index

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "viewer"))

GROUPS, GROUP, TASKS, EVERY, HELD_OUT = 32, 8, 5000, 20, 128
"""Groups per step, rollouts per group, train tasks, steps between evaluations, held-out tasks."""
REQUESTS, PAINTS = 20, 5
FIRST = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
"""Milliseconds from the click to the first contentful paint, as JavaScript."""
RECIPE = '[env]\ntype = "countdown"\n\n[objective]\ntype = "dr_grpo"\n\n[budget]\nsteps = {steps}\n'
PARTS = ("correct", "format")
METRICS = (
    *("reward", "correct", "length", "truncated", "tokens", "all_right", "all_wrong", "failed", "entropy"),
    *("grad_norm", "lr", "trained", "logp_mismatch", "drift", "clipped"),
    *(f"part/{part}" for part in PARTS),
    *(f"breakdown/{part}/{name}" for part in PARTS for name in ("paid", "return", "covariance", "variance")),
)


def written(folder: Path, rollouts: int, seed: int = 0) -> float:
    """Write a finished run with so many rollouts of training, which `verify` accepts. Returns: seconds.

    The rollouts are drawn from a pool of bodies that are packed once; their places and hashes are their own.
    """
    draw, began, steps = random.Random(seed), time.perf_counter(), rollouts // (GROUPS * GROUP)
    words = ["".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(2, 9))) for _ in range(4000)]
    Run.create(folder, recipe=RECIPE.format(steps=steps), manifest={"tier": "exact"}, genesis={"config": {}}).close()
    pool = Pool(draw, words)
    with closing(open_writing(folder)) as db:
        count, head = tail(db, folder, 1)
        for first in range(0, steps + 1, 20):
            with transaction(db, folder):
                for step in range(first, min(first + 20, steps + 1)):
                    for record, body in records(step, steps, draw, pool):
                        head = link(head, record, body.raw)
                        place = (record.kind, record.step, record.task, record.sample)
                        row = (count, *place, body.packed, body.stored, head, *body.glance)
                        db.execute(INSERT, row)
                        count += 1
                    timing = (1.7e9 + step, step, '{"seconds":1.5,"training":1.0}')
                    db.execute("INSERT INTO timings (at, step, body) VALUES (?, ?, ?)", timing)
    with Run.resume(folder) as run:
        run.rewind(count)
        run.set_status(RunStatus.FINISHED)
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a record as it is stored."""

    raw: bytes
    stored: bytes
    packed: int
    glance: tuple[Any, ...]

    @classmethod
    def of(cls, kind: str, body: dict[str, Any]) -> Body:
        row = pack_row(0, ROOT, Record(kind=kind, step=0, body=body))
        return cls(canonical(body), row[6], row[5], row[8:])


class Pool:
    """Bodies to draw from: of every task, and of right and wrong rollouts."""

    def __init__(self, draw: random.Random, words: list[str]) -> None:
        kinds = {"rollout": TASKS, "held_out": HELD_OUT}
        self.tasks = {
            kind: [Body.of("task", asked(kind, task, draw, words)) for task in range(count)]
            for kind, count in kinds.items()
        }
        self.rollouts = {
            (kind, right): [Body.of(kind, rollout(kind, right, draw, words)) for _ in range(5000)]
            for kind in kinds
            for right in (True, False)
        }


def records(step: int, steps: int, draw: random.Random, pool: Pool) -> Iterator[tuple[Record, Body]]:
    """The records of a step, without their bodies, and the bodies."""
    skill = 0.2 + 0.6 * step / max(1, steps)
    if step % EVERY == 0 or step == steps:
        yield from groups("held_out", step, range(HELD_OUT), 1, skill, draw, pool)
        kind = "evaluation" if step else "baseline"
        yield Record(kind=kind, step=step, body={}), Body.of(kind, evaluation(skill))
    if step < steps:
        yield from groups("rollout", step, draw.sample(range(TASKS), GROUPS), GROUP, skill, draw, pool)
        metrics = {name: draw.random() for name in METRICS}
        yield Record(kind="step", step=step, body={}), Body.of("step", {"metrics": metrics, "statuses": {"correct": 3}})


def groups(
    kind: str, step: int, tasks: Iterable[int], size: int, skill: float, draw: random.Random, pool: Pool
) -> Iterator[tuple[Record, Body]]:
    for task in tasks:
        yield Record(kind="task", step=step, task=task, body={}), pool.tasks[kind][task]
        for sample in range(size):
            body = draw.choice(pool.rollouts[kind, draw.random() < skill])
            yield Record(kind=kind, step=step, task=task, sample=sample, body={}), body


def asked(kind: str, task: int, draw: random.Random, words: list[str]) -> dict[str, Any]:
    numbers, more = draw.choices(range(99), k=4), " ".join(draw.choices(words, k=8))
    text = f"Using the numbers {numbers}, make {draw.randrange(999)}. {more}"
    return {
        "of": kind, "id": f"{kind}-{task}", "messages": [{"role": "user", "content": text}],
        "answer": str(task), "prompt_ids": draw.choices(range(90), k=60), "origins": [["task", 60]],
    }  # fmt: skip


def rollout(kind: str, right: bool, draw: random.Random, words: list[str]) -> dict[str, Any]:
    """One rollout of about 40 tokens and 200 characters."""
    size = draw.randint(20, 60)
    logps = pack(f"<{size}f", *(-draw.random() for _ in range(size)))
    return {
        "reply": " ".join(draw.choices(words, k=30)) + " <answer>1 + 2</answer>",
        "token_ids": draw.choices(range(90), k=size), "logprobs": b64encode(logps).decode(), "tokens": size,
        "finish": "stop" if draw.random() < 0.9 else "length", "stop": "done", "version": 0,
        "reward": 1.0 if right else draw.choice((0.0, 0.1)),
        "status": "correct" if right else draw.choice(("wrong", "wrong", "wrong", "no_answer", "malformed")),
        "parts": [{"name": part, "value": float(right), "weight": 0.5, "gate": None} for part in PARTS],
        "extracted": "1 + 2", "span": [10, 15], "detail": "",
        **({"advantage": draw.random() - 0.5} if kind == "rollout" else {}),
    }  # fmt: skip


def evaluation(skill: float) -> dict[str, Any]:
    rate = {"value": skill, "low": skill - 0.05, "high": skill + 0.05, "n": HELD_OUT}
    return {"pass_at": {"1": rate}, "length": 40.0, "truncated": 0.1}


@contextmanager
def served(*places: Path) -> Iterator[Viewer]:
    viewer = Viewer(places)
    gc.freeze()  # As `gnomon view` does.
    thread = Thread(target=viewer.run, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.stop()
        thread.join(10)


def pages(steps: int) -> dict[str, str]:
    """The pages to measure, by what they are."""
    middle, run = steps // 2, "/run/a/-/"
    return {
        "runs": "/",
        "a run": run,
        "its curves": f"{run}curves",
        "what changed": f"{run}state",
        "what the doctor finds": f"{run}doctor",
        "tasks through the run": f"{run}tasks",
        "a step": f"{run}step/{middle}",
        "an evaluation": f"{run}held-out/{middle // EVERY * EVERY}",
        "search: nothing given": f"{run}search",
        "search: status, last steps": f"{run}search?status=malformed&first={steps * 9 // 10}",
        "search: a rare status and finish": f"{run}search?status=malformed&finish=length&high=0.05",
        "search: a reward that none has": f"{run}search?low=0.3&high=0.9",
        "search: a common text": f"{run}search?text=answer",
        "search: a text of a prompt": f"{run}search?text={quote('make 77.')}",
        "search: a text that none has": f"{run}search?text=xyzzyqq",
        "search: a task": f"{run}search?task=rollout-77",
        "two runs": "/compare?a=a&b=b",
        "their curves": "/compare/curves?a=a&b=b",
        "the curves of both, grouped": "/overlay/curves?run=a&run=b&by=objective",
        "an objective": "/objective/dr_grpo",
        "the audit": f"{run}audit",
    }


def of_a_task(folder: Path, steps: int) -> dict[str, str]:
    """The pages of one group, rollout and task."""
    with RunReader(folder) as reader:
        row = reader.rollout_rows(step=steps // 2)[0]
    place, run = f"{row.step}:{row.task}", "/run/a/-/"
    return {
        "a group side by side": f"{run}group/{place}",
        "a rollout": f"{run}rollout/{place}:0",
        "a rollout by origin": f"{run}rollout/{place}:0?channel=origin",
        "a task": f"{run}task/{row.task}",
        "its curve": f"{run}task/{row.task}/curves",
    }


def answered(viewer: Viewer, path: str) -> tuple[list[float], list[float]]:
    """Milliseconds of the answers by the clock, and of processor time; the first answer stands first."""
    found, computed = [], []
    for _ in range(REQUESTS):
        request = Request(
            f"http://127.0.0.1:{viewer.port}{path}", headers={"Cookie": f"gnomon_{viewer.port}={viewer.token}"}
        )
        began, worked = time.perf_counter(), time.process_time()
        with urlopen(request, timeout=120) as answer:
            answer.read()
        found.append(1000 * (time.perf_counter() - began))
        computed.append(1000 * (time.process_time() - worked))
    return found, computed


def painted(viewer: Viewer, paths: dict[str, str], show: Callable[[str], None]) -> None:
    """First contentful paint of pages in a headless Chromium, in milliseconds since the click."""
    from browser import Browser

    program = shutil.which("chromium")
    if program is None:
        show("no chromium: first paint is not measured")
        return
    with TemporaryDirectory() as profile:
        browser = Browser(program, Path(profile))
        try:
            browser.open(viewer.url)
            for name, path in paths.items():
                times = []
                for _ in range(PAINTS):
                    browser.open(f"http://127.0.0.1:{viewer.port}{path}")
                    browser.wait(f"{FIRST} !== undefined")
                    times.append(float(browser.value(FIRST)))
                show(f"| {name} | {statistics.median(times):.0f} | {max(times):.0f} |")
        finally:
            browser.close()


def measured(folder: Path, rollouts: int, show: Callable[[str], None]) -> None:
    """Everything about runs of one size. Args: folder: holds the runs `a` and `b`, which are written if missing."""
    for name, seed in (("a", 0), ("b", 1)):
        size = rollouts if name == "a" else min(rollouts, 50_000)
        if not (folder / name / "journal.db").exists():
            show(f"run {name}: {size} rollouts written in {written(folder / name, size, seed):.0f} s")
    began, report = time.perf_counter(), verify(folder / "a")
    show(f"verify: {'sound' if report else report} in {time.perf_counter() - began:.0f} s")
    began, index = time.perf_counter(), Index(folder / "a")
    while not index.follow(600).complete:
        pass
    size = sum(path.stat().st_size for path in index.path.parent.glob(f"{index.path.name}*"))
    journal = (folder / "a" / "journal.db").stat().st_size
    seconds = time.perf_counter() - began
    show(f"side index: {seconds:.0f} s, {size / 1e6:.0f} MB beside a journal of {journal / 1e6:.0f} MB")
    steps = rollouts // (GROUPS * GROUP)
    with served(folder) as viewer:
        paths = pages(steps) | of_a_task(folder / "a", steps)
        show(f"load of the machine: {os.getloadavg()[0]:.1f}")
        show("| page | first answer, ms | median | largest of the others | processor time, first | median |")
        for name, path in paths.items():
            times, computed = answered(viewer, path)
            cells = (
                times[0],
                statistics.median(times[1:]),
                max(times[1:]),
                computed[0],
                statistics.median(computed[1:]),
            )
            show(f"| {name} | {' | '.join(f'{cell:.0f}' for cell in cells)} |")
        show("| first paint | median, ms | largest |")
        painted(
            viewer, {name: path for name, path in paths.items() if "curve" not in name and name != "what changed"}, show
        )


def started(folder: Path, show: Callable[[str], None]) -> None:
    """Seconds from the command `gnomon view` to the first paint of the list of runs, in a browser that is open."""
    from browser import Browser

    command = [sys.executable, "-m", "gnomon", "view", str(folder), "--no-browser"]
    with TemporaryDirectory() as profile:
        browser = Browser(shutil.which("chromium") or "chromium", Path(profile))
        try:
            for _ in range(PAINTS):
                browser.open("about:blank#")
                began = time.perf_counter()
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                    assert process.stdout is not None
                    url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
                    browser.open(url)
                    browser.wait(f"{FIRST} !== undefined")
                    seconds = time.perf_counter() - began
                    process.terminate()
                    _, _, used = os.wait4(process.pid, 0)
                computed = used.ru_utime + used.ru_stime
                show(f"first paint {seconds:.2f} s after the command; processor time {computed:.2f} s")
        finally:
            browser.close()


def attacked(folder: Path, count: int, show: Callable[[str], None]) -> None:
    """Every page about a run of hostile texts in a headless Chromium: what the attacks achieved."""
    from browser import Browser
    from hostile import hostile_run, pages, probe

    hostile_run(folder / "hostile", count, long_lines=3)
    with TemporaryDirectory() as profile, served(folder) as viewer:
        browser, own = Browser(shutil.which("chromium") or "chromium", Path(profile)), f"http://127.0.0.1:{viewer.port}"
        try:
            browser.open(viewer.url)
            browser.requests.clear()
            paths = list(pages("hostile", count))
            found = []
            for path in paths:
                browser.open(own + path)
                if achieved := browser.value(probe()):
                    found.append(f"{path}: {achieved}")
            elsewhere = {url for url in browser.requests if not url.startswith((own, "data:,"))}
        finally:
            browser.close()
    show(f"{len(paths)} pages over {count} hostile rollouts: {len(found)} changed by one, {browser.dialogs} dialogs, ")
    show(f"{len(browser.requests)} requests, {len(elsewhere)} to elsewhere")
    for line in [*found, *elsewhere]:
        show(line)


def pictured(a: Path, b: Path, out: Path) -> None:
    """Write the pictures of docs/reading-runs.md. Args: a, b: two runs of one environment, of 40 steps or more."""
    from browser import Browser

    with RunReader(a) as reader:
        step = reader.steps - 1
        right = Counter(row.task for row in reader.rollout_rows(step=step) if row.status == "correct")
        task = min(right, key=lambda task: abs(right[task] - GROUP / 2))
        rows = [row for row in reader.rollout_rows(step=step, task=task) if row.status != "correct"]
    one, two = f"/run/{a.name}/-/", f"a={a.name}&b={b.name}"
    shots = {
        "runs": ("/", False), "overlay": (f"/overlay?run={a.name}&run={b.name}", True),
        "run": (one, False), "run-dark": (one, True), "step": (f"{one}step/{step}", False),
        "group": (f"{one}group/{step}:{task}", False),
        "rollout": (f"{one}rollout/{step}:{task}:{rows[0].sample}", False),
        "rollout-entropy": (f"{one}rollout/{step}:{task}:{rows[0].sample}?channel=entropy", False),
        "rollout-dark": (f"{one}rollout/{step}:{task}:{rows[0].sample}?channel=origin", True),
        "search": (f"{one}search?text=answer&status=wrong", False), "compare": (f"/compare?{two}", False),
    }  # fmt: skip
    out.mkdir(exist_ok=True)
    with TemporaryDirectory() as profile, served(a, b) as viewer:
        browser = Browser(shutil.which("chromium") or "chromium", Path(profile))
        try:
            browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=850, deviceScaleFactor=1, mobile=False)
            browser.open(viewer.url)
            for name, (path, dark) in shots.items():
                scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
                browser.ask("Emulation.setEmulatedMedia", features=scheme)
                browser.open(f"http://127.0.0.1:{viewer.port}{path}")
                browser.wait("(e => !e || e.dataset.drawn)(document.getElementById('charts'))")
                browser.wait("!document.querySelector('#doctor[data-source] a[href=doctor]')")
                browser.picture(out / f"{name}.png", dark=dark)
        finally:
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[50_000])
    parser.add_argument("--folder", type=Path, help="keeps the runs, and uses those that are there")
    parser.add_argument("--hostile", type=int, default=0, metavar="N", help="only try so many hostile rollouts")
    parser.add_argument("--pictures", type=Path, nargs=3, metavar=("A", "B", "OUT"), help="only picture two runs")
    parser.add_argument("--start", type=Path, metavar="FOLDER", help="only time the start of the viewer over a folder")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        os.environ["XDG_CACHE_HOME"] = str((given.folder or Path(temporary)) / "cache")
        if given.pictures:
            pictured(*given.pictures)
            return
        if given.start:
            started(given.start, lambda line: print(line, flush=True))
            return
        if given.hostile:
            attacked(Path(temporary), given.hostile, lambda line: print(line, flush=True))
            return
        for rollouts in given.rollouts:
            print(f"\n{rollouts} rollouts", flush=True)
            measured((given.folder or Path(temporary)) / str(rollouts), rollouts, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
