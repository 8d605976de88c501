"""Repair: correct the one fault of a small Python package, with a shell. Hidden tests judge the package."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from gnomon.envs import packages, programs
from gnomon.envs.agent import Agent, End
from gnomon.envs.base import identity, user
from gnomon.types import Part, Task, Verdict
from gnomon.verifiers import UnitTests
from gnomon.verifiers.code import Cases, shared_sandbox


@dataclass(frozen=True, kw_only=True)
class Repair(Agent):
    """A chain of 1 to `steps` functions, beside `others` functions. One file tests `shown` calls.

    `hidden` other calls judge the package.
    """

    steps: int = 2
    others: int = 2
    shown: int = 2
    hidden: int = 32
    isolation: ClassVar[tuple[str, ...]] = ("session",)
    imports: ClassVar[tuple[str, ...]] = ("gnomon.verifiers.warm_sandbox",)

    def __post_init__(self) -> None:
        for name, (least, most) in packages.RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be from {least} to {most}")

    def make(self, rng: random.Random) -> Task:
        package = packages.draw_package(rng, self.steps, self.others, self.shown, self.hidden)
        tests = programs.cases(package.program)
        return Task(
            id=identity("repair", package.wording, package.files(), family=tests),
            messages=user(f"The Python package in this folder has one fault. Repair it. {package.wording}"),
            answer={"call": "solve", "cases": tests[: self.hidden]},
            info={"package": package},
        )

    def folder(self, task: Task) -> dict[str, str | bytes]:
        return {**task.info["package"].files()}

    def judge(self, task: Task, end: End) -> float | Verdict:
        if dict(end.files) == self.launch(task).files:
            return 0.0
        # Only inputs enter the sandbox, so no code of the package can know which values are expected.
        tests, verifier = Cases.read(task.answer), UnitTests(limits=packages.LIMITS)
        (outcome,) = shared_sandbox(packages.LIMITS).map([tests.work(packages.bundle(end.files))])
        status, share, detail = verifier.result(tests, outcome)
        return Verdict(status=status, parts=(Part(name="correct", value=share),), detail=detail)

    def solution(self, task: Task) -> End:
        files = replace(task.info["package"], fault=None).files()
        return End(status=0, files={name: text.encode() for name, text in files.items()})
