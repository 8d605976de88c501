"""Small Python packages as data: a chain of functions in modules, with one planted fault."""

from __future__ import annotations

import builtins
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from gnomon.envs import programs
from gnomon.envs.programs import OPERATIONS, Program
from gnomon.sandbox import Limits

__all__ = ["LIMITS", "NAME", "Fault", "Package", "bundle", "draw_package"]

NAME = "pipeline"
"""Of every package. Its function is `solve`."""
LIMITS = Limits(cpu_seconds=0.25, wall_seconds=5.0, memory_bytes=2**28)
"""Per call. The wall-clock limit is much longer, because the machine may be busy."""
RANGES = {"steps": (1, 8), "others": (0, 16), "shown": (0, 8), "hidden": (1, programs.BATTERY)}
"""Smallest and largest value of the numbers that `draw_package` takes."""
MODULES = {"int": "integers", "list": "lists", "str": "texts"}
FINDER = '''
import sys
from importlib.machinery import ModuleSpec

class Files:
    """Finds the modules in FILES."""

    def find_spec(self, name, path=None, target=None):
        stem = name.replace(".", "/")
        for file in (stem + "/__init__.py", stem + ".py"):
            if file in FILES:
                return ModuleSpec(name, self, origin=file, is_package=file.endswith("/__init__.py"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.origin
        exec(compile(FILES[name], name, "exec"), module.__dict__)

sys.meta_path.insert(0, Files())
'''
Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a package."""

    kind: Literal["operation", "number", "skipped", "swapped"]
    """Another operation or number in the body of a function; a call that is missing, or comes after the next one."""
    at: int
    """The step."""
    body: Step
    """What the function of the step does. It is the step itself if only calls are wrong."""

    def apply(self, program: Program) -> Program:
        """What a package with this fault computes."""
        before, rest = program[: self.at], program[self.at + 1 :]
        if self.kind == "skipped":
            return before + rest
        if self.kind == "swapped":
            return (*before, *rest[:1], self.body, *rest[1:])
        return (*before, self.body, *rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package and its file of tests."""

    program: Program
    fault: Fault | None
    """None if the package is correct."""
    others: Program
    """Steps for which the package has functions that it does not call."""
    examples: tuple[Any, ...]
    """Inputs of the tests."""

    @property
    def wording(self) -> str:
        """What `solve` returns."""
        kind = programs.KINDS[programs.takes(self.program)]
        return f"{NAME}.solve(x), x {kind}: {programs.words(self.program)}."

    def files(self) -> dict[str, str]:
        """The working folder, by path."""
        modules, calls = dict[str, dict[str, str]](), list[str]()
        for at, step in enumerate((*self.program, *self.others)):
            module = MODULES[OPERATIONS[step[0]].takes]
            functions = modules.setdefault(module, {})
            name = slug(step) if slug(step) not in functions else f"{slug(step)}_{at + 1}"
            body = self.fault.body if self.fault is not None and self.fault.at == at else step
            functions[name] = function(name, step, body)
            calls.append(f"    x = {module}.{name}(x)\n")
        order = list(range(len(self.program)))
        if self.fault is not None and self.fault.kind == "swapped":
            order.insert(self.fault.at + 1, order.pop(self.fault.at))
        if self.fault is not None and self.fault.kind == "skipped":
            order.remove(self.fault.at)
        imports = ", ".join(sorted({MODULES[OPERATIONS[operation].takes] for operation, _ in self.program}))
        head = f'from {NAME} import {imports}\n\n\ndef solve(x):\n    """{capital(programs.words(self.program))}."""\n'
        return {
            f"{NAME}/__init__.py": f"from {NAME}.main import solve\n",
            f"{NAME}/main.py": f"{head}{''.join(calls[at] for at in order)}    return x\n",
            **{f"{NAME}/{module}.py": "\n\n".join(modules[module].values()) for module in sorted(modules)},
            **({f"test_{NAME}.py": self.tests()} if self.examples else {}),
        }

    def tests(self) -> str:
        """The source of a test of every input, to be run with `python`."""
        values = [(value, programs.run(self.program, value)) for value in self.examples]
        body = "".join(f"        self.assertEqual(solve({value!r}), {right!r})\n" for value, right in values)
        head = f"import unittest\n\nfrom {NAME} import solve\n\n\nclass Test(unittest.TestCase):\n    def test(self):\n"
        return f'{head}{body}\n\nif __name__ == "__main__":\n    unittest.main()\n'


def draw_package(rng: random.Random, steps: int, others: int, examples: int, tests: int) -> Package:
    """Draw a faulty package of at most so many steps. So many tests reveal its fault."""
    faults_by_kind = dict[str, list[Fault]]()
    while not faults_by_kind:
        program = programs.draw_program(rng, steps, tests)
        faults_by_kind = faults(program, tests)
    operations = {operation for operation, _ in program}
    rest = rng.sample([operation for operation in range(len(OPERATIONS)) if operation not in operations], others)
    return Package(
        program=program,
        fault=rng.choice(faults_by_kind[rng.choice(sorted(faults_by_kind))]),
        others=tuple((operation, rng.choice(OPERATIONS[operation].ks)) for operation in rest),
        examples=tuple(programs.other_inputs(rng, program, examples)),
    )


def faults(program: Program, tests: int) -> dict[str, list[Fault]]:
    """The faults by kind that so many tests reveal.

    Args: program: one that so many tests distinguish from similar ones (`programs.discerning`).
    """
    chain, result = programs.kinds(program), list[Fault]()
    for at, own in enumerate(program):
        bodies = [body for body in programs.between(chain[at], chain[at + 1]) if body != own]
        result += [Fault("number" if body[0] == own[0] else "operation", at, body) for body in bodies]
        if len(program) > 1 and chain[at] == chain[at + 1]:
            result.append(Fault("skipped", at, own))
        swapped = Fault("swapped", at, own)
        if chain[at : at + 3] == [chain[at]] * 3 and revealed(swapped, program, tests):
            result.append(swapped)
    return {
        kind: [fault for fault in result if fault.kind == kind] for kind in sorted({fault.kind for fault in result})
    }


def revealed(fault: Fault, program: Program, tests: int) -> bool:
    faulty = fault.apply(program)
    return any(programs.run(faulty, value) != right for (value,), right in programs.cases(program)[:tests])


def slug(step: Step) -> str:
    """The name of the function of a step, without its number."""
    name = "_".join(re.findall("[a-z]+", OPERATIONS[step[0]].words.replace("{k}", "")))
    return f"the_{name}" if hasattr(builtins, name) else name


def function(name: str, step: Step, body: Step) -> str:
    expression = OPERATIONS[body[0]].python.replace("{k}", str(body[1]))
    return f'def {name}(x):\n    """{capital(programs.words((step,)))}."""\n    return {expression}\n'


def capital(words: str) -> str:
    return words[0].upper() + words[1:]


def bundle(folder: Mapping[str, bytes]) -> str:
    """The package of a folder as one source, which defines `solve`. No other file of the folder is in it."""
    files = {name: folder[name].decode(errors="replace") for name in sorted(folder) if belongs(name)}
    return f"FILES = {files!a}\n{FINDER}\nfrom {NAME} import solve\n"


def belongs(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[:1] == (NAME,) and path.suffix == ".py"
