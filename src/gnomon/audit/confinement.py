"""Is any text of a reply executed, and does judging change anything outside the verifier?

The axis places canaries, and an audit hook of the interpreter records what a verdict opens, runs and connects to. Text
with an effect was executed. Text that was compiled without an effect was evaluated, as by a computer algebra system.
"""

from __future__ import annotations

import copy
import os
import random
import re
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from gnomon.audit.case import Case, excerpt
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, VerifierWorkers, judgement_of
from gnomon.audit.source import STANDARD, own_files
from gnomon.envs.surroundings import LESSER, changed_names, surroundings
from gnomon.workers import Returned

__all__ = ["MARK", "payloads", "probe"]

MARK = 48151623
"""A number that no task contains. Code with this constant was made from the audit's text."""
FORGED = ("1.0", "1", "correct", '{"reward": 1.0, "status": "correct"}')
"""Contents that a policy could write into a file that the verifier reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Side effects of one call."""

    place: int
    """Index of the call."""
    events: tuple[tuple[str, str], ...]
    changes: tuple[str, ...]
    judgement: Judgement
    trace: str | None = None
    """Text that the call wrote into the canary file."""


def probe(case: Case) -> Iterator[Finding]:
    with (
        tempfile.TemporaryDirectory(prefix="gnomon-canary-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        server.settimeout(0)
        canary, port = Path(folder) / "canary", server.getsockname()[1]
        attacks = [text for code in payloads(canary, port) for text in dict.fromkeys((code, case.frame.put(code)))]
        plain = [(i, reply) for i, reply in enumerate(case.rights[:4]) if reply is not None]
        plain += [(0, reply) for reply in (*map(case.frame.put, case.wrongs(0)), "", "no answer at all")]
        secret = {"GNOMON_CANARY": "canary-secret", "HOME": folder, "TMPDIR": folder}
        with VerifierWorkers(case.subject, workers=1, variables=secret) as workers:
            yield from executions(case, workers, attacks, plain, canary, server)
            yield from forge_files(case, workers, folder)


def payloads(canary: Path, port: int) -> tuple[str, ...]:
    """Texts that leave a trace if they are executed, in the forms in which verifiers have executed text."""
    shell = f"echo {MARK} > {canary}"
    system = f"__import__('os').system('{shell}')"
    write = f"open('{canary}','w').write('{MARK}'+__import__('os').environ.get('GNOMON_CANARY',''))"
    return (
        system, write, f"[[{write}]]", f"({write},)", f"(lambda: {write})()", f"f'{{{write}}}'", f'exec("{write}")',
        f"{write} or 4", f"[{write} for x in (1,)][0]", f"{{'answer': {write}}}", f"```python\n{write}\n```",
        f"!!python/object/apply:os.system ['{shell}']", f"cos\nsystem\n(S'{shell}'\ntR.",
        f"$({shell})", f"`{shell}`", f"; {shell} #", f"'; {shell} #", f"{MARK}-{MARK}+4", f"{MARK}*2**1",
        f"__import__('socket').create_connection(('127.0.0.1',{port}),1)",
        f"[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
        f".__init__.__globals__['system']('{shell}')",
    )  # fmt: skip


def executions(
    case: Case,
    workers: VerifierWorkers,
    attacks: Sequence[str],
    plain: Sequence[tuple[int, str]],
    canary: Path,
    server: socket.socket,
) -> Iterator[Finding]:
    outcome = workers.ask(watch, plain, [(0, reply) for reply in attacks], str(canary.parent))
    if not isinstance(outcome, Returned):
        case.skipped["confinement"] = f"the monitored calls did not finish: {outcome}"
        return
    watched: list[Watched] = outcome.value
    acted = [w for w in watched if w.trace is not None]
    if acted or canary.exists() or connected(server):
        judgements = [w.judgement for w in acted]
        secret = any("canary-secret" in (w.trace or "") for w in acted)
        action = "wrote the audit's canary file" if acted or canary.exists() else "connected to the audit's port"
        yield case.finding(
            "confinement.executed", Severity.BLOCKING,
            f"text in a reply {action}{' and read a secret from its environment' if secret else ''}: "
            f"{excerpt(judgements[0].reply) if judgements else 'a text of the audit'}",
            judgements, why="the policy can run code on this machine",
            fix="parse the reply; never pass it to eval, exec, a shell, YAML or pickle",
        )  # fmt: skip
    elif evaluated := [w for w in watched if any(kind == "evaluated" for kind, _ in w.events)]:
        where = next(detail for kind, detail in evaluated[0].events if kind == "evaluated")
        yield case.finding(
            "confinement.evaluates", Severity.WARNING,
            f"the verifier passes text to eval or exec: {where}; no text of the audit was executed",
            [w.judgement for w in evaluated], why="filters before eval can be bypassed",
            fix="gnomon.verifiers.evaluate, or a parser of your own",
        )  # fmt: skip
    elif computed := [w for w in watched if any(kind == "computed" for kind, _ in w.events)]:
        where = next(detail for kind, detail in computed[0].events if kind == "computed")
        yield case.finding(
            "confinement.computes", Severity.NOTE,
            f"{where} evaluates the answer as an expression; no text of the audit was executed",
            [w.judgement for w in computed], why="this is safe only while the library evaluates mathematics alone",
        )  # fmt: skip
    yield from touches(case, watched)
    yield from state_changes(case, watched)


def connected(server: socket.socket) -> bool:
    with suppress(BlockingIOError):
        server.accept()[0].close()
        return True
    return False


def touches(case: Case, watched: Sequence[Watched]) -> Iterator[Finding]:
    """Files, connections and processes that verdicts open on plain replies."""
    for kind, rule, severity, action in (
        ("wrote", "confinement.writes_file", Severity.WARNING, "writes"),
        ("read", "confinement.reads_file", Severity.WARNING, "reads"),
        ("connected", "confinement.connects", Severity.WARNING, "connects to"),
        ("started", "confinement.starts_process", Severity.NOTE, "starts"),
    ):
        counts = Counter(detail for w in watched for detail in {d for k, d in w.events if k == kind})
        if counts:
            detail, times = counts.most_common(1)[0]
            judgements = [w.judgement for w in watched if (kind, detail) in w.events]
            yield case.finding(
                rule, severity, f"a verdict {action} {detail} ({times} of {len(watched)} calls)", judgements,
                why="anything outside the task and the reply can change, also by the policy",
            )  # fmt: skip


def state_changes(case: Case, watched: Sequence[Watched]) -> Iterator[Finding]:
    names = Counter(name for w in watched for name in w.changes)
    lesser = LESSER | set(DRAWS.values())
    for rule, action, kinds, severity in (
        ("confinement.task_changed", "changes the task", {"task"}, Severity.BLOCKING),
        ("confinement.verifier_changed", "changes the verifier", {"verifier"}, Severity.WARNING),
        ("confinement.state", "changes the process's", names.keys() - lesser - {"task", "verifier"}, Severity.BLOCKING),
        ("confinement.leaves_behind", "leaves behind in the process:", names.keys() & lesser, Severity.NOTE),
    ):  # fmt: skip
        changes = sorted(kinds & names.keys())
        if changes:
            judgements = [w.judgement for w in watched if set(w.changes) & set(changes)]
            more = "" if changes in (["task"], ["verifier"]) else f" {', '.join(changes)}"
            yield case.finding(
                rule, severity, f"a verdict {action}{more} ({len(judgements)} of {len(watched)} calls)", judgements,
                why="a verdict can then depend on earlier verdicts",
            )  # fmt: skip


def forge_files(case: Case, workers: VerifierWorkers, folder: str) -> Iterator[Finding]:
    """Write forged contents into files named in the verifier's source, and judge again."""
    names = [word for word in case.words if re.fullmatch(r"(?:~/|\./)?[\w./-]*\w\.\w{2,5}", word) and "/.." not in word]
    names = [name.removeprefix("~/") for name in names if not name.startswith("/")][:20]
    wrong = case.frame.put((case.wrongs(0) or ["gnomon"])[0])
    before = workers.ask(judged_here, folder, wrong)
    if not names or not isinstance(before, Returned) or before.value.correct:
        return
    for content in FORGED:
        for name in names:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        after = workers.ask(judged_here, folder, wrong)
        for name in names:
            (Path(folder) / name).unlink(missing_ok=True)
        again = workers.ask(judged_here, folder, wrong)
        if not (isinstance(after, Returned) and isinstance(again, Returned)) or after.value.outcome != "verdict":
            continue
        if after.value.reward > before.value.reward and again.value.same == before.value.same:
            yield case.finding(
                "confinement.forged_file", Severity.BLOCKING,
                f"with {content!r} in {', '.join(names[:3])} a wrong reply gets the reward {after.value.reward:g}",
                [after.value], why="the policy can write its own reward to a file",
                fix="judge only the task and the reply, no files",
            )  # fmt: skip
            return


def judged_here(bench: Bench, folder: str, reply: str) -> Judgement:
    """In a worker: one call with the folder as working directory."""
    os.chdir(folder)
    return judgement_of(bench, 0, reply)


EVENTS: list[tuple[str, str]] | None = None
"""In a worker: the events of the hook, while a call is watched."""


def watch(
    bench: Bench, plain: Sequence[tuple[int, str]], attacks: Sequence[tuple[int, str]], folder: str
) -> list[Watched]:
    """In a worker: each call, the interpreter's events, and the state that it changed."""
    global EVENTS
    os.chdir(folder)
    canary = Path(folder, "canary")
    OWN.update(own_files(bench.verifier))
    sys.addaudithook(hook)
    for index, reply in plain:  # A first call may load and cache.
        judgement_of(bench, index, reply)
    calls = [*plain, *attacks]
    calls_watched: list[Watched] = []
    states: dict[str, list[object]] = {name: [] for name in DRAWS}
    for number, (index, reply) in enumerate(calls):
        task, original = bench.tasks[index], copy.deepcopy(bench.tasks[index])
        own = copy.deepcopy(getattr(bench.verifier, "__dict__", {}))
        reset(folder, number)
        before, EVENTS = surroundings(), []
        judgement = judgement_of(bench, index, reply)
        events, EVENTS = EVENTS, None
        after = surroundings()
        names = changed_names(before, after)
        for name in states.keys() & set(names):
            states[name].append(after[name])
        names += ["task"] * (task != original) + ["verifier"] * (getattr(bench.verifier, "__dict__", {}) != own)
        trace = canary.read_text(encoding="utf-8", errors="replace") if canary.exists() else None
        canary.unlink(missing_ok=True)
        calls_watched.append(
            Watched(
                place=number,
                events=tuple(dict.fromkeys(events)),
                changes=tuple(names),
                judgement=judgement,
                trace=trace,
            )
        )
    draws = {name: draw for name, draw in DRAWS.items() if len(set(states[name])) == len(states[name]) > 1}
    return [replace(w, changes=tuple(draws.get(name, name) for name in w.changes)) for w in calls_watched]


DRAWS = {"random state": "random draws", "numpy random state": "random draws of numpy"}
"""A generator whose state differs after every call was drawn from; one with equal states was seeded."""
OWN: set[str] = set()
"""In a worker: files of the verifier."""


def reset(folder: str, number: int) -> None:
    """Reset process state, so that a call that sets the same state each time is detected each time."""
    os.chdir(folder)
    random.seed(number)
    sys.setrecursionlimit(1000 + number)
    sys.set_int_max_str_digits(4300 + number)
    os.umask(0o022 if number % 2 else 0o077)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.environ["GNOMON_CALL"] = str(number)


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook. It records relevant events and never blocks one."""
    if EVENTS is None:
        return
    if event == "exec" and isinstance(arguments[0], CodeType):
        code = arguments[0]
        if code.co_filename.startswith("<") and "frozen" not in code.co_filename:
            caller = library(sys._getframe(1))
            if not caller:
                EVENTS.append(("evaluated", f"{code.co_names} {code.co_consts}"[:120]))
            elif holds(code):
                EVENTS.append(("computed", caller))
    elif event == "open" and isinstance(arguments[0], str | bytes):
        path, mode, flags = os.fsdecode(arguments[0]), str(arguments[1] or ""), int(arguments[2] or 0)
        if not path.endswith((".py", ".pyc", ".so")) and not path.startswith(("/proc/", "/sys/", "/dev/null")):
            writes = set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR)
            EVENTS.append(("wrote" if writes else "read", path))
    elif event == "socket.connect":
        EVENTS.append(("connected", str(arguments[1])))
    elif event in ("os.system", "subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork"):
        EVENTS.append(("started", f"a process ({event})"))


def library(frame: FrameType | None) -> str:
    """The installed package whose code evaluates text; empty if it is the verifier's own code."""
    while frame is not None and frame.f_code.co_filename.startswith("<"):
        frame = frame.f_back
    file = frame.f_code.co_filename if frame is not None else ""
    installed = "site-packages" in file or file.startswith(STANDARD)
    return frame.f_globals["__name__"].partition(".")[0] if frame is not None and installed and file not in OWN else ""


def holds(code: CodeType) -> bool:
    """Whether the code contains `MARK` as a constant."""
    return any(
        holds(value) if isinstance(value, CodeType) else str(MARK) in str(value) or value == 2 * MARK
        for value in code.co_consts
    )
