"""A trainer under test with one of its objectives, and how what it returns is graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import torch
from torch import Tensor

from gnomon.conformance.batch import Batch
from gnomon.conformance.expected import Reading, expected_gradient
from gnomon.conformance.policy import Policy
from gnomon.conformance.process import Trainer
from gnomon.errors import ConfigError
from gnomon.objectives import OPTIONS
from gnomon.objectives.row import Objective

__all__ = ["SAME", "Cell", "Grade", "Refused", "Subject", "apart", "compare_gradient", "plain"]

SAME = 2e-6
"""Largest error relative to the largest entry of a gradient: advantages are often computed in float32."""
HELD_TO_ZERO = {"groups of one", "equal rewards"}
"""Checks whose gradient is zero in every reading, so they need none."""


class Grade(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    REFUSED = "refused"
    """The trainer does not offer it, and says so."""
    UNKNOWN = "unknown"
    """The gradient of a plain step already differs from every reading, so the check has no basis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One check of one objective."""

    objective: str
    """What the trainer calls it."""
    check: str
    grade: Grade
    text: str = ""
    """Which reading passes, what a wrong gradient equals, or why it was refused."""
    error: float | None = None
    """Largest difference, relative to the largest entry of the declared gradient."""
    cosine: float | None = None
    """Between the gradient and the declared one."""
    scale: float | None = None
    """The part of the gradient along the declared one, as a multiple of it."""
    equation: str = ""


class Refused(Exception):
    """The trainer does not offer what a check asks for."""


@dataclass(slots=True, kw_only=True)
class Subject:
    """A trainer with one of its objectives, the policies, and the reading that its plain step has turned out to be."""

    trainer: Trainer
    name: str
    row: Objective
    policy: Policy
    reference: Policy
    reading: Reading | None = None
    step: Tensor | None = None
    """Its gradient of the plain step."""

    def ask(self, batch: Batch) -> Tensor:
        """[parameters] the gradient that the trainer ascends."""
        options = {name: option.default for name, option in OPTIONS[self.row.name].options.items()}
        try:
            gradients = self.trainer.gradient(
                replace(batch, options=options).body(self.name, self.policy.folder, self.reference.folder)
            )
        except NotImplementedError as why:
            raise Refused(str(why)) from None
        if lost := set(self.policy.shapes) - set(gradients):
            raise ConfigError(
                "E096", "the trainer returns no gradient of some parameters", why=", ".join(sorted(lost)),
                fix="return the gradient of each of model.named_parameters(), zeros where there is none",
            )  # fmt: skip
        shapes = self.policy.shapes
        if other := [name for name, shape in shapes.items() if gradients[name].shape != shape]:
            raise ConfigError(
                "E096", "the trainer returns a gradient of another shape", where=other[0],
                why=f"it is {list(gradients[other[0]].shape)}, the parameter {list(shapes[other[0]])}",
                fix="return each gradient in the shape of its parameter",
            )  # fmt: skip
        return -torch.cat([gradients[name].detach().double().cpu().flatten() for name in shapes])

    def expect(self, reading: Reading, batch: Batch) -> Tensor:
        try:
            return expected_gradient(self.policy, reading, batch, self.reference)
        except NotImplementedError as why:
            raise Refused(str(why)) from None

    def cell(
        self,
        check: str,
        gradient: Tensor,
        right: Sequence[tuple[str, Tensor]],
        wrong: Sequence[tuple[str, Tensor]] = (),
    ) -> Cell:
        """The grade of a gradient. Args: right, what passes, the declared one first; wrong, what has a name."""
        scored = [(apart(gradient, each, self.size), text, each) for text, each in right]
        error, text, _ = min(scored, key=lambda entry: entry[0])
        cell = partial(Cell, objective=self.name, check=check, equation=self.row.equation)
        if error <= SAME:
            return cell(grade=Grade.PASS, text=text, error=error)
        size = float(right[0][1].norm())
        cosine = float(gradient @ right[0][1]) / (float(gradient.norm()) * size) if size and gradient.norm() else None
        scale = float(gradient @ right[0][1]) / size**2 if size else None
        faults = [text for text, each in wrong if apart(gradient, each, self.size) <= SAME]
        text = faults[0] if faults else "" if torch.isfinite(gradient).all() else "the gradient is not finite"
        return cell(grade=Grade.FAIL, text=text, error=scored[0][0], cosine=cosine, scale=scale)

    @property
    def size(self) -> float:
        """Below which a gradient counts as none: a thousandth of that of a plain step."""
        return 0.0 if self.step is None else float(self.step.abs().max())


def apart(gradient: Tensor, expected: Tensor, size: float) -> float:
    largest = float(expected.abs().max())
    error = float((gradient - expected).abs().max()) / (largest if largest > 1e-3 * size else size or 1.0)
    return error if error == error else torch.inf


def compare_gradient(
    check: str, batch: Batch, right: Sequence[Reading], wrong: Sequence[Reading], subject: Subject
) -> Cell:
    """The gradient of a batch against readings that pass and faults that have names."""
    gradient = subject.ask(batch)
    if subject.reading is None and check not in HELD_TO_ZERO:
        return Cell(objective=subject.name, check=check, grade=Grade.UNKNOWN, text="the plain step already differs")
    passes, faults = (
        [(reading.text, subject.expect(reading, batch)) for reading in readings] for readings in (right, wrong)
    )
    return subject.cell(check, gradient, passes, faults)


def plain(subject: Subject) -> Reading:
    """What the plain step has turned out to be."""
    return replace(subject.reading or Reading(text="", row=subject.row), text="")
