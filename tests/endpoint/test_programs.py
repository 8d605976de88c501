"""Programs in the sandbox: what they may reach, how they end, and runs in which they play the episodes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import gnomon
from commands import command
from endpoint.programs import renderer_of
from endpoint.serving import Policy
from gnomon.agents.recorder import Bounds, Recorder
from gnomon.envs.agent import End, Launch, over
from gnomon.keys import Key
from gnomon.reading.address import Address
from gnomon.reading.rollouts import rollout, rollout_text
from gnomon.rendering import Renderer, Transcript
from gnomon.rollout.programs import CONNECTIONS, Programs, locate
from gnomon.sandbox.descendants import descendants
from gnomon.store import RunReader
from gnomon.store.codec import decode
from gnomon.types import Calls, Sampling, Status
from gnomon.viewer.rollout import rollout_facts

pytestmark = pytest.mark.needs("bwrap")
HERE = Path(__file__).parent
ASK = """
import json, os, sys, urllib.request
def ask(text, path="/chat/completions"):
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""
SMALL = {"threads": 1, "steps": 2, "rollout": {"prompts": 2, "group": 4, "max_tokens": 24}, "eval": {"tasks": 4}}
WORDS = ["threads=1", "steps=2", "rollout.prompts=2", "group=4", "max_tokens=24", "eval.tasks=4", "save.every=1"]
ENV = f"{HERE / 'team_env.py'}:Team"


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return renderer_of("chatml", tmp_path_factory.mktemp("family"))


def recorder_of(renderer: Renderer, delay: float = 0.0, *, policy: Policy | None = None, calls: int = 5) -> Recorder:
    policy = policy or Policy(renderer, lambda prompt, rng: "fox", delay)
    begin = partial(Transcript.begin, renderer)
    sampling, bounds = Sampling(max_tokens=50), Bounds(calls=calls)
    return Recorder(renderer, begin, policy.sample, key=Key(0), sampling=sampling, bounds=bounds, piece=str)


def ended(renderer: Renderer, source: str, *, delay: float = 0.0, **more: object) -> tuple[End, Recorder]:
    """How a Python program ends, and what the policy recorded."""
    recorder = recorder_of(renderer, delay)
    run = (sys.executable, "-c", ASK + textwrap.dedent(source))
    launch = Launch(**{"command": run, "seconds": 20.0, **more})  # type: ignore[arg-type]
    return asyncio.run(Programs().play(launch, recorder, "secret")), recorder


def test_a_program_has_its_folder_its_input_and_the_policy(renderer: Renderer):
    source = """
        text = sys.stdin.read() + open("data/in").read()
        open("out.txt", "w").write(ask(text)); os.symlink("/etc/passwd", "link")
        import tempfile; tempfile.mkstemp(); open(os.path.expanduser("~/session"), "wb").write(os.urandom(9))
        print("over", file=sys.stderr); sys.exit(7)
    """
    end, recorder = ended(renderer, source, files={"data/in": b"\xff", "keep": b"1"}, stdin=b"q")
    assert end.status == 1 and "UnicodeDecodeError" in end.output
    end, recorder = ended(renderer, source, files={"data/in": b"2", "keep": b"1"}, stdin=b"q")
    assert (end.status, end.output, end.limit) == (7, "over\n", "")
    assert end.files == {"data/in": b"2", "keep": b"1", "out.txt": b"fox"}
    assert len(recorder.turns()) == 1 and End.loads(end.dumps({"keep": b"1"}), {"keep": b"1"}) == end


@pytest.mark.parametrize(
    ("source", "status", "limit", "turns"),
    [
        ("", 0, "", 0),
        ("ask('x'); os.kill(os.getpid(), 9)", -signal.SIGKILL, "", 1),
        ("ask('x'); import time; time.sleep(60)", None, "time", 1),
        (
            "import threading, time; threading.Thread(target=ask, args=('x',), daemon=True).start(); time.sleep(0.3)",
            0,
            "",
            0,
        ),
        ("import subprocess; subprocess.Popen(['sleep', '100'], start_new_session=True); ask('x')", 0, "", 1),
        ("print('x' * 10**6)", 0, "", 0),
        ("b = bytearray(2**32)", 1, "", 0),
        ("open('big', 'wb').write(bytes(2**27))", 1, "files", 0),
    ],
)
def test_every_way_to_end_is_an_end(renderer: Renderer, source: str, status: int | None, limit: str, turns: int):
    delay = 5.0 if "daemon=True" in source else 0.0
    end, recorder = ended(renderer, source, delay=delay, seconds=3.0 if limit else 20.0)
    assert (end.status, end.limit, len(recorder.turns())) == (status, limit, turns), end
    assert len(end.output) <= 2**16 and sum(map(len, end.files.values())) <= 2**26


def test_what_happened_to_its_calls_is_counted(renderer: Renderer):
    source = """
        def post(path, retries=0, **more):
            body = json.dumps({"messages": [{"role": "user", "content": "q"}], **more}).encode()
            headers = {"x-api-key": os.environ["OPENAI_API_KEY"], "x-stainless-retry-count": str(retries)}
            request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, body, headers)
            try:
                return urllib.request.urlopen(request, timeout=3).status
            except urllib.error.HTTPError as error:
                return error.code
        chat = "/chat/completions"
        print([post(chat), post(chat, 1), post(chat, n=2), post(chat, n=3, stream=True), post("/embeddings"),
               *(post(chat, tool_choice="required") for _ in range(5))])
    """
    end, recorder = ended(renderer, source)
    assert end.output == "[200, 200, 400, 400, 404, 200, 200, 200, 200, 403]\n", end.output
    refused = {"limit_calls": 1, "not_found": 1, "unsupported_n": 2}
    assert recorder.calls == Calls(refused=refused, retried=1, required=4) and len(recorder.turns()) == 5


def test_a_reply_that_never_arrives_is_counted(renderer: Renderer):
    source = """
        import socket, time
        body = json.dumps({"messages": [{"role": "user", "content": "q"}]})
        with socket.create_connection(("127.0.0.1", 8000)) as client:
            client.sendall(f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer secret\\r\\n"
                           f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
        time.sleep(1.5)
    """
    end, recorder = ended(renderer, source, delay=0.5)
    assert end.status == 0 and recorder.turns() == () and recorder.calls == Calls(undelivered=4), end


def test_a_sandbox_that_the_host_ended_is_a_failure(renderer: Renderer):
    """Not a limit: the program had no part in it."""

    def kill() -> None:
        started.wait(20)
        for process in descendants():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    started = threading.Event()
    recorder = recorder_of(renderer)
    recorder.settle = lambda outcome, delivered: started.set()  # type: ignore[method-assign]
    killer = threading.Thread(target=kill)
    killer.start()
    launch = Launch(command=(sys.executable, "-c", ASK + "ask('x')\nimport time; time.sleep(60)"), seconds=30.0)
    end = asyncio.run(Programs().play(launch, recorder, "secret"))
    killer.join()
    assert (end.status, end.limit) == (None, "sandbox")
    with pytest.raises(RuntimeError, match="ended before the program"):
        over(end, (0.0, 1.0))


def test_there_is_no_way_out(renderer: Renderer):
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        source = f"""
            import socket
            for place in (("127.0.0.1", {port}), ("1.1.1.1", 80), ("10.0.0.1", 80)):
                try:
                    socket.create_connection(place, 1); print("open", place)
                except OSError as error:
                    print(type(error).__name__)
            for path in ("/reward", "/sessions/secret/reward_info"):
                try:
                    ask("x", path)
                except urllib.error.HTTPError as error:
                    print(error.code)
            print(os.path.exists({str(HERE)!r}))
        """
        end, recorder = ended(renderer, source)
    lines = end.output.split()
    assert "open" not in lines and lines[-3:] == ["404", "404", "False"], end.output
    assert recorder.turns() == ()


def test_a_program_reads_its_own_file_and_nothing_beside_it(renderer: Renderer, tmp_path: Path):
    (tmp_path / "answers").write_text("42")
    program = tmp_path / "agent.py"
    program.write_text(
        f"import os; print(os.listdir({str(tmp_path)!r}), os.path.exists('/root/.ssh'), len(os.listdir('/')))"
    )
    assert locate(("/bin/sh", "-c", "x")) == (("/bin/sh", "-c", "x"), ("/bin/sh",))
    recorder = recorder_of(renderer)
    end = asyncio.run(Programs().play(Launch(command=("python", str(program))), recorder, "k"))
    assert end.status == 0 and end.output.startswith("['agent.py'] False "), end


def test_the_interpreter_may_be_called_by_a_path_with_dots(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/{os.path.relpath(sys.executable, tmp_path)}")
    launch = Launch(command=("python", "-c", "print(1)"))
    end = asyncio.run(Programs().play(launch, recorder_of(renderer), "k"))
    assert (end.status, end.output) == (0, "1\n"), end


def test_a_program_may_have_descriptors_above_1024(renderer: Renderer):
    """As the last of many programs has. `select.select` takes none of these."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        end, recorder = ended(renderer, "print(ask('x'))")
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (end.status, end.output) == (0, "fox\n") and len(recorder.turns()) == 1, end


def test_a_program_cannot_take_all_connections(renderer: Renderer):
    """Those that it has go on to work; beyond a number, a further one is closed."""
    source = """
        import select, socket
        first = socket.create_connection(("127.0.0.1", 8000))
        held = [socket.create_connection(("127.0.0.1", 8000)) for _ in range(200)]
        body = b'{"messages": [{"role": "user", "content": "q"}]}'
        first.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer secret\\r\\n"
                      b"Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
        reply = b"".join(iter(lambda: first.recv(9999), b""))
        closed = select.select(held, [], [], 0)[0]
        print(len(closed), {each.recv(1) for each in closed}, b"fox" in reply)
    """
    end, recorder = ended(renderer, source)
    assert end.output == f"{201 - CONNECTIONS} {{b''}} True\n" and len(recorder.turns()) == 1, end


def test_many_programs_at_once(renderer: Renderer):
    async def play() -> list[End]:
        programs = Programs()
        launch = Launch(command=("/bin/sh", "-c", "cat > out; sleep 0.2"), stdin=b"x")
        return await asyncio.gather(*(programs.play(launch, recorder_of(renderer), "k") for _ in range(24)))

    assert all(end.status == 0 and end.files == {"out": b"x"} for end in asyncio.run(play()))


THREADS = """
from random import Random
from threading import Thread
from time import sleep
def go_on(place, text, pauses):
    said = ""
    for pause in pauses:
        sleep(pause)
        said = ask(text + said)
    replies[place] = said
pauses = [step / 20 for step in range(8)]
Random(int(sys.argv[1])).shuffle(pauses)
replies = [""] * 4
threads = [Thread(target=go_on, args=(n, "xyzz"[n], pauses[2 * n : 2 * n + 2])) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*sorted(replies))
"""


def test_parallel_calls_in_any_order_are_the_same_rollout(renderer: Renderer):
    """Four threads of two calls each, two of them with equal first requests. Each seed permutes their pauses."""

    async def play(seed: int) -> tuple[str, Recorder, list[str]]:
        policy = Policy(renderer, lambda prompt, rng: str(rng.random()), delay=0.02)
        recorder = recorder_of(renderer, policy=policy, calls=8)
        launch = Launch(command=(sys.executable, "-c", ASK + THREADS, str(seed)), seconds=20.0)
        return (await Programs().play(launch, recorder, "secret")).dumps(), recorder, policy.prompts

    ends, recorders, arrivals = zip(*(asyncio.run(play(seed)) for seed in range(4)), strict=True)
    assert len({*map(tuple, arrivals)}) == 4, "every seed is another order"
    assert len({*ends}) == 1 and len(recorders[0].turns()) == 8, ends
    assert all(recorder.turns() == recorders[0].turns() for recorder in recorders)


@contextmanager
def workers_killed(most: int) -> Iterator[list[int]]:
    """Kills a process that runs environments, again and again. Yields their process ids, as it kills them."""
    killed, over = list[int](), threading.Event()

    def kill() -> None:
        while not over.wait(0.7) and len(killed) < most:
            for process in descendants()[::-1]:
                with suppress(OSError):
                    if b"gnomon.workers" in Path(f"/proc/{process}/cmdline").read_bytes():
                        os.kill(process, signal.SIGKILL)
                        killed.append(process)
                        break

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        over.set()
        killer.join()


@pytest.mark.long
def test_same_bytes_with_other_workers_and_threads_of_the_program(tmp_path: Path):
    """The second run has more workers, and some are killed while its programs run."""
    marks = []
    for count in (1, 3):
        with (
            workers_killed(4 if count > 1 else 0) as killed,
            gnomon.train(ENV, run=tmp_path / str(count), quiet=True, workers={"count": count}, **SMALL) as reader,
        ):
            marks.append(reader.fingerprint)
            if count == 1:
                groups = list(decode(list(reader.records())))
                steps = [step["metrics"] for step in reader.metrics()]
                first = next(record for record in reader.records("rollout"))
                place = Address("rollout", first.step, first.task, first.sample)
                shown, page = rollout_text(rollout(reader, place)), rollout_facts(reader, place, "", 0, rendered=False)
    assert marks[0] == marks[1] and len(killed) == 4
    status = page["facts"]["program"]["status"]
    sizes = sorted(len(turns) for _, turns in page["tree"])  # Branches are in the order of their prompts' digests.
    assert sizes == [1, 1, 1, 2] and page["ended"] == f"exit status {status}"
    assert f"--- program: exit status {status}\n/scratch" in shown and "--- file answer.txt" in shown
    assert shown.count("(a new conversation)") == 3 and "data/task.txt" not in shown
    trained = [rollout for group in groups for rollout in group.rollouts]
    assert all(len(rollout.turns) == 5 and rollout.verdict.status is not Status.FAILED for rollout in trained)
    assert all(step["program/calls"] == 5 and step["program/branches"] == 4 for step in steps)
    assert {len({turn.fork for turn in rollout.turns}) for rollout in trained} == {4}
    assert len({rollout.reward for rollout in trained}) > 1

    again = command("replay", str(tmp_path / "1"))
    assert again.returncode == 0 and "0 verdicts changed" in again.stdout, again.stdout + again.stderr


@pytest.mark.long
@pytest.mark.parametrize("place", ["append:after-commit:3", "checkpoint:after-rename:1"])
def test_killed_and_resumed_it_is_the_same_run(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch):
    with gnomon.train(ENV, run=tmp_path / "whole", quiet=True, **SMALL, save={"every": 1}) as reader:
        wanted = reader.fingerprint
    monkeypatch.setenv("GNOMON_FAILPOINT", place)
    killed = command("train", ENV, f"run={tmp_path / 'r'}", *WORDS)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    monkeypatch.delenv("GNOMON_FAILPOINT")
    resumed = command("resume", str(tmp_path / "r"))
    assert resumed.returncode == 0, resumed.stderr
    with RunReader(tmp_path / "r") as reader:
        assert reader.fingerprint == wanted
