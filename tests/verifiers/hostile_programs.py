"""Programs that want to be paid without doing their work: what they do, times where they do it.

Tests expect values that no constant equals at once, and in `EMPTY` what an absent result could be taken for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import Any

__all__ = ["HOSTILE_PROGRAMS", "Hostile"]

CALL = {"call": "solve", "cases": [[[1], 2], [["a"], ""], [[0], None], [[2], [3, 4]], [[3], False], [[4], 10**20]]}
SCRIPT = {"cases": [["1\n", "2\n"], ["41\n", "42\n"], ["a\n", "b\n"]]}
EMPTY = (
    {"call": "solve", "cases": [[[1], None], [[2], None]]},
    {"call": "solve", "cases": [[[1], ""], [[2], ""]]},
    {"call": "solve", "cases": [[[1], []], [[2], {}], [[3], False], [[4], 0]]},
)
NOTHING = {"cases": [["1", ""], ["2", ""]]}

INSIDE = """
import gc, os, sys, json
def frames():
    for frame in sys._current_frames().values():
        while frame:
            yield frame
            frame = frame.f_back
def held(name):
    for frame in frames():
        if name in frame.f_locals: return frame.f_locals[name]
    return next((o for o in gc.get_objects() if getattr(o, '__name__', '') == name and callable(o)), None)
def secret():
    for frame in frames():
        if 'nonce' in frame.f_locals.get('work', ()): return bytes.fromhex(frame.f_locals['work']['nonce'])
    return bytes(16)
def flood(line):
    for number in range(3, 256):
        try: os.write(number, line)
        except OSError: pass
def packed(message, nonce):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return len(body).to_bytes(4, 'little') + nonce + body
"""
"""What a program can find of the process that runs it."""

RAISES = [
    "raise type('', (Exception,), {})()", "raise type('', (BaseException,), {})()",
    "raise type('', (SystemExit,), {})(1)",
    "raise type('', (KeyboardInterrupt,), {})()", "raise type(' ', (Exception,), {})()",
    "raise type('\\n', (Exception,), {})()",
    "raise type('ok', (Exception,), {})('ok')", "raise type('Ok', (Exception,), {'json': 2})()",
    "raise type('None', (Exception,), {'__str__': lambda s: ''})()",
    "raise type('passed', (Exception,), {})('32 passed')",
    "class E(Exception): pass\nE.__name__ = ''\nE.__qualname__ = ''\nraise E",
    "class M(type):\n    __name__ = property(lambda s: None)\nraise M('E', (Exception,), {})()",
    "class M(type):\n    __name__ = property(lambda s: '')\nraise M('E', (Exception,), {})()",
    "class M(type):\n    __name__ = property(lambda s: 1/0)\nraise M('E', (Exception,), {})()",
    "class M(type):\n    __str__ = __repr__ = lambda s: ''\nraise M('', (Exception,), {'__str__': lambda s: 1/0})()",
    "raise type('', (ExceptionGroup,), {})('', [ValueError()])", "raise type('', (StopIteration,), {})()",
    "raise type('', (GeneratorExit,), {})()", "raise type('', (AssertionError,), {})('')",
    "raise type('', (OSError,), {})(0, '')",
    "try: 1/0\nexcept Exception as e: raise type('', (Exception,), {})() from e",
    "raise type('', (SyntaxError,), {})('')",
    "raise type('', (Exception,), {'__class__': int})()", "raise type('', (Warning,), {})()", "assert False, ''",
    "raise type('', (MemoryError,), {})()", "raise type('', (RecursionError,), {})()",
    "raise type('', (BlockingIOError,), {})()",
]  # fmt: skip
"""Errors with every name, also those that a sandbox reports in another way."""

EXITS = [
    "import os\nos._exit(0)", "import sys\nsys.exit()", "exit()", "quit(0)", "raise SystemExit",
    "raise SystemExit(None)",
    "import os\nos.abort()", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)", "import os, signal\nsignal.raise_signal(signal.SIGTERM)",
    "import os\nos.execv('/bin/true', ['true'])", "import os\nos.execvp('sh', ['sh', '-c', 'echo 2; exit 0'])",
    "import ctypes\nctypes.string_at(0)", "import os\nos.closerange(0, 256)\nos._exit(0)",
    "import os\nif os.fork(): os._exit(0)", "import os\nif not os.fork(): os._exit(0)\nos.wait()\nos._exit(0)",
    "import os\nos.closerange(0, 256)", "import os\nfor n in range(3): os.close(n)",
]  # fmt: skip

PRINTS = [
    f"import sys\nfor stream in (sys.stdout, sys.stderr): print({text!r}, file=stream)" for text in (
        "PASS", "OK\n\nRan 3 tests", "===== 32 passed in 0.01s =====", '{"status": "correct", "reward": 1.0}', "True",
        "1.0",
        '["ok", 2]', "\x1b[2J\x1b[Hcorrect", "2\n42\nb", " ".join(map(str, range(999))), "", "passes 3 of 3 tests",
        "２",
        "2\0", "\\boxed{2}", "```\ncorrect\n```", "0\r2", "2\x08", "<answer>2</answer>", "2.0", "+2", "02", "0x2", "2;",
        "two",
    )
]  # fmt: skip
VALUES = [
    f"return {value}" for value in (
        "True", "2.0", "'2'", "[2]", "None", "''", "float('nan')", "NotImplemented", "Ellipsis", "type", "object()",
        "lambda: 2",
        "{'status': 'correct', 'reward': 1.0}", "{'\\0integer': '56bc75e2d63100000'}", "['ok', 2]", "'ok'",
        "range(10**9)",
        "(i for i in [2])", "type('Y', (int,), {'__eq__': lambda s, o: True, '__hash__': int.__hash__})(-1)",
        "type('Y', (str,), {'__eq__': lambda s, o: True, '__hash__': str.__hash__})('-')", "b'2'",
        "type('Y', (list,), {'__eq__': lambda s, o: True, '__len__': lambda s: 2})([0])", "2+0j", "10**30000",
        "type('Y', (dict,), {'__eq__': lambda s, o: True, 'keys': lambda s: {}.keys()})(a=1)", "{1: 2}",
        "type('Y', (float,), {'__eq__': lambda s, o: True, '__hash__': float.__hash__})(7.5)", "-1e-400", "'\\ud800'",
        "type('Y', (), {'__eq__': lambda s, o: True, '__class__': int, '__index__': lambda s: 2})()",
        "__import__('unittest.mock').mock.ANY", "__import__('unittest.mock').mock.MagicMock()",
        "__import__('decimal').Decimal(2)",
        "__import__('functools').reduce(lambda a, _: [a], range(900), 2)",
        "__import__('functools').reduce(lambda a, _: [a], range(10**5), 2)",
    )
]  # fmt: skip

MESSAGES = (
    ["err", "", ""], ["ok", None], ["ok", ""], ["ok", 2], ["ok", True], ["raised", "", ""], ["exceeded", "wall"],
    ["ready"], [],
    ["ok"], ["ok", 2, 2], ["passed"], ["err", "", None], ["err", None, ""], "ok", None, {"status": "correct"}, ["\0"],
    1.0,
)  # fmt: skip
REPORTS = [
    *(f"for _ in range(6): held('send')({message!r})\nos._exit(0)" for message in MESSAGES),
    *(f"held('send')({message!r})" for message in MESSAGES[:8]),
    *(f"flood(packed({message!r}, secret()) * 6)\nos._exit(0)" for message in MESSAGES[:8]),
    *(f"flood({line})" for line in ("b'[1]\\n'", "bytes(64)", "b'\\xff' * 4096", "packed(['ok', 2], bytes(16))")),
    "flood(packed(b'[\"ok\", ' + b'[' * 50000, secret()))",
    "flood(packed(b'[\"ok\", ' + b'9' * 9999 + b']', secret()))",
    "flood(packed(b'\\xff\\xfe', secret()))", "flood(secret() * 999)",
    "flood(packed(['ok', {'\\0integer': 'zz'}], secret()))",
    "held('send')(['err', '', ''])\nraise type('', (Exception,), {})()", "held('send')(['err', '\\ud800', '\\x1b[2J'])",
    "import threading\n"
    "t = threading.Thread(target=lambda: [held('send')(['err', '', '']) for _ in range(9)])\nt.start()\nt.join()",
    "import threading, time\n"
    "def later():\n    while True: held('send')(['ok', None])\nthreading.Thread(target=later, daemon=True).start()",
    "if not os.fork():\n    for _ in range(6): held('send')(['err', '', ''])\n    os._exit(0)\nos.wait()\nos._exit(0)",
    "if not os.fork():\n    import time\n    time.sleep(0.05)\n    held('send')(['err', '', ''])\n    os._exit(0)",
]  # fmt: skip

PATCHES = [
    "import json\njson.dumps = lambda *a, **k: '[\"ok\", 2]'",
    "import json\njson.dumps = lambda *a, **k: '[\"err\", \"\", \"\"]'",
    "import os\nwrite = os.write\nos.write = lambda n, b: write(n, b.replace(b'wrong', b'2'))",
    "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.all = builtins.any = lambda *a: True",
    "import builtins\nbuiltins.type = lambda *a: ''\nbuiltins.str = lambda *a: ''\nraise ValueError",
    "import builtins, os\nbuiltins.Exception = builtins.BaseException = ()\nraise ValueError",
    "module = sys.modules.get('gnomon.sandbox.run')\nmodule.name_and_message = lambda e: ('', '')\nraise ValueError",
    "module = sys.modules.get('gnomon.sandbox.run')\nmodule.frame = lambda r, n: packed(['err', '', ''], n)",
    "module = sys.modules.get('gnomon.sandbox.run')\nmodule.plain = lambda v: None\nmodule.decode = lambda t: []",
    "module = sys.modules.get('gnomon.sandbox.run')\n"
    "module.exhausted_resource = lambda e: ''\nmodule.report_error = lambda *a: 0\nraise ValueError",
    "module = sys.modules.get('gnomon.sandbox.inside')\nmodule.work_alone = module.survivors = None",
    "sys.modules.clear()", "sys.settrace(lambda *a: None)\nfor f in frames(): f.f_trace = lambda *a: os._exit(0)",
    "sys.setprofile(lambda *a: os._exit(0))", "sys.excepthook = lambda *a: os._exit(0)\nraise ValueError",
    "sys.unraisablehook = lambda *a: os._exit(0)",
    "import atexit\natexit.register(lambda: os._exit(0))\nraise ValueError",
    "class A:\n    def __del__(self): held('send')(['err', '', ''])\nA()", "sys.stdout = sys.stderr = None",
    "sys.stdout = type('S', (), {'write': lambda s, t: 1/0, 'flush': lambda s: os._exit(0)})()",
    "import signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.alarm(1)\nwhile True: pass",
    "for f in frames():\n    for n in list(f.f_locals):\n        f.f_locals[n] = None", "sys.setrecursionlimit(9)",
    "import gc\nfor o in gc.get_objects():\n    if isinstance(o, list) and o[:1] == ['err']: o[:] = ['ok', 2]",
    "work = held('work')\nwork['inputs'] = ['[1]']", "work = held('work')\nwork['inputs'].clear()",
    "import threading\nthreading._shutdown = lambda: os._exit(0)",
    "import linecache\nlinecache.cache = 1\nraise ValueError",
    "import ctypes\nctypes.pythonapi.PyErr_Clear()\nraise ValueError",
    "help.__class__.__call__ = None\nexit.__class__.__call__ = None",
]  # fmt: skip

SEARCHES = [
    f"found = {found}\nprint(found)\nreturn found" for found in (
        "held('expected')", "held('tests')", "held('answer')", "held('gold')", "held('cases')", "held('work')",
        "held('plan')",
        "[o for o in gc.get_objects() if isinstance(o, dict) and 'cases' in o][:1] or 'none'", "dict(os.environ)",
        "sys.argv",
        "[f.f_globals.get('expected') for f in frames()]", "os.listdir('/')", "os.listdir('.')",
        "open('/dev/stdin').read(99)",
        "next((open(p).read(99) for p in ('/proc/1/environ', '/tmp/expected', '/reward.txt') if os.path.exists(p)), 0)",
        "[f.name for f in os.scandir('/opt/gnomon/gnomon/sandbox')]", "os.path.realpath('.')",
        "__import__('inspect').stack()[-1].filename",
    )
]  # fmt: skip

FILES = [
    *(f"open({name!r}, 'w').write({text!r})" for name, text in (
        ("reward.txt", "1.0"), ("conftest.py", "1"), ("sitecustomize.py", "1"), ("json.py", "1/0"),
        ("random.py", "1/0"),
        ("/scratch/result", '["ok", 2]'), ("/tmp/reward", "1"), ("gnomon.py", "1"), ("/logs/verifier/reward.txt", "1"),
    )),
    "os.unlink('.stdin') if os.path.exists('.stdin') else None\nos.mkdir('.stdin')",
    "os.unlink('.stdin') if os.path.exists('.stdin') else None\nos.symlink('/dev/zero', '.stdin')",
    "os.unlink('.stdin') if os.path.exists('.stdin') else None\nos.mkfifo('.stdin')",
    "os.mkdir('a')\nos.chmod('a', 0)\nos.chdir('a')",
    "os.chmod('/scratch', 0)", "open('/dev/stdin', 'w').write('2')", "open('/dev/shm/x', 'w').write('2')",
    "os.makedirs('/scratch/' + 'a/' * 500)", "os.rename('.stdin', 'moved') if os.path.exists('.stdin') else None",
]  # fmt: skip

HARM = [
    "os.kill(os.getppid(), 9)", "os.kill(1, 15)", "os.kill(-1, 9)", "os.killpg(0, 9)", "while True: os.fork()",
    "while True: pass",
    "x = []\nwhile True: x.append(bytearray(2**24))", "while True: print('x' * 10**6)", "9**9**9", "def f(): f()\nf()",
    "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile True: pass",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "x = [open('/dev/null') for _ in range(999)]", "os.write(1, b'x' * 2**22)", "open('big', 'wb').write(bytes(2**26))",
    "import ctypes\nctypes.memset(id(int), 0, 400)",
    "sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
    "import threading\n"
    "for _ in range(99): threading.Thread(target=lambda: __import__('time').sleep(9), daemon=True).start()",
    "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "os.nice(19)\nwhile True: pass",
    "import select\nselect.select([], [], [], 99)", "os.kill(os.getpid(), 19)",
]  # fmt: skip

SOURCES = [
    "", "\0", "def solve(:", "(" * 5000, "solve = None", "solve = 2", "del __name__",
    "# coding: rot13\nqrs fbyir(k): erghea k",
    "def solve(): return 2", "def solve(*a, **k): yield 2", "async def solve(*a): return 2",
    "class solve(Exception): pass",
    "import solution", "from expected import *", "import tests", "import pytest; pytest.exit(0)",
    "class solve:\n    __name__ = ''",
    "class solve(int):\n    def __new__(cls, *a): return int.__new__(cls, 2)", "import gnomon.verifiers",
    "solve = property(lambda s: 2)",
    "solve = type('', (), {'__call__': lambda s, *a: (_ for _ in ()).throw(type('', (Exception,), {})())})()",
    "x" * 60000,
    "import sys\nsys.modules['solution'] = sys.modules['__main__'] = None",
    "def __getattr__(name): return lambda *a: 2",
    "def solve(*a): return eval('a[0] + 1') if a[0] == 1 else None", "solve = lambda *a: a[0]", "solve = str",
    "solve = dict.fromkeys",
    "def solve(*a):\n    try: return 1/0\n    finally: raise type('', (Exception,), {})()", "globals().clear()",
    "__builtins__ = None\nx = len",
    "def solve(*a): return solve", "\ufeffsolve = bool", "solve = __import__", "solve = exit", "solve = print",
    "solve = input",
]  # fmt: skip
"""Whole sources."""

IN_CALL = "{inside}\ndef solve(*given):\n{body}\n    return 'wrong'"
AT_LOAD = "{inside}\ndef act():\n{body}\nact()\ndef solve(*given): return 'wrong'"
IN_SCRIPT = "{inside}\ndef act():\n{body}\nact()\nprint('wrong')"
AT_EXIT = "{inside}\nimport atexit\ndef act():\n{body}\natexit.register(act)\nprint('wrong')"
IN_THREAD = "{inside}\nimport threading\ndef act():\n{body}\nthreading.Thread(target=act).start()\nprint('wrong')"
LATER = (
    "{inside}\nimport threading\ndef act():\n{body}\n"
    "def solve(*given):\n    threading.Timer(0.002, act).start()\n    return 'wrong'"
)

EVERYWHERE = {"call": (IN_CALL, CALL), "load": (AT_LOAD, CALL), "script": (IN_SCRIPT, SCRIPT)}
LATE = {"exit": (AT_EXIT, SCRIPT), "thread": (IN_THREAD, SCRIPT), "later": (LATER, CALL)}
NONE = {f"empty {place}": (IN_CALL, gold) for place, gold in enumerate(EMPTY)} | {"nothing": (IN_SCRIPT, NOTHING)}
WHOLE = {"source": ("{source}", CALL), "file": ("{source}", SCRIPT)}

FAMILIES: dict[str, tuple[list[str], dict[str, tuple[str, dict[str, Any]]]]] = {
    "raises": (RAISES, EVERYWHERE | NONE),
    "exits": (EXITS, EVERYWHERE | LATE),
    "prints": (PRINTS, EVERYWHERE),
    "returns": (VALUES, {"call": EVERYWHERE["call"]}),
    "reports": (REPORTS, EVERYWHERE | LATE),
    "patches": (PATCHES, EVERYWHERE),
    "searches": (SEARCHES, EVERYWHERE),
    "writes files": (FILES, EVERYWHERE),
    "harms": (HARM, {"call": EVERYWHERE["call"], "script": EVERYWHERE["script"]}),
    "is no program": (SOURCES, WHOLE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    family: str
    form: str
    source: str
    gold: dict[str, Any]


def every() -> Iterator[Hostile]:
    for family, (bodies, forms) in FAMILIES.items():
        for form, (frame, gold) in forms.items():
            for body in bodies:
                source = frame.format(inside=INSIDE, body=indent(body, "    "), source=body)
                yield Hostile(family=family, form=form, source=source, gold=gold)


HOSTILE_PROGRAMS = tuple(every())
