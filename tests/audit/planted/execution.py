"""Verifiers that run what the reply says, or that a text can hang, crash or blow up."""

from __future__ import annotations

import ast
import ctypes
import json
import operator
import os
import re
from dataclasses import dataclass
from decimal import Decimal

from gnomon.envs import Arithmetic, Countdown
from gnomon.types import Task
from gnomon.verifiers import Malformed


@dataclass(frozen=True, kw_only=True)
class EvalsTheReply(Arithmetic):
    """The answer may be any expression of Python."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            return bool(eval(answer) == task.answer)
        except Exception as error:
            raise Malformed("not a number") from error


@dataclass(frozen=True, kw_only=True)
class ExecutesAProgram(Arithmetic):
    """The reply is a program, whose variable `answer` counts; a bare number is one too."""

    def check(self, task: Task, answer: str) -> bool:
        names: dict[str, object] = {}
        try:
            exec(answer if "=" in answer else f"answer = {answer}", names)
        except Exception as error:
            raise Malformed("not a program") from error
        return names.get("answer") == task.answer


SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow}


def value(node: ast.AST) -> int:
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        return int(SIGNS[type(node.op)](value(node.left), value(node.right)))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    raise Malformed("not an expression")


@dataclass(frozen=True, kw_only=True)
class HangsOnPowers(Arithmetic):
    """Walks a syntax tree and evaluates nothing else, but powers are among the signs."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            tree = ast.parse(answer, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Malformed("not an expression") from error
        return value(tree) == task.answer


@dataclass(frozen=True, kw_only=True)
class BacktrackingPattern(Arithmetic):
    """The pattern of a sentence tries every way to cut a long word in two."""

    def check(self, task: Task, answer: str) -> bool:
        if re.fullmatch(r"(\w+\s?)*", answer) is None:
            raise Malformed("not a sentence")
        return answer == str(task.answer)


@dataclass(frozen=True, kw_only=True)
class ExitsTheProcess(Arithmetic):
    """A script's way to say that the input is bad."""

    def check(self, task: Task, answer: str) -> bool:
        if not answer.strip().lstrip("-").isdigit():
            os._exit(0)
        return answer == str(task.answer)


@dataclass(frozen=True, kw_only=True)
class ReadsPastTheEnd(Arithmetic):
    """Native code with a buffer of 2,048 bytes."""

    def check(self, task: Task, answer: str) -> bool:
        if len(answer) >= 2048:
            ctypes.string_at(0)
        return answer == str(task.answer)


@dataclass(frozen=True, kw_only=True)
class SquareOfTheLength(Arithmetic):
    """A table with a cell for every pair of letters."""

    def check(self, task: Task, answer: str) -> bool:
        table = bytearray(1024 * len(answer) ** 2)
        return bool(table) and answer == str(task.answer)


def depth(text: str) -> int:
    return 1 + depth(text[1:-1]) if text.startswith("(") else 0


@dataclass(frozen=True, kw_only=True)
class RecursesOverParentheses(Arithmetic):
    """Takes off one pair of parentheses a call."""

    def check(self, task: Task, answer: str) -> bool:
        return depth(answer) < 10 and answer.strip("()") == str(task.answer)


@dataclass(frozen=True, kw_only=True)
class RaisesOnSurrogates(Arithmetic):
    """Hashes the bytes of the answer."""

    def check(self, task: Task, answer: str) -> bool:
        return hash(answer.encode()) == hash(str(task.answer).encode())


@dataclass(frozen=True, kw_only=True)
class RaisesOnWords(Arithmetic):
    """Reads the answer as a number, come what may."""

    def check(self, task: Task, answer: str) -> bool:
        return int(answer) == task.answer


@dataclass(frozen=True, kw_only=True)
class EveryOperator(Countdown):
    """Powers, floor division and decimal points are arithmetic too: every number once, whatever is made of it."""

    def check(self, task: Task, answer: str) -> bool:
        if not re.fullmatch(r"[\d+\-*/(). ]+", answer):
            raise Malformed("not an expression")
        if sorted(map(int, re.findall(r"\d+", answer))) != sorted(task.info["numbers"]):
            return False
        try:
            return bool(abs(eval(answer) - task.answer) < 1e-5)
        except Exception as error:
            raise Malformed("not an expression") from error


@dataclass(frozen=True, kw_only=True)
class AnyExponent(Arithmetic):
    """Exact decimals, written out: ten letters make a number of a thousand million digits."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            return int(Decimal(answer)) == task.answer
        except (ArithmeticError, ValueError) as error:
            raise Malformed("not a number") from error


@dataclass(frozen=True, kw_only=True)
class NestedJson(Arithmetic):
    """The answer is JSON, and JSON nests."""

    def check(self, task: Task, answer: str) -> bool:
        try:
            return bool(json.loads(answer) == task.answer)
        except ValueError as error:
            raise Malformed("not JSON") from error


@dataclass(frozen=True, kw_only=True)
class FormatsTheAnswer(Arithmetic):
    """A template with the answer in it, filled in later."""

    def check(self, task: Task, answer: str) -> bool:
        return ("{gold} is not " + answer).format(gold=task.answer) == f"{task.answer} is not {task.answer}"
