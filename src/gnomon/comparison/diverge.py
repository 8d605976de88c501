"""Where two runs part: the first stage of a step in which they differ, of Gnomon's runs and of imported logs.

A step passes through stages: its tasks are chosen, prompts become tokens, replies are sampled with their
log-probabilities, judged, and given advantages; the gradient has a norm, and moves the weights. What differs in one
stage differs in most of those behind it, so the first one is where to look.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gnomon.errors import RunError
from gnomon.store import RunReader
from gnomon.store.compare import ABSENT, shortened
from gnomon.types import Group, Rollout

__all__ = ["STAGES", "Divergence", "diverge"]

STAGES = (
    "tasks", "prompt tokens", "sampled tokens", "log-probabilities", "verdict", "advantage", "gradient norm", "weights",
)  # fmt: skip
"""In the order in which a step passes through them. Of several turns only the first prompt is compared; where a log has
no tokens, replies are compared as texts."""
NUMBERS = ("log-probabilities", "advantage", "gradient norm")
"""Stages whose values are compared up to a tolerance."""
ADVICE = {
    "tasks": "compare the seeds, the rows and their order (shuffling, filters, a resumed data loader)",
    "prompt tokens": "compare the chat templates, the system prompts, and whether the start token is added twice",
    "sampled tokens": "compare temperature, top-p and top-k, the samplers' seeds, stop tokens and length limits",
    "log-probabilities": "compare dtype and attention, whether the temperature divides the scores, and which "
    "distribution is reported",
    "verdict": "compare what the verifiers are given, and how a failed verifier counts",
    "advantage": "compare the baseline, the division by a standard deviation and its epsilon, and who is in a group",
    "gradient norm": "compare what the sum is divided by, masks, clipping of ratios, and penalties",
    "weights": "compare the learning rate and its warm-up, the optimiser's settings, the bound on the gradient norm, "
    "and whether new weights reached the sampler",
}
"""What to compare in each stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference of two runs. Falsy if there is none in what both have recorded."""

    a: Path
    b: Path
    steps: int
    """Steps that were compared in full."""
    step: int | None = None
    stage: str = ""
    """One of `STAGES`; empty where the runs do not part."""
    where: str = ""
    """The group, rollout and token."""
    values: tuple[str, str] = ("", "")
    """What each run has there."""
    texts: tuple[str, str] = ("", "")
    """Prompts or replies around it."""
    unknown: tuple[str, ...] = ()
    """Stages that a run does not record."""

    def __bool__(self) -> bool:
        return bool(self.stage)

    def body(self) -> dict[str, Any]:
        return asdict(self) | {"a": str(self.a), "b": str(self.b)}

    def __str__(self) -> str:
        lines = [f"A is {self.a}, B is {self.b}"]
        if self.stage:
            lines += [f"parted   in step {self.step}: {self.stage}{f', {self.where}' if self.where else ''}"]
            lines += [f"{name:8} {value}" for name, value in zip("AB", self.values, strict=True)]
            lines += [f"text {name}   {text}" for name, text in zip("AB", self.texts, strict=True) if text]
            lines += [f"look     {ADVICE[self.stage]}"]
        else:
            lines += [f"equal    in {self.steps} steps"]
        if self.unknown:
            lines += [f"unknown  {', '.join(self.unknown)}: not recorded by both"]
        return "\n".join(lines)


def diverge(a: Path | str, b: Path | str, tolerance: float = 1e-6) -> Divergence:
    """The first stage in which two runs of one recipe differ.

    Args: tolerance: largest difference of log-probabilities in nats, and of advantages and gradient norms relative to
        the larger one.
    Raises: RunError E404 if a folder is not a run, E405 if a record cannot be read, E409 if a run has no step.
    """
    with RunReader(a) as one, RunReader(b) as two:
        readers, known, steps = (one, two), set[str](), 0
        both = [steps_of(reader) for reader in readers]
        for step, other in zip(*both, strict=False):
            facts = [dict(stages(reader, at)) for reader, at in zip(readers, (step, other), strict=True)]
            if not all(any(fact["sampled tokens"].values()) for fact in facts):  # A log may have texts alone.
                for fact in facts:
                    fact["sampled tokens"] = {name: fact["texts"][name] for name in fact["sampled tokens"]}
            for stage in STAGES[:-1]:
                found, seen = first(stage, facts[0].get(stage, {}), facts[1].get(stage, {}), tolerance)
                known |= {stage} if seen else set()
                if found is None:
                    continue
                where, values = found
                texts = [str(fact["texts"].get(where.partition(", token")[0], "")) for fact in facts]
                unknown = tuple(name for name in STAGES[: STAGES.index(stage)] if name not in known)
                if steps and stage in ("sampled tokens", "log-probabilities"):
                    stage = "weights"  # All that the step before did is equal, and other weights have sampled.
                return Divergence(
                    a=one.folder, b=two.folder, steps=steps, step=step, stage=stage, where=where,
                    values=values, texts=shortened(*texts) if any(texts) else ("", ""), unknown=unknown,
                )  # fmt: skip
            steps += 1
        unknown = tuple(name for name in STAGES[:-1] if name not in known)
        return Divergence(a=one.folder, b=two.folder, steps=steps, unknown=unknown)


def steps_of(reader: RunReader) -> list[int]:
    """Numbers of the steps that have rollouts. Raises: RunError E409 where there is none."""
    found = reader.steps_with(["rollout"])
    if not found:
        fix = f"gnomon show {shlex.quote(str(reader.folder))}"
        raise RunError("E409", "the run has no rollouts to compare", where=str(reader.folder), fix=fix)
    return found


def stages(reader: RunReader, step: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a step records of every stage, by where it stands."""
    groups = list(reader.groups(step))
    named = [(f"group {n}, rollout {rollout.sample}", rollout) for n, g in enumerate(groups) for rollout in g.rollouts]
    yield "tasks", {f"group {n}": asked(group) for n, group in enumerate(groups)}
    yield "prompt tokens", {name: [list(turn.prompt_ids) for turn in rollout.turns[:1]] for name, rollout in named}
    yield "sampled tokens", {name: sampled(rollout) for name, rollout in named}
    yield (
        "log-probabilities",
        {name: [value for turn in rollout.turns for value in turn.completion.logprobs] for name, rollout in named},
    )
    yield (
        "verdict",
        {name: {"status": str(rollout.verdict.status), "reward": rollout.reward} for name, rollout in named},
    )
    earned = [record.body.get("advantage") for record in reader.records("rollout", step)]
    if len(earned) == len(named):
        yield "advantage", {name: [value] for (name, _), value in zip(named, earned, strict=True) if value is not None}
    norm = next(iter(reader.records("step", step)), None)
    value = norm.body.get("metrics", {}).get("grad_norm") if norm else None
    yield "gradient norm", {} if value is None else {"": [value]}
    texts = {name: rollout.text for name, rollout in named}
    yield "texts", texts | {f"group {n}": asked(group) for n, group in enumerate(groups)}


def asked(group: Group) -> str:
    return "\n".join(message.content for message in group.task.messages) or group.task.id


def sampled(rollout: Rollout) -> list[int]:
    return [token for turn in rollout.turns for token in turn.completion.token_ids]


def first(
    stage: str, a: Mapping[str, Any], b: Mapping[str, Any], tolerance: float
) -> tuple[tuple[str, tuple[str, str]] | None, bool]:
    """Where a stage differs first, with both values; and whether both runs record it."""
    if not any(map(bool, a.values())) or not any(map(bool, b.values())):
        return None, False
    for name in dict.fromkeys([*a, *b]):
        left, right = a.get(name, ABSENT), b.get(name, ABSENT)
        if stage not in NUMBERS or ABSENT in (left, right):
            if left != right:
                return parted(name, left, right), True
            continue
        for place, (x, y) in enumerate(zip_longest(left, right, fillvalue=math.nan)):
            if apart(stage, x, y) > tolerance:
                return (f"{name}, token {place}" if len(left) > 1 else name, (f"{x:.9g}", f"{y:.9g}")), True
    return None, True


def apart(stage: str, x: float, y: float) -> float:
    """How far two numbers are apart; two that are not finite are equal."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return 0.0 if repr(x) == repr(y) else math.inf
    return abs(x - y) / (1.0 if stage == "log-probabilities" else max(abs(x), abs(y), 1e-300))


def parted(name: str, a: Any, b: Any) -> tuple[str, tuple[str, str]]:
    """A difference of values that are no numbers; of lists of tokens with its place."""
    if isinstance(a, list) and isinstance(b, list):
        a, b = flat(a), flat(b)
        place = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        here = [str(tokens[place : place + 8]) if place < len(tokens) else "(the end)" for tokens in (a, b)]
        return f"{name}, token {place}", (here[0], here[1])
    return name, shortened(a, b)


def flat(tokens: Sequence[Any]) -> list[int]:
    return [each for part in tokens for each in (part if isinstance(part, list) else [part])]
