"""The environment `repair`: its packages, a policy that solves it, and attacks on its verifier."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from endpoint.programs import renderer_of
from endpoint.serving import Policy, Say
from gnomon.agents.exchange import ChatRequest
from gnomon.agents.recorder import Bounds, Recorder
from gnomon.envs.agent import End, Launch
from gnomon.envs.packages import NAME
from gnomon.envs.play import play as play_by_hand
from gnomon.envs.repair import Repair
from gnomon.keys import Key
from gnomon.rendering import Renderer, Transcript
from gnomon.rollout.by_hand import run, typed_message
from gnomon.rollout.programs import Programs
from gnomon.sandbox import Session
from gnomon.types import Sampling, Status, Task, Tool

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return renderer_of("chatml", tmp_path_factory.mktemp("family"))


def tasks(env: Repair, count: int) -> list[Task]:
    drawn = env.tasks("train")
    return [drawn[index] for index in range(count)]


def end_of(env: Repair, task: Task, **changes: str | bytes) -> End:
    """The faulty package as it was, but for some files; `__` in a name is a slash."""
    files = env.folder(task) | {name.replace("__", "/"): data for name, data in changes.items()}
    return End(status=0, files={name: data.encode() if isinstance(data, str) else data for name, data in files.items()})


def ended(renderer: Renderer, env: Repair, task: Task, say: Say = lambda prompt, rng: "fox") -> tuple[End, Policy]:
    return asyncio.run(play(renderer, env, task, say))


async def play(renderer: Renderer, env: Repair, task: Task, say: Say) -> tuple[End, Policy]:
    """How the program of a task ends."""
    policy = Policy(renderer, say)
    recorder = Recorder(
        renderer,
        partial(Transcript.begin, renderer),
        policy.sample,
        key=Key(0),
        sampling=Sampling(max_tokens=5000),
        bounds=Bounds(calls=env.calls),
        piece=str,
    )
    return await Programs().play(env.launch(task), recorder, "secret"), policy


@pytest.mark.parametrize(
    "options", [{}, {"steps": 5, "others": 8}, {"steps": 1, "others": 0, "shown": 0, "hidden": 16}]
)
def test_the_correct_package_is_paid_and_the_faulty_one_is_not(options: dict[str, int]) -> None:
    env = Repair(**options)
    kinds = Counter[str]()
    for task in tasks(env, 60):
        package = task.info["package"]
        kinds[package.fault.kind] += 1
        assert len(package.program) <= env.steps and len(package.others) == env.others
        right, folder = replace(package, fault=None).files(), env.folder(task)
        assert right.keys() == folder.keys() and right != folder
        assert sum(right[name] != folder[name] for name in right) == 1
        for source in folder.values():
            ast.parse(str(source))
    assert kinds.keys() == {"operation", "number"} | ({"skipped", "swapped"} if env.steps > 1 else set())
    for task in tasks(env, 12):
        assert env.verdict(task, env.solution(task)).reward == 1.0, task
        assert env.verdict(task, end_of(env, task)).reward == 0.0
        verdict = env.verdict(task, end_of(env, task, notes="It is repaired."))
        assert verdict.reward == 0.0 and verdict.status is Status.WRONG and "passes" in verdict.detail


def test_numbers_out_of_range_are_refused() -> None:
    for options in ({"steps": 0}, {"steps": 9}, {"others": 17}, {"shown": -1}, {"hidden": 65}):
        with pytest.raises(ValueError, match="it must be from"):
            Repair(**options)


def test_a_policy_repairs_the_package_with_the_shell(renderer: Renderer) -> None:
    """It reads the package and runs the tests first, and what it sees is what the folder holds."""
    env = Repair()
    for task in tasks(env, 4):
        wrong, right = env.folder(task), env.solution(task).files
        (name,) = [name for name in wrong if right[name] != str(wrong[name]).encode()]
        write = f"cat > {name} <<'END'\n{right[name].decode()}END\npython -m unittest 2>&1 | tail -1"
        said = [f"```bash\n{line}\n```" for line in ("grep -rn def .", "python -m unittest", write)] + ["Repaired."]
        end, policy = ended(renderer, env, task, lambda prompt, rng, said=said: said[prompt.count("```bash\n")])
        assert end.status == 0 and env.verdict(task, end).correct, (end.output, policy.prompts[-1])
        assert "exit status 1" in policy.prompts[2] and policy.prompts[3].rstrip().count("\nOK") == 1
        assert f"{NAME}/main.py" in policy.prompts[1]


def test_a_person_may_be_the_policy() -> None:
    env, written, index = Repair(), list[str](), 1
    task = env.tasks("train")[index]
    wrong, right = env.folder(task), env.solution(task).files
    (name,) = [name for name in wrong if right[name] != str(wrong[name]).encode()]
    repair = f"base64 -d > {name} <<< {b64encode(right[name]).decode()}"
    typed = ["```bash ls```", f"```bash bash -c '{repair}'```", "It is repaired."]
    (verdict,) = play_by_hand(env, index, read=lambda prompt: typed.pop(0), write=written.append, run=run)
    assert verdict.correct and not typed, written
    assert written.count(f"user: pipeline\ntest_{NAME}.py\n") == 1 and written[1].startswith("user: The Python package")
    assert "exit status 0" in written
    (verdict,) = play_by_hand(replace(env, calls=1), index, read=lambda prompt: "```bash ls```", write=print, run=run)
    assert not verdict.correct

    def ends(prompt: str) -> str:
        raise EOFError

    with pytest.raises(EOFError):
        play_by_hand(env, index, read=ends, write=print, run=run)


@pytest.mark.parametrize(
    ("typed", "calls"),
    [
        ('bash {"command": "ls"}', [("bash", '{"command": "ls"}')]),
        ("bash", [("bash", "{}")]),
        ("bash is a shell", []),
        ("sh {}", []),
        ("", []),
    ],
)
def test_a_person_calls_a_tool_by_its_name(typed: str, calls: list[tuple[str, str]]) -> None:
    tool = Tool(name="bash", description="Runs.", parameters={})
    message = typed_message(typed, ChatRequest(messages=(), tools=(tool,)), "call_1")
    assert [(call.name, call.arguments) for call in message.calls] == calls and message.content == (
        "" if calls else typed
    )


def test_the_shell_outlives_what_it_runs(renderer: Renderer) -> None:
    lines = ["sleep 100 & echo over", "printf '\\377'; exit 3", "sleep 100", "cat", "no-such-program", "a\0b"]
    said = [f"```bash\n{line}\n```" for line in lines] + ["Over."]
    env = Repair(calls=20)
    program = env.launch(tasks(env, 1)[0]).command[-1].replace("SECONDS, LONGEST = 20", "SECONDS, LONGEST = 1")
    env = replace(env, command=shlex.join(("python", "-c", program)))
    end, policy = ended(renderer, env, tasks(env, 1)[0], lambda prompt, rng: said[prompt.count("```bash\n")])
    assert end.status == 0, end.output
    outputs = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", policy.prompts[-1], re.DOTALL)[1:]
    wanted = ("over\n", "\ufffdexit status 3", "TimeoutExpired", "no output", "not found\nexit status 127", "Error")
    assert all(output.endswith(end) for output, end in zip(outputs, wanted, strict=True)), outputs
    limited, policy = ended(renderer, replace(env, calls=2), tasks(env, 1)[0], lambda prompt, rng: said[0])
    assert limited.status == 0 and "limit of 2 calls" in limited.output and len(policy.prompts) == 2


# Attacks. No folder below computes what the task asks for, so none may be paid.

AT_IMPORT = {
    "leaves": "import sys; sys.exit(0)",
    "leaves at once": "import os; os._exit(0)",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "kills all": "import os, signal; signal.signal(15, signal.SIG_IGN); os.kill(-1, 9)",
    "replaces json": "import json; json.dumps = lambda *a, **k: '[\"ok\", true]'",
    "replaces builtins": "import builtins; builtins.eval = builtins.len = builtins.isinstance = lambda *a: True",
    "replaces unittest": "import unittest; unittest.TestCase.assertEqual = lambda *a: None; unittest.main = print",
    "fakes pytest": "import sys, types; sys.modules['pytest'] = types.ModuleType('pytest')",
    "reports for itself": (
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    send = frame.f_locals.get('send')\n"
        "    if callable(send):\n"
        "        for _ in range(64): send(['ok', 0])\n"
        "        send(['ok', []]); import os; os._exit(0)\n"
        "    frame = frame.f_back"
    ),
    "writes to every descriptor": (
        "import os\nfor n in range(64):\n    try: os.write(n, b'[\"ok\", 0]' * 99)\n    except OSError: pass"
    ),
    "closes every descriptor": "import os; os.closerange(0, 256)",
    "searches the memory": (
        "import gc\nG = [o for o in gc.get_objects() if isinstance(o, dict) and {'cases', 'expected'} & {*map(str, o)}]"
    ),
    "searches the disk": (
        "import os\n"
        "FOUND = [open(p).read(99) for d in ('/', '/opt', '/proc/1', '/scratch') for n in os.listdir(d)\n"
        "         if os.path.isfile(p := os.path.join(d, n))]"
    ),
    "makes the tasks": "import gnomon.envs.repair as r; ANSWERS = [r.Repair().tasks('train')[0].answer]",
    "fills the disk": "open('big', 'wb').write(bytes(2**28))",
    "fills the memory": "BIG = bytearray(2**32)",
    "fills the output": "import sys\nwhile True: sys.stdout.write('x' * 10**6)",
    "never ends": "while True: pass",
    "forks": "import os\nfor _ in range(99):\n    try: os.fork()\n    except OSError: break",
    "leaves a daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)"
    ),
    "calls out": "import socket; socket.create_connection(('1.1.1.1', 80), 1)",
    "deep": "def f(): return f()\nf()",
    "threads": "import threading, time\nfor _ in range(99): threading.Thread(target=time.sleep, args=(99,)).start()",
    "traces": "import sys; sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None); sys.setrecursionlimit(9)",
}
EQUAL = (
    "class Equal(int):\n"
    "    def __eq__(self, other): return True\n"
    "    __hash__ = int.__hash__\n"
    "    def __repr__(self): return 'anything'\n"
)
SOLVES = {
    "equals everything": EQUAL + "def solve(x): return Equal()",
    "equal list": "class L(list):\n    __eq__ = lambda s, o: True\ndef solve(x): return L()",
    "true": "def solve(x): return True",
    "nan": "def solve(x): return float('nan')",
    "the input": "def solve(x): return x",
    "nothing": "def solve(x): pass",
    "raises": "def solve(x): raise AssertionError('correct')",
    "a verdict": "def solve(x): return {'status': 'correct', 'reward': 1.0}",
    "every value": "def solve(x): return [x, 0, 1, [], '', True]",
    "a generator": "def solve(x): yield from range(99)",
    "not a function": "solve = 1",
    "equal text": "class S(str):\n    __eq__ = lambda s, o: True\ndef solve(x): return S()",
    "exits": "def solve(x): raise SystemExit(0)",
    "interrupts": "def solve(x): raise KeyboardInterrupt",
    "a coroutine": "async def solve(x): return x",
    "a module": "import pipeline as solve",
    "a class": "class solve:\n    def __init__(self, x): self.x = x",
    "an error that is equal": "class E(Exception):\n    __eq__ = lambda s, o: True\ndef solve(x): raise E",
    "a deep value": "def solve(x):\n    for _ in range(10**5): x = [x]\n    return x",
    "many": "def solve(*x): return [solve] * 10**6",
}
PLACES = {
    "the package": lambda source: {f"{NAME}__" + "__init__.py": f"{source}\nfrom {NAME}.main import solve\n"},
    "every call": lambda source: {
        f"{NAME}__main.py": f"def solve(x):\n    exec({source!r}, {{}})\n    return x\n",
    },
    "the end": lambda source: {
        f"{NAME}__main.py": f"import atexit\ndef solve(x): return 0\natexit.register(exec, {source!r}, {{}})\n"
    },
    "a stranger": lambda source: {
        f"{NAME}__extra.py": source,
        f"{NAME}__" + "__init__.py": f"from {NAME} import extra\nfrom {NAME}.main import solve\n",
        "sitecustomize.py": source,
        "conftest.py": source,
        "unittest.py": source,
        f"test_{NAME}.py": source,
    },
}


def hostile_folders() -> list[tuple[str, dict[str, str | bytes]]]:
    found = [
        (f"{name} in {place}", dict(changes(source)))
        for name, source in AT_IMPORT.items()
        for place, changes in PLACES.items()
    ]
    found += [(f"solve is {name}", {f"{NAME}__main.py": source}) for name, source in SOLVES.items()]
    whole = {
        "null bytes": b"\0" * 99,
        "no text": bytes(range(256)),
        "a syntax error": b"def solve(:",
        "deep brackets": b"(" * 10**5,
        "a huge file": b"# " + b"x" * 2**21,
        "a long number": b"x = " + b"9" * 10**5,
        "an encoding": b"# coding: rot13\nqrs fbyir(k): cnff\n",
        "nothing": b"",
    }
    found += [(f"{name} in main.py", {f"{NAME}__main.py": data}) for name, data in whole.items()]
    found += [(f"{name} in __init__.py", {f"{NAME}/__init__.py": data}) for name, data in whole.items()]
    return found


@pytest.mark.long
def test_no_hostile_folder_is_paid() -> None:
    env, folders = Repair(), hostile_folders()
    assert len(folders) >= 130
    drawn = tasks(env, 8)
    for place, (name, changes) in enumerate(folders):
        task = drawn[place % len(drawn)]
        verdict = env.verdict(task, end_of(env, task, **changes))
        assert verdict.reward == 0.0 and verdict.status is not Status.FAILED, (name, verdict)
    for task in drawn:
        assert env.verdict(task, env.solution(task)).correct, "an attack on one verdict does not change the next"


PROGRAMS = {
    "leaves": "sys.exit(0)",
    "leaves at once": "os._exit(0)",
    "fails": "sys.exit(1)",
    "claims": "print(json.dumps({'status': 'correct', 'reward': 1.0, 'correct': True}))",
    "writes an end": (
        "files = {'pipeline/__init__.py': 'solve = print'}\n"
        "print(json.dumps({'status': 0, 'output': '', 'limit': '', 'files': files}))"
    ),
    "deletes the tests": "os.remove('test_pipeline.py')",
    "deletes the package": "shutil.rmtree('pipeline')",
    "deletes everything": "[shutil.rmtree(n) if os.path.isdir(n) else os.remove(n) for n in os.listdir('.')]",
    "empties the tests": "open('test_pipeline.py', 'w').write('')",
    "configures pytest": (
        "open('conftest.py', 'w').write('def pytest_runtest_makereport(item, call): raise SystemExit(0)')"
    ),
    "configures python": (
        "for n in ('sitecustomize.py', 'usercustomize.py', 'json.py', 'x.pth', 'pyvenv.cfg', 'unittest/__init__.py'):\n"
        "    os.makedirs(os.path.dirname(n) or '.', exist_ok=True); open(n, 'w').write('import os; os._exit(0)')"
    ),
    "looks for the answer": (
        "for d in sys.path + ['/', '/opt', '/proc', '/work', '/root', '/home', '/tmp', '/etc']:\n"
        "    for folder, _, names in itertools.islice(os.walk(d), 200):\n"
        "        assert not {'repair.py', 'packages.py'} & {*names} or 'gnomon' not in folder, folder"
    ),
    "makes the task": "import gnomon.envs.repair",
    "looks at the parent": "print(open(f'/proc/{os.getppid()}/environ').read(), os.listdir('/proc/1/fd'))",
    "edits the verifier": (
        "for d in ('/opt', sys.prefix, sys.base_prefix, '/usr/lib'):\n"
        "    for folder, _, names in itertools.islice(os.walk(d), 20):\n"
        "        for n in names:\n"
        "            try: open(os.path.join(folder, n), 'a').write('#'); print('written', folder, n)\n"
        "            except OSError: pass"
    ),
    "links out": (
        "os.symlink('/', 'root'); os.symlink('/etc/passwd', 'pipeline/secret.py'); os.remove('pipeline/main.py')\n"
        "os.symlink('/dev/zero', 'pipeline/main.py')"
    ),
    "links in a circle": "shutil.rmtree('pipeline'); os.symlink('.', 'pipeline')",
    "hard links": "[os.link('pipeline/main.py', f'pipeline/l{n}.py') for n in range(200)]",
    "pipes": "os.remove('pipeline/main.py'); os.mkfifo('pipeline/main.py'); os.mkfifo('fifo')",
    "sockets": "socket.socket(socket.AF_UNIX).bind('pipeline/sock.py')",
    "odd names": (
        "for n in (b'\\xff.py', b'a\\nb.py', b' ', b'-rf', b'..py', '\\u202e.py'.encode(), b'x' * 250, b'\\\\'):\n"
        "    open(b'pipeline/' + n, 'w').write('1')"
    ),
    "many files": "for n in range(3000): open(f'pipeline/f{n}.py', 'w').close()",
    "deep folders": "for n in range(300): os.mkdir('d'); os.chdir('d')",
    "a huge file": "open('pipeline/big.py', 'wb').truncate(2**40)",
    "fills the disk": "open('pipeline/aaa.py', 'wb').write(bytes(2**27))",
    "no permissions": "os.chmod('pipeline/main.py', 0); os.chmod('pipeline', 0)",
    "calls out": "socket.create_connection(('1.1.1.1', 80), 1)",
    "listens": "s = socket.create_server(('127.0.0.1', 9999)); print('listening')",
    "leaves a daemon": (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True:\n"
        "        try: open('pipeline/main.py', 'w').write('solve = print')\n"
        "        except OSError: pass"
    ),
    "forks": "for _ in range(200):\n    try: os.fork()\n    except OSError: break",
    "kills all": "os.kill(-1, 9)",
    "stops itself": "import signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "never ends": "import time; time.sleep(600)",
    "old times": "os.utime('pipeline/main.py', (2**33, 2**33))",
}
AROUND = ("", "import pipeline\n")
HEAD = "import itertools, json, os, shutil, socket, sys\n"


@pytest.mark.long
def test_no_hostile_program_is_paid(renderer: Renderer) -> None:
    """Each is a program of its own; a policy with a shell can run the same."""
    env = Repair(wall_seconds=4.0)
    drawn = tasks(env, 7)
    table = [(name, HEAD + before + source) for name, source in PROGRAMS.items() for before in AROUND]
    assert len(table) + len(hostile_folders()) >= 200

    async def ends() -> list[End]:
        room = asyncio.Semaphore(8)

        async def one(place: int, source: str) -> End:
            async with room:
                command = shlex.join((sys.executable, "-c", source))
                task = drawn[place % len(drawn)]
                return (await play(renderer, replace(env, command=command), task, lambda prompt, rng: "fox"))[0]

        return await asyncio.gather(*(one(place, source) for place, (_, source) in enumerate(table)))

    for place, ((name, _), end) in enumerate(zip(table, asyncio.run(ends()), strict=True)):
        task = drawn[place % len(drawn)]
        before = env.launch(task).files
        again = End.loads(end.dumps(before).encode().decode(), before)
        verdict = env.verdict(task, again)
        assert verdict.reward == 0.0 and verdict.status is not Status.FAILED, (name, verdict)
        assert "written" not in end.output and "AssertionError" not in end.output, (name, end.output)


def test_code_in_a_sandbox_does_not_see_gnomon() -> None:
    """Otherwise a program could make its task again, with the answer."""
    folder = str(Path(sys.modules["gnomon"].__path__[0]).parent)
    source = f"import sys; sys.path.insert(0, {folder!r})\nimport gnomon; print(gnomon.__path__)\nimport gnomon.envs"
    with Session((sys.executable, "-c", source), readable=(folder, sys.prefix)) as session:
        output = session.receive_all().decode()
    assert "No module named 'gnomon.envs'" in output and folder in output


@dataclass(frozen=True, kw_only=True)
class Mini(Repair):
    command: str = (
        "python -m minisweagent.run.mini -t {prompt} -y --exit-immediately -m openai/policy -o /scratch/.mini/run.json"
    )

    def launch(self, task: Task) -> Launch:
        variables = {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": "/scratch/.mini",
        }
        return replace(super().launch(task), variables=variables)


@pytest.mark.long
@pytest.mark.needs("minisweagent")
def test_mini_swe_agent_repairs_a_package_unchanged(tmp_path: Path) -> None:
    env = Mini()
    task = tasks(env, 1)[0]
    wrong, right = env.folder(task), env.solution(task).files
    (name,) = [name for name in wrong if right[name] != str(wrong[name]).encode()]
    write = f"cat > {name} <<'END'\n{right[name].decode()}END\npython3 -m unittest"
    lines = ["cat pipeline/*.py", write, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]

    def say(prompt: str, rng: Random) -> str:
        line = lines[min(prompt.split("</tools>")[-1].count("<tool_response>"), 2)]
        return f"<tool_call>\n{json.dumps({'name': 'bash', 'arguments': {'command': line}})}\n</tool_call>"

    end, policy = ended(renderer_of("qwen3", tmp_path), env, task, say)
    assert env.verdict(task, end).correct and len(policy.prompts) == 3, end.output
    assert all(later.startswith(earlier) for earlier, later in pairwise(policy.prompts))
