"""One policy for all work in other processes: failures in a row up to the limit are not seen by whoever waits for the
answer, and one more is an error with its reason."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from engines.test_worker import TINY, WORKER, weights
from gnomon.engines.vllm import VLLM
from gnomon.errors import GnomonError
from gnomon.integrations.environments.remote import fetch
from gnomon.learners.base import Named
from gnomon.learners.served import ServedLearner
from gnomon.learners.wire import dumps
from gnomon.repeats import Repeats
from gnomon.sandbox import Broken, Job, Limits
from gnomon.sandbox.remote import Elsewhere, Reply
from gnomon.verifiers.endpoint import Endpoint
from gnomon.workers import Died, Pool
from ray_cluster.test_dispatch import Scripted
from workers import pool_jobs

ALLOWED = 2
FLAKY = """
import runpy, sys
from pathlib import Path
plan = Path(sys.argv.pop(1))
left = int(plan.read_text())
plan.write_text(str(left - 1))
if left > 0:
    sys.exit("no room")
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Server(ThreadingHTTPServer):
    """Answers with `body`, after `left` requests without an answer."""

    daemon_threads = True
    left, body = 0, b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.left -= 1
        if self.server.left >= 0:
            self.close_connection = True  # The request is lost: nothing is sent.
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as http:
        Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield http
        http.shutdown()


def worker(failures: int, folder: Path, server: Server) -> str:
    plan = folder / "plan"
    plan.write_text(str(failures))
    with Pool(pool_jobs.run, workers=1, retries=ALLOWED) as pool:
        (outcome,) = pool.map([("die_while_planned", str(plan))])
    return f"given up after {outcome.tries}" if isinstance(outcome, Died) else outcome.value


def sandbox(failures: int, folder: Path, server: Server) -> str:
    class Away(Elsewhere):
        left = failures

        def execute(self, script: str, timeout: float) -> Reply:
            self.left -= 1
            if self.left >= 0:
                raise ConnectionError("the provider is away")
            return Reply("")

    (outcome,) = Away(limits=Limits(), retries=ALLOWED).map([Job(source="x = 1", call="x", inputs=((),))])
    return "given up" if isinstance(outcome, Broken) and "away" in outcome.reason else "answered"


def engine(failures: int, folder: Path, server: Server) -> str:
    plan, script = folder / "plan", folder / "flaky.py"
    plan.write_text(str(failures))
    script.write_text(FLAKY)
    command = (sys.executable, str(script), str(plan), str(WORKER))
    vllm = VLLM(TINY, command, arguments={"max_model_len": 512}, bound=1e-3, restarts=ALLOWED)
    try:
        vllm.load(weights(0))
        assert vllm.counts()["engine/restarts"].value == failures
    finally:
        vllm.close()
    return "answered"


def call_of_a_cluster(failures: int, folder: Path, server: Server) -> str:
    processes = Scripted(samplers=5, restarts=ALLOWED)
    processes.ready()
    call = processes.call()
    for _ in range(failures):
        processes.dispatch.on_loss(processes.sent[-1][0], "killed")
        processes.dispatch.serve()
    if not call.answer.done():
        life, number, _ = processes.sent[-1]
        processes.dispatch.on_answer(life, number, "answered")
    return call.answer.result(0)


def process_of_a_cluster(failures: int, folder: Path, server: Server) -> str:
    processes = Scripted(samplers=1, restarts=ALLOWED, seconds=1000.0)
    processes.ready()
    for _ in range(failures):
        processes.dispatch.on_loss(processes.begun[-1], "killed")
        processes.until(processes.time + 100.0)
        processes.dispatch.on_start(processes.begun[-1])
    return "answered" if len(processes.begun) == failures + 1 else "given up"


def judge_model(failures: int, folder: Path, server: Server) -> str:
    server.body = json.dumps({"choices": [{"message": {"content": "answered"}}]}).encode()
    server.left = failures
    return Endpoint(base_url=server.url, model="m", tries=ALLOWED + 1, pause=0.0)("?")


def environment(failures: int, folder: Path, server: Server) -> str:
    server.body, server.left = b'"answered"', failures
    return fetch(server.url, "/step", {}, {}, tries=ALLOWED + 1)


def learner(failures: int, folder: Path, server: Server) -> str:
    """The limit is a time without a sign of life."""
    server.body = dumps("answered")
    served = ServedLearner(server.url, "token", {}, Named(name="rloo", options={}))
    served._repeats.seconds = 60.0 if failures <= ALLOWED else 0.0
    server.left = failures
    return str(served.optim_step(1.0))


KINDS = [worker, sandbox, engine, call_of_a_cluster, process_of_a_cluster, judge_model, environment, learner]


@pytest.mark.parametrize("failures", range(ALLOWED + 2))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_failures_up_to_the_limit_are_not_seen(
    kind: Callable[[int, Path, Server], str], failures: int, tmp_path: Path, server: Server
) -> None:
    try:
        answer = kind(failures, tmp_path, server)
    except GnomonError as error:
        answer = f"given up {error.code}"
    assert answer.partition(" ")[0] == ("answered" if failures <= ALLOWED else "given"), answer


def test_an_answer_ends_the_row_and_pauses_double() -> None:
    repeats = Repeats(2)
    assert [repeats.another("it died") for _ in range(3)] == [True, True, False] and repeats.exhausted
    assert (repeats.count, repeats.why) == (3, "it died")
    repeats.on_answer()
    pauses = []
    for _ in range(4):
        repeats.another()
        pauses.append(repeats.pause)
    assert pauses == [0.0, 2.0, 4.0, 8.0]
