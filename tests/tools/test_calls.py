"""Calls are read from any text, in two forms, and what cannot be read says why."""

from __future__ import annotations

import random
import time

import pytest

from gnomon.tools import CalculatorTool, PythonTool, TerminalTool, calls
from gnomon.tools.base import cap_text, mismatch
from gnomon.tools.calls import MOST, without

TOOLS = (CalculatorTool(), PythonTool(), TerminalTool())


def read(reply: str) -> list[tuple[str, object]]:
    """Name and arguments of every call, or its problem."""
    return [
        (call.name, dict(call.arguments)) if not call.problem else ("", call.problem) for call in calls(reply, TOOLS)
    ]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("nothing", []),
        ("", []),
        ("<calculator>3*4</calculator>", [("calculator", {"expression": "3*4"})]),
        ("<python>\nx = 1\nx\n</python>", [("python", {"code": "x = 1\nx"})]),
        ('<tool_call>{"name": "calculator", "arguments": {"expression": "1"}}</tool_call>',
         [("calculator", {"expression": "1"})]),
        ('a <calculator>1</calculator> b <tool_call>\n{"name": "python", "arguments": {"code": "2"}}\n</tool_call> c',
         [("calculator", {"expression": "1"}), ("python", {"code": "2"})]),
        ("<python>print('<calculator>1</calculator>')</python>",
         [("python", {"code": "print('<calculator>1</calculator>')"})]),
        ("<think><calculator>1</calculator></think>no", []),
        ("<think><calculator>1</calculator>", []),
        ("<calculators>1</calculators><weather>x</weather>", []),
        ("<terminal>ls<Enter></terminal>", [("terminal", {"keys": "ls<Enter>"})]),
    ],
)  # fmt: skip
def test_calls_that_can_be_read(reply, found):
    assert read(reply) == found


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("<calculator>1", "does not end"),
        ("<tool_call>{}</tool_call>", '"name"'),
        ("<tool_call></tool_call>", "not JSON"),
        ("<tool_call>[1]</tool_call>", "not a JSON object"),
        ('<tool_call>{"name": 3}</tool_call>', '"name"'),
        ('<tool_call>{"name": "rm", "arguments": {}}</tool_call>', "no tool 'rm'; there is calculator"),
        ('<tool_call>{"name": "python", "arguments": "x"}</tool_call>', "not a JSON object"),
        ('<tool_call>{"name": "python", "parameters": {"code": "1"}}</tool_call>', 'no "arguments" but "parameters"'),
        ('<tool_call>{"name": "python", "code": "1"}</tool_call>', 'no "arguments" but "code"'),
        ('<tool_call>{"name": "python", "id": "7", "args": {}}</tool_call>', 'no "arguments" but "args"'),
        ('<tool_call>{"name": "python", "name": "rm"}</tool_call>', "twice"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "over"),
        ('<tool_call>{"name": "python", "arguments": {"code": NaN}}</tool_call>', "NaN"),
    ],
)
def test_calls_that_cannot(reply, why):
    ((name, problem),) = read(reply)
    assert name == "" and why in str(problem)


def test_calls_of_one_reply_are_capped_and_the_rest_is_told():
    found = calls("<calculator>1</calculator>" * 10_000, TOOLS)
    assert len(found) == MOST + 1 and "more than" in found[-1].problem
    assert without("<calculator>1</calculator>" * 10_000, found).strip() == ""


def test_every_text_is_read_in_linear_time():
    rng = random.Random(0)
    pieces = ["<tool_call>", "</tool_call>", "<python>", "</python>", '{"name":', "}", "\0", "𝟛", "<", "</think>", "x"]
    for _ in range(2000):
        reply = "".join(rng.choices(pieces, k=rng.randrange(12)))
        for call in calls(reply, TOOLS):
            assert 0 <= call.span[0] < call.span[1] <= len(reply)
        assert len(without(reply, calls(reply, TOOLS))) == len(reply)
    began = time.process_time()
    for text in ("<python>" * 30_000, "<" * 250_000, "</python>" * 30_000, "<tool_call></python>" * 10_000):
        calls(text, TOOLS)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "missing"),
        ({"code": 3}, "must be string"),
        ({"code": True}, "must be string"),
        ({"code": None}, "must be string"),
        ({"code": "", "other": 1}, "no argument 'other'"),
        ({"code": ""}, ""),
    ],
)
def test_arguments_are_held_to_the_schema(arguments, why):
    problem = mismatch(PythonTool().parameters, arguments)
    assert why in problem if why else problem == ""


def test_numbers_and_truth_values_are_kept_apart():
    schema = {"properties": {"n": {"type": "integer"}, "f": {"type": ["number", "null"]}, "any": {}}}
    assert mismatch(schema, {"n": True}) and mismatch(schema, {"n": 1.5}) and mismatch(schema, {"f": "1"})
    assert not mismatch(schema, {"n": 1, "f": None, "any": [1]})
    assert not mismatch({**schema, "additionalProperties": True}, {"more": 1})


def test_a_result_is_capped_in_the_middle_and_shows_no_control_characters():
    text = cap_text("a" * 5000 + "b" * 5000, 100)
    assert len(text) == 100 and text.startswith("aaa") and text.endswith("bbb") and "10000 characters" in text
    assert cap_text("\x1b[31mred\0\r\n\tdone") == "�[31mred��\n\tdone"
    assert cap_text("x" * 50, 10) and len(cap_text("x" * 50, 10)) <= 10
