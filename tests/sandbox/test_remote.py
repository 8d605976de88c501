"""Runners elsewhere: the script they send, run here in a session's sandbox, and their refusals."""

from __future__ import annotations

import os

import pytest

from gnomon.errors import ResourceError
from gnomon.sandbox import Broken, Err, Exceeded, Finished, Job, Limits, Ok, Program, Raised, Session
from gnomon.sandbox.remote import DaytonaRunner, DockerRunner, E2BRunner, Elsewhere, ModalRunner, Reply

LIMITS = Limits(cpu_seconds=1, wall_seconds=3, memory_bytes=2**28, output_bytes=2**16, file_bytes=2**20)
ROOM = Limits(cpu_seconds=10, wall_seconds=30, memory_bytes=2**29, output_bytes=2**20, file_bytes=2**24)


class Near(Elsewhere):
    """A provider whose sandboxes are sessions of this host."""

    failures = 0

    def execute(self, script: str, timeout: float) -> Reply:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the provider is away")
        with Session(("python3", "-"), ROOM) as session:
            session.send(script.encode())
            session.close_input()
            return Reply(session.receive_all(timeout).decode())


def test_jobs_and_programs_elsewhere():
    job = Job(source="def solve(x): print('said'); return 1 / x", call="solve", inputs=((1,), (0,), (2,)))
    program = Program(source="import sys\nprint(input() * 2)\nsys.exit(0)", stdins=("a", "b"))
    with Near(workers=2, limits=LIMITS) as near:
        first, second = near.map([job, program])
    assert first == Finished(
        values=(Ok(1.0), Err("ZeroDivisionError", "division by zero"), Ok(0.5)), stdout="said\n" * 3
    )
    assert second == Finished(values=(Ok("aa\n"), Ok("bb\n")), stdout="aa\nbb\n")


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        ("while True: pass", Exceeded(resource="cpu")),
        ("import time; time.sleep(60)", Exceeded(resource="wall")),
        ("import os; os._exit(0)", Raised(error="Exit: ended before input 0 was answered")),
        ("import os; os.kill(os.getppid(), 9)", Raised(error="Forged: the reply of the sandbox is malformed")),
    ],
)
def test_hostile_source_elsewhere(source, outcome):
    limits = Limits(cpu_seconds=1, wall_seconds=1 if "sleep" in source else 8, output_bytes=2**16)
    (found,) = Near(limits=limits).map([Job(source=source, call="solve", inputs=((),))])
    assert found == outcome


def test_output_and_memory_elsewhere():
    near = Near(limits=LIMITS)
    flood, hoard = near.map(
        [
            Job(source=f"def solve(): {body}", call="solve", inputs=((),))
            for body in ("print('x' * 10**6)", "bytearray(10**10)")
        ]
    )
    assert isinstance(flood, Exceeded) and flood.resource == "output"
    assert isinstance(hoard, Exceeded) and hoard.resource == "memory"


def test_a_provider_that_fails_is_tried_again_and_then_our_failure():
    job = Job(source="solve = lambda: 1", call="solve", inputs=((),))
    near = Near(limits=LIMITS)
    near.failures = 2
    assert near.map([job]) == [Finished(values=(Ok(1),))]
    near.failures = 3
    assert near.map([job]) == [Broken(reason="Near: ConnectionError: the provider is away")]


@pytest.mark.parametrize(("kind", "name"), [(E2BRunner, "e2b"), (ModalRunner, "modal"), (DaytonaRunner, "daytona")])
def test_a_missing_package_or_key_is_named(kind, name, monkeypatch, tmp_path):
    for variable in ("E2B_API_KEY", "MODAL_TOKEN_ID", "DAYTONA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ResourceError) as refused:
        kind()
    try:
        __import__(name)
    except ImportError:
        assert refused.value.code == "E523" and refused.value.fix == f'pip install "gnomon[{name}]"'
    else:
        assert refused.value.code == "E524"


def test_docker_without_command_or_daemon(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match=r"E524.*\n.*docker is not installed"):
        DockerRunner()
    fake = tmp_path / "docker"
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    fake.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(ResourceError, match="Is the docker daemon running"):
        DockerRunner()
    fake.write_text("#!/bin/sh\necho 27.0.3\n")
    words = DockerRunner(limits=LIMITS).command()
    assert os.path.basename(words[0]) == "docker" and "none" in words and "--read-only" in words
