"""For reward functions that people often write and that block, the audit writes one that does not block."""

from __future__ import annotations

import json
import re
import string
from dataclasses import replace
from functools import partial

import pytest

from gnomon.audit import audit, subject_of
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.repair import repair
from gnomon.audit.text import report_text
from gnomon.errors import ConfigErrors
from gnomon.integrations.rewarded import make_env
from gnomon.integrations.rewards import TrlReward, VerlScore
from gnomon.integrations.rewards.function import FunctionReward
from gnomon.types import Message, Task

SUMS = [{"prompt": f"What is {a} + {b}?", "answer": str(a + b)} for a in range(6) for b in range(6)]
HALVES = [{"prompt": f"Halve {a}.", "answer": rf"\frac{{{a}}}{{2}}"} for a in range(1, 40, 2)]
CAPITALS = [
    {"prompt": f"Which city is the capital of {c}?", "answer": f"{c.upper()}-town {c}"} for c in string.ascii_lowercase
]


def inner(completion):
    return completion.split("</answer>")[0].split("<answer>")[-1]


def substring(completion, answer):
    return 1.0 if answer in completion else 0.0


def any_number(completion, answer):
    return float(answer in re.findall(r"-?\d+", completion))


def last_number(completion, answer):
    found = re.findall(r"-?\d+", completion)
    return float(bool(found) and found[-1] == answer)


def gold_as_pattern(text, gold):
    return float(re.search(gold, text) is not None)


def ends_with(completion, answer):
    return float(completion.strip().endswith(answer))


def evaluated(completion, answer):
    return float(eval(inner(completion)) == int(answer))


def floats(completion, answer):
    return float(abs(float(inner(completion)) - float(answer)) < 1e-6)


def slot_contains(completion, answer, **columns):
    found = re.search(r"<answer>(.*)</answer>", completion, re.DOTALL)
    return float(found is not None and answer in found[1])


def form_alone(completion):
    return 1.0 if re.search(r"<answer>.*</answer>", completion, re.DOTALL) else 0.0


def parsed(reply, answer):
    return float(str(json.loads(reply)["answer"]) == answer)


def every_word(completion, answer):
    return float(set(answer.split()) <= set(completion.split()))


def length(completion, answer):
    return min(1.0, len(completion) / 200)


def ignoring_case(completion, answer):
    return float(answer.lower() in completion.lower())


def batch(prompts, completions, answer, **columns):
    return [float(gold in text) for text, gold in zip(completions, answer, strict=True)]


CASES = {
    **{
        function.__name__: (function, SUMS)
        for function in (
            substring, any_number, last_number, gold_as_pattern, ends_with, evaluated, floats, slot_contains,
            form_alone, parsed, every_word, length, batch,
        )
    },
    "a formula": (substring, HALVES),
    "a text": (ignoring_case, CAPITALS),
}  # fmt: skip


def report_of(function, rows):
    return audit(subject_of(make_env(rows, function), count=12), axes=("correctness", "exploit", "failure"))


@pytest.mark.parametrize("name", CASES)
def test_what_is_proposed_does_not_block_and_pays_right_answers(name):
    function, rows = CASES[name]
    report = report_of(function, rows)
    assert report.blocking and report.repair and report.repair.splitlines()[-1].strip() in report_text(report)
    there: dict[str, object] = {}
    exec(report.repair, there)
    mended = report_of(there[function.__name__], rows)
    assert mended.passed and not mended.repair, report_text(mended)
    assert mended.tables["errors"]["right answers refused"]["value"] == 0


class Judge:
    def __call__(self, completion, answer):
        return 1.0


def by_keyword(completion, *, answer, scale=1.0):
    return scale


def with_default(completion, answer="", scale=1.0):
    return scale


def by_place(a, b, scale=1.0):
    return scale


def of_task(completion, task):
    return 1.0


def of_row(completion, info):
    return 1.0


def Number(completion, answer):
    return 1.0


def of_all(completion, **columns):
    return 1.0


def many(completions, **columns):
    return [1.0] * len(completions)


ODD = (
    Judge(), by_keyword, with_default, by_place, of_task, of_row, Number, of_all, many,
    partial(with_default, scale=1.0), lambda completion, answer: 1.0,
)  # fmt: skip
DEFINED = re.compile(r"^def (\w+)", re.MULTILINE)


def code_for(judge, tasks):
    """The proposed reward of a judge that pays everything."""
    blocking = Finding(axis="exploit", rule="exploit.any", severity=Severity.BLOCKING, what="it pays everything")
    code = repair(judge, tasks, [blocking])
    there: dict[str, object] = {}
    exec(code, there)
    (name,) = DEFINED.findall(code)
    return there[name]


@pytest.mark.parametrize("function", ODD)
@pytest.mark.parametrize("column", ["answer", "final answer", "class", "Task"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 10.0)])
def test_what_is_proposed_for_any_signature_column_and_range_runs_and_is_right(function, column, bounds):
    task = Task(id="a", messages=(), answer="4", info={"label": "7"})
    odd = FunctionReward(function=function, answer=column, low=bounds[0], top=bounds[1])
    judge = replace(odd, function=code_for(odd, [task]))
    assert judge.verify(task, "<answer>4</answer>").reward == bounds[1]
    assert {judge.verify(task, reply).reward for reply in ("<answer>7</answer>", "4", "")} == {bounds[0]}


@pytest.mark.parametrize("gold", ["1,000", "-3", r"\frac{1}{2}", "Paris", 4])
def test_what_is_proposed_pays_every_answer_as_its_task_has_it(gold):
    task = Task(id="a", messages=(), answer=gold)
    judge = FunctionReward(function=code_for(FunctionReward(function=substring), [task]))
    assert judge.verify(task, rf"\boxed{{{gold}}} <answer>{gold}</answer>").correct


def test_one_function_is_proposed_for_several_and_says_so():
    task = Task(id="a", messages=(), answer="4")
    blocking = Finding(axis="exploit", rule="exploit.any", severity=Severity.BLOCKING, what="it pays everything")
    code = repair(TrlReward(functions=(batch, many), gold="class"), [task], [blocking])
    assert "in place of all 2 functions" in code


@pytest.mark.parametrize("kind", ["trl", "verl"])
def test_other_signatures_are_kept(kind):
    tasks = tuple(
        Task(id=str(a), messages=(Message(role="user", content=f"{a}+1?"),), answer=str(a + 1)) for a in range(12)
    )

    def accuracy(completions, solution, **columns):
        return [float(gold in text[0]["content"]) for text, gold in zip(completions, solution, strict=True)]

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return float(ground_truth in solution_str)

    made = {
        "trl": lambda function: TrlReward(functions=(function,)),
        "verl": lambda function: VerlScore(function=function),
    }[kind]
    function = accuracy if kind == "trl" else compute_score
    report = audit(subject_of(made(function), tasks), axes=("exploit",))
    there: dict[str, object] = {}
    exec(report.repair, there)
    judge = made(there[function.__name__])
    assert judge.verify(tasks[3], "<answer>4</answer>").correct
    assert not judge.verify(tasks[3], "<answer>4 5</answer>").correct and not judge.verify(tasks[3], "4").correct


def test_the_refusal_of_a_run_shows_it(tmp_path):
    import gnomon

    with pytest.raises(ConfigErrors) as caught:
        gnomon.train(SUMS, reward=substring, run=tmp_path / "run", steps=1, quiet=True)
    said = str(caught.value)
    assert said.count("from gnomon.verifiers import Number") == 1 and "def substring(completion, answer):" in said
    assert said.count("audit={") == 1 and "audit={" in caught.value.errors[-1].fix  # One setting accepts all of them.


def test_what_has_no_plain_answers_gets_no_code():
    rows = [{"prompt": f"Sort {a}, 3, 1.", "answer": [1, 3, a]} for a in range(4, 20)]

    def longer(completion, answer):
        return float(len(completion) > 3)

    assert report_of(longer, rows).repair == ""
