"""S30: what a host cannot hold is found, told and refused; and the probes themselves can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.errors import ResourceError
from gnomon.sandbox import Capabilities, Finished, Job, Ok, Sandbox, Session, as_text, capabilities
from gnomon.sandbox import probe as probes
from gnomon.sandbox.attacks import EVERYWHERE, WALLED, WORKER
from gnomon.sandbox.seccomp import JOB, SESSION, filter_program
from gnomon.sandbox.seccomp import WORKER as WORKER_FILTER

JOBS = [Job(source="import os\ndef solve(): return os.getuid()", call="solve", inputs=((),))]


def test_this_host_holds_and_says_so():
    matrix = capabilities()
    assert set(matrix.levels) == {"worker", "sandbox", "session"} and not matrix.unsafe
    assert not any(matrix.missing(level) for level in matrix.levels)
    assert len(matrix.levels["worker"]) >= 19 and len(matrix.levels["sandbox"]) >= 25
    body = matrix.body()
    assert json.loads(json.dumps(body)) == body and len(matrix.hash) == 64
    assert matrix.hash == capabilities().hash
    text = as_text(matrix)
    assert "no network" in text and "MISSING" not in text


@pytest.mark.parametrize(
    "name",
    sorted(
        {*EVERYWHERE, *WORKER, *WALLED}
        # These need a host that is less than this one, or would take a lot of it.
        - {"no gain of rights", "one file is capped", "all files are capped", "memory is capped", "no network"}
        - {"no environment of the trainer", "first process cannot be killed", "no file of the user"}
        - {
            "filter: no mount",
            "no write to the system",
            "filter: no change of modes",
            "another user",
            "no capabilities",
        }
    ),
)
def test_an_attack_gets_through_where_nothing_stands_in_its_way(name, listener, tmp_path):
    """Otherwise a probe that cannot fail would say that a wall holds."""
    target = tmp_path / "code.py"
    target.write_text("x = 1\n")
    facts = {"port": listener.getsockname()[1], "pid": os.getpid(), "file": str(target), "home": str(tmp_path)}
    code = (
        "import json, resource, sys; from gnomon.sandbox import attacks\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))\n"
        "print({**attacks.EVERYWHERE, **attacks.WORKER, **attacks.WALLED}[sys.argv[1]](json.loads(sys.argv[2])))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, name, json.dumps(facts)], env=env, capture_output=True, text=True, cwd=tmp_path
    )
    if name == "filter: no rare kernel feature" and not done.stdout.strip():
        pytest.fail("the kernel answers to none of them, even unfiltered")
    assert done.stdout.strip(), done.stderr


@pytest.fixture
def bare_path(tmp_path, monkeypatch):
    """A search path with all of the host's programs but bubblewrap."""
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            link = tmp_path / program.name
            if program.name != "bwrap" and not link.is_symlink():
                link.symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_s30_without_bubblewrap_nothing_is_run(bare_path):
    for start in (lambda: Sandbox(workers=1), lambda: Session(("sh",)), lambda: capabilities(("sandbox",))):
        with pytest.raises(ResourceError) as refused:
            start()
        told = str(refused.value)
        assert refused.value.code == "E520" and "fix: apt-get install bubblewrap" in told and "no code was run" in told
        assert refused.value.exit_code != 0


def test_s30_unsafe_is_possible_and_stamped(bare_path):
    safe = Capabilities(kernel="", machine="", bubblewrap="", user="", levels={})
    with Sandbox(workers=1, unsafe=True) as sandbox:
        matrix = sandbox.capabilities
        assert (
            matrix.unsafe and matrix.body()["unsafe"] is True and matrix.missing("sandbox") and matrix.hash != safe.hash
        )
        assert "UNSAFE" in as_text(matrix) and "MISSING" in as_text(matrix)
        (found,) = sandbox.map(JOBS)
        assert found == Finished(values=(Ok(os.getuid()),)), "there is no wall, so it is us"
        # What needs no wall still holds.
        source = "import os, socket\ndef solve(x): return open('/etc/passwd').read() if x else os.fork()"
        (found,) = sandbox.map([Job(source=source, call="solve", inputs=((1,), (0,)))])
        assert [value.type for value in found.values] == ["PermissionError", "PermissionError"]
    assert capabilities(("sandbox",), unsafe=True).missing("sandbox")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow",
            "unprivileged_userns",
        ),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("bwrap: Creating new namespace failed: Operation not permitted", "SYS_ADMIN"),
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8"),
        ("bwrap: something else", "namespaces"),
    ],
)
def test_s30_a_sandbox_that_cannot_be_built_is_refused_with_what_mends_it(tmp_path, monkeypatch, said, fix):
    """A bubblewrap that says what it says on such hosts."""
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 0.8.0 && exit\necho '{said}' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ResourceError) as refused:
        Sandbox(workers=1)
    assert refused.value.code == "E521" and said in str(refused.value) and fix in refused.value.fix
    with Sandbox(workers=1, unsafe=True) as sandbox:
        assert isinstance(sandbox.map(JOBS)[0], Finished) and sandbox.capabilities.missing("sandbox")


def test_s30_a_wall_with_a_hole_is_refused(tmp_path, monkeypatch):
    """A bubblewrap that leaves the network out: it builds a sandbox, and the probes find the hole."""
    real = probes.shutil.which("bwrap")
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/bash\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\nwords=()\n'
        'for word in "$@"; do [ "$word" = --unshare-net ] || words+=("$word"); done\n'
        f'exec {real} "${{words[@]}}"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ResourceError) as refused:
        Session(("sh",))
    assert refused.value.code == "E522" and "no service of the host" in str(refused.value)
    matrix = capabilities(("session",), unsafe=True)
    assert [probe.name for probe in matrix.missing("session")] == ["no network", "no service of the host"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_without_rights_has_the_same_walls():
    """A sandbox built in a user namespace, with the system's interpreter, which a user can read."""
    if not Path("/usr/bin/python3").exists():
        pytest.fail("no /usr/bin/python3: apt-get install python3")
    package = Path(probes.__file__).parents[2]
    code = (
        "import sys, json; from gnomon.sandbox import *\n"
        "m = capabilities(('sandbox', 'session'))\n"
        "job = Job(source='solve = lambda: 3', call='solve', inputs=((),))\n"
        "with Sandbox(workers=1) as sandbox: print(m.user, sandbox.map([job]))\n"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package)},
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert "user [Finished(values=(Ok(json=3),)" in done.stdout, done.stderr


@pytest.mark.parametrize("profile", [JOB, SESSION, WORKER_FILTER])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filters_are_well_formed(profile, machine):
    code = filter_program(profile, machine)
    steps = [code[i : i + 8] for i in range(0, len(code), 8)]
    assert len(code) % 8 == 0 and len(steps) < 4096 and steps[-1] == b"\x06\0\0\0\0\0\xff\x7f"
    for place, step in enumerate(steps):  # No jump leads past the end.
        if step[0] in (0x15, 0x35, 0x45):
            assert place + 1 + max(step[2], step[3]) < len(steps)


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(OSError, match="no system-call table"):
        filter_program(JOB, "vax")


@pytest.mark.parametrize(
    "script", ["sleep 600", "sleep 600 & wait", "trap '' TERM; sleep 600 & sleep 600", "exit 0", "echo no >&2; exit 1"]
)
@pytest.mark.long
def test_a_bubblewrap_that_hangs_or_fails_is_told(script, tmp_path, monkeypatch):
    """Also where what it started holds its pipes open after it was killed."""
    import time

    from gnomon.sandbox import worker

    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    monkeypatch.setattr(worker, "LEAVE", 0.5)
    monkeypatch.setattr(probes, "WORD", 0.5)
    began = time.monotonic()
    for level in ("sandbox", "session"):
        with pytest.raises(ResourceError, match="E521") as caught:
            capabilities((level,))
        assert caught.value.fix
    assert capabilities(("sandbox",), unsafe=True).missing("sandbox")
    assert time.monotonic() - began < 20


def test_a_probe_that_hangs_is_a_property_that_does_not_hold(monkeypatch):
    monkeypatch.setattr(probes, "SECONDS", 0.001)
    (found,) = probes.worker({})
    assert not found.holds and found.needed and "no answer within" in found.got
