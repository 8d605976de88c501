"""What all tests share: they run side by side, say which programs they lack, and count what they found."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest
from _pytest.terminal import TerminalReporter

from gnomon.errors import ResourceError
from gnomon.sandbox.probe import capabilities

PACKAGES = {"bwrap": "bubblewrap", "bc": "bc", "vim": "vim", "chromium": "chromium"}
"""Programs that some tests need (`@pytest.mark.needs("bwrap")`), with the packages that hold them."""
CLIENTS = ("agents", "anthropic", "langgraph", "minisweagent", "openai", "smolagents")
EXTRAS = {
    "PIL": "vision",
    "bitsandbytes": "low-memory",
    "gguf": "smollm2",
    "ray": "ray",
    "sphinx": "docs",
    **dict.fromkeys(CLIENTS, "agents"),
}
"""Python packages that some tests need in the same way, with the extra of this project that holds them."""
ALL = "GNOMON_TEST_ALL"
"""Variable that makes it a failure if a program is not there. Without it, the tests that need one are left out."""

REFUSED = re.compile(r"\bE52[012]\b")
"""Errors by which the package refuses to run code without a sandbox."""
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def installed(program: str) -> bool:
    if program in EXTRAS:
        return find_spec(program) is not None
    return any(map(shutil.which, (program, f"{program}-browser")))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="Run at most this many cases of each test.")
    parser.addoption("--left-out", metavar="FILE", help="Write the ids of skipped tests to a file.")
    parser.addoption("--only", metavar="FILE", help="Run only the tests of such a file, and the long ones.")
    parser.addoption("--long", type=int, default=0, help="With --cases, the same for long tests; by default 0.")
    parser.addoption("--half", metavar="TEXT", help="Leave out half of the long tests; the text decides which.")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays, so no search for garbage passes over it: a third of the time of collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--cases`, leave out all but some cases of each parametrised test, and of those marked as long.

    All cases of a test that is marked as `every` are run.
    The cases are chosen by the hash of their names: the same in every run, and others for every test.
    """
    if path := config.getoption("--only"):
        listed = set(Path(path).read_text("utf-8").splitlines())
        chosen = {
            item
            for item in items
            if item.get_closest_marker("long") or listed & {item.nodeid, item.nodeid.partition("::")[0]}
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    if (most := config.getoption("--cases")) is None:
        return
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)

    def most_of(test: str, item: pytest.Item) -> int:
        if not item.get_closest_marker("long"):
            return most
        salt = config.getoption("--half")
        return 0 if salt and sha256(f"{salt} {test}".encode()).digest()[0] % 2 else config.getoption("--long")

    kept = {
        item
        for test, of_test in cases.items()
        for place, item in enumerate(sorted(of_test, key=lambda item: sha256(item.nodeid.encode()).digest()))
        if item.get_closest_marker("every") or place < most_of(test, item)
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_configure() -> None:
    os.environ.setdefault("RAY_worker_niceness", "0")  # Beside other tests, actors with a niceness of 15 hardly run.
    missing = [program for program in (*PACKAGES, *EXTRAS) if not installed(program)]
    if os.environ.get(ALL) and missing:
        raise pytest.UsageError(f"{ALL} is set and {', '.join(missing)} cannot be found: {installation(missing)}")


def installation(missing: Iterable[str]) -> str:
    """The commands that install programs and packages."""
    packages = " ".join(PACKAGES[program] for program in missing if program in PACKAGES)
    extras = ",".join(EXTRAS[program] for program in missing if program in EXTRAS)
    commands = [f"apt-get install {packages}"] * bool(packages) + [f'pip install -e ".[{extras}]"'] * bool(extras)
    return "; ".join(commands)


@cache
def usable(program: str) -> bool:
    """Whether tests can use a program; of bwrap, whether this user can build a sandbox with it."""
    if not installed(program):
        return False
    try:
        return program != "bwrap" or bool(capabilities())
    except ResourceError:
        return False


def pytest_runtest_setup(item: pytest.Item) -> None:
    if os.environ.get(ALL):
        return
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if not usable(program):
                pytest.skip(f"needs {program}")


def left_out(report: Report, path: str, line: int) -> Report:
    """The report of what ended because nothing untrusted is run without a sandbox, where none can be built."""
    if report.failed and not os.environ.get(ALL) and REFUSED.search(report.longreprtext) and not usable("bwrap"):
        report.outcome, report.longrepr = "skipped", (path, line, "Skipped: needs bwrap")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return left_out((yield), str(item.path), item.location[1] or 0)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file may build a sandbox as it is imported."""
    return left_out((yield), str(collector.path), 0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Each leaves torch with one thread, whatever its run had asked for."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Over all processes: what the suite has found out, and which tests were left out for want of a program."""
    if path := config.getoption("--left-out"):
        skipped = dict.fromkeys(report.nodeid for report in terminalreporter.stats.get("skipped", []))
        Path(path).write_text("".join(f"{name}\n" for name in skipped), "utf-8")
    told = {
        "test_mutant_is_killed[": "mutants killed: {passed} of {all}",
        "test_planted_defect_is_found[": "planted defects found: {passed} of {all}",
        "test_sound_verifier_is_not_stopped[": "false alarms over sound verifiers: {failed} of {all}",
        "test_a_planted_fault_blocks_by_its_rule[": "planted faults of foreign rewards found: {passed} of {all}",
        "test_a_sound_reward_is_not_stopped[": "false alarms over sound foreign rewards: {failed} of {all}",
    }
    for test, words in told.items():
        passed, failed = (
            sum(test in report.nodeid for report in terminalreporter.stats.get(outcome, []))
            for outcome in ("passed", "failed")
        )
        if passed or failed:
            terminalreporter.write_line(words.format(passed=passed, failed=failed, all=passed + failed))
    reasons = (str(report.longrepr[-1]) for report in terminalreporter.stats.get("skipped", []))
    lacking = Counter(reason.rpartition(" needs ")[2] for reason in reasons if " needs " in reason)
    if left_out := {program: count for program, count in lacking.items() if program in PACKAGES | EXTRAS}:
        words = ", ".join(f"{count} without {program}" for program, count in left_out.items())
        terminalreporter.write_line(f"tests left out: {words} ({installation(left_out)})")
