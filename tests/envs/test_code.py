"""Programs to be written: what they do, what their tests tell apart, and what a reply can get without writing one."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gnomon.audit import audit, subject_of
from gnomon.envs import Code
from gnomon.envs import programs as small
from gnomon.envs.base import check_isolation, split_of
from gnomon.envs.check import check_env
from gnomon.errors import ResourceError
from gnomon.keys import Key
from gnomon.sandbox import Sandbox
from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import code_judged
from workers.plays import last_steps

ENV = Code(steps=3)
TASKS = [ENV.tasks("train")[index] for index in range(200)]
CALL = re.compile(r"solve\((.+?)\) == (.+?)\. ")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=ENV.limits) as made:
        yield made


def judged(sandbox: Sandbox, items: list[tuple[Task, str]]) -> list[Verdict]:
    return code_judged(ENV, sandbox, [(task, ENV.framed(source)) for task, source in items])


def test_what_an_operation_does_is_what_its_python_does(sandbox: Sandbox) -> None:
    """The function decides what is expected, the Python is the solution: two tellings of one thing."""
    items = []
    for place, operation in enumerate(small.OPERATIONS):
        for k in {operation.ks[0], operation.ks[-1]}:
            program = ((place, k),)
            cases = {"call": "solve", "cases": small.cases(program)}
            items.append((Task(id=small.words(program), messages=(), answer=cases), small.source(program)))
    verdicts = judged(sandbox, items)
    assert not [
        (task.id, verdict.detail) for (task, _), verdict in zip(items, verdicts, strict=True) if not verdict.correct
    ]


def passes(program: small.Program, task: Task) -> bool:
    return all(small.run(program, given[0]) == expected for given, expected in task.answer["cases"])


def test_no_program_an_operation_away_passes_but_one_that_does_the_same() -> None:
    rng, tried, same = random.Random(0), 0, 0
    for task in TASKS:
        program = task.info["program"]
        assert passes(program, task)
        assert not [other for other in small.nearby(program) if passes(other, task)]
        for other in small.longer(program):
            tried += 1
            if passes(other, task):
                same += 1
                for _ in range(100):
                    value = small.drawn_input(rng, small.takes(program), rng.randint(1, 3))
                    assert small.run(other, value) == small.run(program, value), (task.messages, small.words(other))
    assert tried > 10_000 and same < 0.1 * tried


def test_nearby_programs_are_refused_in_the_sandbox_too(sandbox: Sandbox) -> None:
    rng = random.Random(1)
    near = [(task, small.source(rng.choice(small.nearby(task.info["program"])))) for task in TASKS[:60]]
    right = [(task, ENV.solution(task)) for task in TASKS[:60]]
    assert {verdict.status for verdict in judged(sandbox, near)} == {Status.WRONG}
    assert all(verdict.correct for verdict in judged(sandbox, right))


def test_the_shown_examples_are_no_answer(sandbox: Sandbox) -> None:
    """A table of them, and for all else the argument, or a value that was shown, or the one most often right."""
    items = []
    for task in TASKS[:60]:
        shown = CALL.findall(task.messages[-1].content)
        assert len(shown) == 2
        values = [repr(expected) for _, expected in task.answer["cases"]]
        assert not {given for given, _ in shown} & {repr(given[0]) for given, _ in task.answer["cases"]}
        table = "[" + ", ".join(f"({given}, {value})" for given, value in shown) + "]"
        for other in ("x", shown[0][1], max(set(values), key=values.count)):
            items.append(
                (task, f"def solve(x):\n    return dict((repr(a), b) for a, b in {table}).get(repr(x), {other})")
            )
    assert {verdict.status for verdict in judged(sandbox, items)} == {Status.WRONG}


def test_programs_that_do_the_same_have_one_split_and_one_set_of_tests() -> None:
    double, order = (
        (place, k)
        for place, k in small.between("list", "list")
        if small.words(((place, k),)) in ("multiply each by 2", "sort, smallest first")
    )
    one, two = (ENV.task_of(random.Random(0), program) for program in ((double, order), (order, double)))
    assert one.id != two.id and one.answer == two.answer and split_of(one.id) == split_of(two.id)


def test_steps_are_the_dial_and_neighbours_keep_to_it() -> None:
    for steps in (1, 2, 4):
        env = Code(steps=steps)
        tasks = [env.tasks("test")[index] for index in range(60)]
        lengths = {len(task.info["program"]) for task in tasks}
        assert lengths == set(range(1, steps + 1))
        for task in tasks[:20]:
            near = env.neighbour(task, random.Random(2)).info["program"]
            far = env.mutate(task, Key(1)).info["program"]
            assert abs(len(near) - len(task.info["program"])) <= 1
            assert max(len(near), len(far)) <= max(steps, 2)


def test_the_prompt_is_short() -> None:
    assert max(len(task.messages[-1].content) for task in TASKS) < 400
    assert CALL.search(Code(shown=0).tasks("train")[0].messages[-1].content) is None


SPIN = "def solve(x):\n    while True: pass"
FORK = "import os\ndef solve(x):\n    while True: os.fork()"
MEMORY = "def solve(x):\n    return len('a' * 2**31)"
FORGED = """
import os, sys
print('{"status": "correct", "reward": 1.0}\\nOK\\n32 passed')
for n in range(3, 20):
    try: os.write(n, b'{"json": 1}\\n[1]\\n')
    except OSError: pass
def solve(x):
    return {"status": "correct", "reward": 1.0}
"""
LEAVES = "import os\ndef solve(x):\n    os._exit(0)"
EQUAL = """
class Any(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
def solve(x):
    return Any()
"""
SEARCH = """
import gc, glob, os, sys
def texts(things, depth=3):
    for thing in things:
        if isinstance(thing, (str, bytes)):
            yield thing if isinstance(thing, str) else thing.decode(errors="replace")
        elif isinstance(thing, dict) and depth:
            yield from texts([*thing.keys(), *thing.values()], depth - 1)
        elif isinstance(thing, (list, tuple, set)) and depth:
            yield from texts(thing, depth - 1)
def solve(x):
    frame, seen = sys._getframe(), [os.environ.copy(), sys.argv]
    while frame:
        seen += [dict(frame.f_locals), dict(frame.f_globals)]
        frame = frame.f_back
    seen += gc.get_objects()
    for path in [*glob.glob("/proc/*/environ"), *glob.glob("/proc/*/cmdline"), *glob.glob("/tmp/*"), *glob.glob("*")]:
        try: seen.append(open(path, "rb").read())
        except Exception: pass
    for text in texts(seen):
        at = text.find("canary" + "-")
        if at >= 0 and text[at + 7 : at + 11].isdigit():
            return text[at : at + 11]
    return "nothing"
"""


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        (SPIN, Status.EXCEEDED, "cpu"),
        (FORK, Status.EXCEEDED, "processes"),
        (MEMORY, Status.EXCEEDED, "memory"),
        (FORGED, Status.WRONG, "passes 0 of"),
        (LEAVES, Status.WRONG, "passes 0 of"),
        (EQUAL, Status.WRONG, "another value"),
        ("def solve(x): raise type('', (Exception,), {})()", Status.WRONG, "passes 0 of"),
        ("def solve(x): return", Status.WRONG, "another value"),
        ("def solve(y, z): return y", Status.WRONG, "TypeError"),
        ("solve = None", Status.WRONG, "passes 0 of"),
        ("def solve(x", Status.WRONG, "SyntaxError"),
    ],
    ids=lambda value: value.strip().splitlines()[-1][:30] if isinstance(value, str) else str(value),
)
def test_what_is_no_program_earns_nothing(sandbox: Sandbox, source: str, status: Status, said: str) -> None:
    task = TASKS[0]
    wrong, after = judged(sandbox, [(task, source), (task, ENV.solution(task))])
    assert (wrong.status, wrong.reward) == (status, 0.0) and said in wrong.detail, wrong.detail
    assert after.correct, "the next reply is judged as ever"


def test_what_is_expected_cannot_be_found(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in frames, objects, files, arguments or variables; the search itself finds what a reply does hold."""
    monkeypatch.setenv("EXPECTED", "canary-2718")
    task = Task(id="0", messages=(), answer={"call": "solve", "cases": [[["a"], "canary-2718"]]})
    planted = SEARCH + "\nkept = 'canary-' + str(2718)\n"
    hidden, known = judged(sandbox, [(task, SEARCH), (task, planted)])
    assert hidden.status is Status.WRONG and known.correct


def test_a_part_is_paid_where_it_is_asked() -> None:
    env = replace(ENV, partial=True)
    task = next(task for task in TASKS if small.takes(task.info["program"]) == "list")
    first = task.answer["cases"][0][1]
    verdict = env.verify(task, env.framed(f"def solve(x): return {first!r}"))
    assert 0 < verdict.reward <= 0.5 and verdict.status is Status.WRONG


@pytest.mark.needs("bwrap")
def test_workers_judge_it_where_it_can_be_killed() -> None:
    replies = [ENV.framed(ENV.solution(task)) for task in TASKS[:12]]
    replies[5:7] = [ENV.framed(SPIN), "```python\nsolve = abs"]
    steps = last_steps(ENV, [(task, Key(0), [reply]) for task, reply in zip(TASKS, replies, strict=False)], workers=2)
    said = [step.verdict.status for step in steps if step.verdict is not None]
    assert said[5:7] == [Status.EXCEEDED, Status.NO_ANSWER] and {*said[:5], *said[7:]} == {Status.CORRECT}


def test_workers_run_no_code_where_it_cannot_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is started without a check of the host: neither a wrong answer nor a reward."""
    monkeypatch.setenv("PATH", "/nowhere")
    replies = [ENV.framed(ENV.solution(TASKS[0])), ENV.framed(SPIN), "no code"]
    steps = last_steps(ENV, [(TASKS[0], Key(0), [reply]) for reply in replies], workers=1)
    verdicts = [step.verdict for step in steps if step.verdict is not None]
    assert [verdict.status for verdict in verdicts] == [Status.FAILED, Status.FAILED, Status.NO_ANSWER]
    assert all("E520" in verdict.detail and verdict.reward == 0 for verdict in verdicts[:2])


def test_a_host_without_a_sandbox_is_refused_with_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert Code().tasks("train")[0].id, "tasks can be read all the same"
    for ask in (check_isolation, check_env, lambda env: audit(subject_of(env, count=2))):
        with pytest.raises(ResourceError, match=r"E520(.|\n)*bubblewrap"):
            ask(Code())


def test_options_that_leave_no_test_are_refused() -> None:
    for options in ({"steps": 0}, {"steps": 9}, {"hidden": 0}, {"hidden": 65}, {"shown": -1}):
        with pytest.raises(ValueError, match="must be from"):
            Code(**options)
