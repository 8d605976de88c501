"""Studies that a command writes: one factor at a time over the settings of a recipe, and one setting over values."""

from __future__ import annotations

import math
import pprint
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.comparison.statistics import estimate
from gnomon.config import RunConfig
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.types import Conclusion
from gnomon_lab.studies.design import Claim, Settings, Study
from gnomon_lab.studies.folder import StudyFolder
from gnomon_lab.studies.outcome import Outcome

__all__ = [
    "BASE", "ablation", "ablation_text", "base_of", "examples", "factors_of", "possible", "register_text", "scaling",
    "scaling_text",
]  # fmt: skip

BASE = "base"
"""Name of the arm that nothing is changed of."""
EVEN = {"PASS": 0.25, "FAIL": 0.25, "INCONCLUSIVE": 0.5}
"""The prediction of a command, which has none of its own."""


def factors_of(config: RunConfig) -> dict[str, Settings]:
    """The changes that `gnomon ablate` tries unless some are given, by what they are called."""
    rollout, optim = config.rollout, config.optim
    halved = {"rollout.group": max(2, rollout.group // 2), "rollout.prompts": rollout.prompts * 2}
    other = "dr_grpo" if config.objective.type == "grpo" else "grpo"
    found: dict[str, Settings] = {
        f"objective={other}": {"objective.type": other},
        "groups halved, prompts doubled": halved,
        "half the max_tokens": {"rollout.max_tokens": max(1, rollout.max_tokens // 2)},
        "rollout.refill=4": {"rollout.refill": 4},
        "a third of the lr": {"optim.lr": optim.lr / 3},
        "three times the lr": {"optim.lr": optim.lr * 3},
    }
    single = [
        ("rollout.temperature", rollout.temperature, 0.7),
        ("rollout.lag", rollout.lag, 4),
        ("optim.warmup", optim.warmup, 0),
        ("optim.min_lr_ratio", optim.min_lr_ratio, 1.0),
        ("optim.max_grad_norm", optim.max_grad_norm, 1e9),
        ("optim.epochs", optim.epochs, 2),
        ("regularize.kl", config.regularize.kl, 0.01),
        ("regularize.entropy", config.regularize.entropy, 0.01),
        ("regularize.overlong", config.regularize.overlong, 0.2),
    ]
    found |= {f"{key}={value:g}": {key: value} for key, now, value in single if now != value}
    options: list[tuple[str, object]] = [("format", 0.0), ("strictness", "lenient"), ("shots", 2)]
    return found | {f"env.{key}={value}": {f"env.{key}": value} for key, value in options}


def ablation(base: str, settings: Settings, factors: Mapping[str, Settings], seeds: int, margin: float) -> str:
    """The text of a study that changes one factor at a time.

    Each claim is that the change is worth less than the margin: PASS where it is, FAIL where it is worth more.
    Args: base: environment or recipe; settings: over it, in every arm; margin: in pass@1.
    """
    claims = [Claim(measure="final", arm=name, than=BASE, within=margin) for name in factors]
    return text(
        question=f"Is every one of these changes to {base} worth less than {100 * margin:g} points of pass@1?",
        why="One factor at a time: FAIL of a claim means that the factor matters, PASS that it does not, INCONCLUSIVE "
        "that these seeds cannot tell.",
        base=base,
        settings=settings,
        arms={BASE: {}, **factors},
        seeds=seeds,
        claims=claims,
    )


def scaling(base: str, settings: Settings, key: str, values: Sequence[Any], seeds: int) -> str:
    """The text of a study that gives one setting several values, and claims that the last is better than the first.

    Args: key: a setting, or `examples`, the number of train tasks.
    """
    arms = {str(value): {"rollout.tasks": examples(value)} if key == "examples" else {key: value} for value in values}
    first, last = str(values[0]), str(values[-1])
    return text(
        question=f"Does pass@1 on {base} rise as {key} goes from {first} to {last}?",
        why="How pass@1 grows with a setting says what more of it would bring.",
        base=base,
        settings=settings,
        arms=arms,
        seeds=seeds,
        claims=[Claim(measure="final", arm=last, than=first, above=0.0)],
    )


def examples(count: int) -> list[int]:
    """Indices of that many train tasks."""
    return list(range(count))


def text(
    *, question: str, why: str, base: str, settings: Settings, arms: Mapping[str, Settings], seeds: int,
    claims: Sequence[Claim],
) -> str:  # fmt: skip
    """A study as a Python file. Equal arguments give equal bytes, so that the same command goes on."""
    fields = {
        "question": question, "why": why, "base": base, "settings": dict(settings),
        "arms": {name: dict(arm) for name, arm in arms.items()}, "seeds": list(range(seeds)),
    }  # fmt: skip
    lines = [f"    {name}={pprint.pformat(value, sort_dicts=False, width=110)}," for name, value in fields.items()]
    made = [f"        Claim(measure={c.measure!r}, arm={c.arm!r}, than={c.than!r}, {line(c)})," for c in claims]
    head = [
        '"""Written by a command of gnomon."""',
        "",
        "from gnomon_lab.studies import Claim, Study",
        "",
        "study = Study(",
    ]
    return "\n".join([*head, *lines, "    claims=[", *made, "    ],", f"    prediction={EVEN},", ")", ""])


def line(claim: Claim) -> str:
    return f"above={claim.above!r}" if claim.within is None else f"within={claim.within!r}"


def register_text(folder: Path, written: str) -> StudyFolder:
    """The folder of a study with this text. Raises: as `StudyFolder.register`."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "study.py"
        source.write_text(written, "utf-8")
        return StudyFolder.register(folder, source)


def base_of(base: str, settings: Settings) -> RunConfig:
    """The configuration that nothing is changed of. Raises: ConfigErrors with every wrong setting."""
    return one_arm(base, settings, {}).config(BASE, 0)


def one_arm(base: str, settings: Settings, arm: Settings) -> Study:
    return Study(question="?", why="", base=base, settings=settings, arms={BASE: arm}, claims=[], prediction=EVEN)


def possible(
    base: str, settings: Settings, factors: Mapping[str, Settings]
) -> tuple[dict[str, Settings], dict[str, str]]:
    """The factors that the recipe takes, and of the others what stands in their way."""
    taken: dict[str, Settings] = {}
    refused: dict[str, str] = {}
    for name, arm in factors.items():
        try:
            one_arm(base, settings, arm).config(BASE, 0)
            taken[name] = arm
        except ConfigErrors as error:
            refused[name] = error.errors[0].what
        except ConfigError as error:
            refused[name] = error.what
    return taken, refused


WORDS = {Conclusion.PASS: "does not matter", Conclusion.FAIL: "matters", Conclusion.INCONCLUSIVE: "undecided"}


def ablation_text(found: Outcome, margin: float) -> str:
    """Every change with its effect, the largest first."""
    claims = sorted(found.claims, key=lambda each: -abs(each.estimate.mean) if each.values else 0.0)
    lines = [f"pass@1 with the change minus pass@1 without it, over {len(found.seeds)} seeds; a margin of ±{margin:g}"]
    for each in claims:
        e = each.estimate
        lines.append(f"{WORDS[each.verdict]:<16}{e.mean:+.3f} [{e.low:+.3f}, {e.high:+.3f}]  {each.claim.arm}")
    return "\n".join(lines)


def scaling_text(found: Outcome, key: str, values: Sequence[Any]) -> str:
    """pass@1 at every value, what a doubling adds, and how well the other values predict the last."""
    by_seed = {value: finals(found, str(value)) for value in values}
    lines = [f"pass@1 by {key}, over {len(found.seeds)} seeds"]
    for value, numbers in by_seed.items():
        e = estimate(numbers)
        lines.append(f"{value!s:>10}  {e.mean:.3f} [{e.low:.3f}, {e.high:.3f}]")
    if not all(isinstance(value, int | float) and value > 0 for value in values):
        return "\n".join(lines)
    logs = [math.log2(value) for value in values]
    each = [[by_seed[value][place] for value in values] for place in range(len(found.seeds))]
    slope = estimate([statistics.linear_regression(logs, row).slope for row in each])
    lines.append(f"a doubling adds {slope.mean:+.3f} [{slope.low:+.3f}, {slope.high:+.3f}]")
    if len(values) > 2:
        missed = []
        for row in each:
            fit = statistics.linear_regression(logs[:-1], row[:-1])
            missed.append(row[-1] - fit.intercept - fit.slope * logs[-1])
        e = estimate(missed)
        lines.append(
            f"the line through the other values misses {key}={values[-1]} by "
            f"{e.mean:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"
        )
    return "\n".join(lines)


def finals(found: Outcome, arm: str) -> list[float]:
    """By seed; 0 for a run that crashed."""
    measured = found.measured[arm]
    return [0.0 if (numbers := measured[seed]) is None else numbers["final"] for seed in found.seeds]
