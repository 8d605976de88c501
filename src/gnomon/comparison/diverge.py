"""Where two runs part: the first stage of a step in which they differ, of Gnomon's runs and of imported logs.

A step passes through stages: its tasks are chosen, prompts become tokens, replies are sampled with their
log-probabilities, turn by turn; they are judged, given advantages and, token by token, coefficients; the gradient has
a norm, and moves the weights. What differs in one stage differs in most of those behind it, so the first one is where
to look.
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
from gnomon.store.compare import ABSENT, shorten
from gnomon.types import Group, Rollout

__all__ = ["STAGES", "Divergence", "diverge"]

OF_TURNS = ("prompt tokens", "sampled tokens", "log-probabilities")
STAGES = ("tasks", *OF_TURNS, "verdict", "advantage", "coefficient", "gradient norm", "weights")
"""In the order in which a step passes through them; those of `OF_TURNS` turn by turn. Where a log has no tokens,
replies are compared as texts."""
NUMBERS = ("log-probabilities", "advantage", "coefficient", "gradient norm", "weights")
"""Stages whose values are compared up to a tolerance."""
ADVICE = {
    "tasks": "compare the seeds, the rows and their order (shuffling, filters, a resumed data loader), and how many "
    "rollouts a group has",
    "prompt tokens": "compare the chat templates, the system prompts, and whether the start token is added twice; "
    "after the first turn, what the environment or its tools replied",
    "sampled tokens": "compare temperature, top-p and top-k, the samplers' seeds, stop tokens and length limits",
    "log-probabilities": "compare dtype and attention, whether the temperature divides the scores, and which "
    "distribution is reported",
    "verdict": "compare what the verifiers are given, and how a failed verifier counts",
    "advantage": "compare the baseline, the division by a standard deviation and its epsilon, and who is in a group",
    "coefficient": "compare what the sum is divided by, masks, clipping of ratios, penalties, and micro-batches",
    "gradient norm": "compare what the sum is divided by, terms beside the policy loss, and which weights are trained",
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
    recorded: tuple[int, int]
    """Steps that each run has."""
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
            a, b = self.recorded
            lines += [f"equal    in {self.steps} steps{f'; A has {a}, B has {b}' if a != b else ''}"]
        if self.unknown:
            lines += [f"unknown  {', '.join(self.unknown)}: not recorded by both"]
        return "\n".join(lines)


def diverge(a: Path | str, b: Path | str, tolerance: float = 1e-6) -> Divergence:
    """The first stage in which two runs of one recipe differ.

    Args: tolerance: largest difference of log-probabilities in nats; of advantages, gradient norms and weights relative
        to the larger one, and of coefficients relative to the largest of the step.
    Raises: RunError E404 if a folder is not a run, E405 if a record cannot be read, E409 if a run has no step.
    """
    with RunReader(a) as one, RunReader(b) as two:
        readers, recorded_stages, steps = (one, two), set[str](), 0
        both = [steps_of(reader) for reader in readers]
        recorded = (len(both[0]), len(both[1]))
        for step, other in zip(*both, strict=False):
            facts = [dict(stages(reader, at)) for reader, at in zip(readers, (step, other), strict=True)]
            if not all(any(fact.get("sampled tokens, 0", {}).values()) for fact in facts):
                for fact in facts:  # A log may have texts alone.
                    fact["sampled tokens, 0"] = {name: x for name, x in fact["texts"].items() if "rollout" in name}
            for key in in_order(facts):
                stage = key.partition(", ")[0]
                here, there = (fact.get(key, {}) for fact in facts)
                if stage == OF_TURNS[0] and not key.endswith(" 0"):  # One run may have no such turn.
                    here, there = here or dict.fromkeys(there, ABSENT), there or dict.fromkeys(here, ABSENT)
                difference, in_both = first(stage, here, there, tolerance)
                recorded_stages |= {stage} if in_both else set()
                if difference is None:
                    continue
                where, values = difference
                texts = [str(fact["texts"].get(where.partition(", t")[0], "")) for fact in facts]
                unknown = tuple(name for name in STAGES[: STAGES.index(stage)] if name not in recorded_stages)
                if steps and "weights" not in recorded_stages and stage in ("sampled tokens", "log-probabilities"):
                    stage = "weights"  # All that the step before did is equal, and other weights have sampled.
                return Divergence(
                    a=one.folder, b=two.folder, steps=steps, recorded=recorded, step=step, stage=stage, where=where,
                    values=values, texts=shorten(*texts) if any(texts) else ("", ""), unknown=unknown,
                )  # fmt: skip
            steps += 1
        unknown = tuple(name for name in STAGES[:-1] if name not in recorded_stages)
        return Divergence(a=one.folder, b=two.folder, steps=steps, recorded=recorded, unknown=unknown)


def steps_of(reader: RunReader) -> list[int]:
    """Numbers of the steps that have rollouts. Raises: RunError E409 where there is none."""
    steps = reader.steps_with(["rollout"])
    if not steps:
        fix = f"gnomon show {shlex.quote(str(reader.folder))}"
        raise RunError("E409", "the run has no rollouts to compare", where=str(reader.folder), fix=fix)
    return steps


def in_order(facts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What `stages` has of two steps, in the order in which it came about."""
    turns = len({key for fact in facts for key in fact if key.startswith(OF_TURNS[1])})
    yield "tasks"
    yield from (f"{stage}, {turn}" for turn in range(turns) for stage in OF_TURNS)
    yield from STAGES[STAGES.index("verdict") :]


def stages(reader: RunReader, step: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a step records of every stage, by where it stands; of a stage of turns with the number of the turn."""
    groups = list(reader.groups(step))
    named_rollouts = [
        (f"group {n}, rollout {rollout.sample}", rollout) for n, g in enumerate(groups) for rollout in g.rollouts
    ]
    bodies = [record.body for record in reader.records("rollout", step)]
    learned = (
        dict(zip((name for name, _ in named_rollouts), bodies, strict=False))
        if len(bodies) == len(named_rollouts)
        else {}
    )
    sizes = {f"group {n}, rollouts": len(group.rollouts) for n, group in enumerate(groups)}
    yield "tasks", {f"group {n}": prompt_text(group) for n, group in enumerate(groups)} | sizes
    for turn in range(max((len(rollout.turns) for _, rollout in named_rollouts), default=0)):
        at = f", turn {turn}" if turn else ""
        there = {name: rollout for name, rollout in named_rollouts if len(rollout.turns) > turn}
        now = {name: rollout.turns[turn] for name, rollout in there.items()}
        yield f"prompt tokens, {turn}", {name + at: list(each.prompt_ids) for name, each in now.items()}
        yield f"sampled tokens, {turn}", {name + at: list(each.completion.token_ids) for name, each in now.items()}
        yield (
            f"log-probabilities, {turn}",
            {name + at: logps(rollout, turn, learned.get(name, {})) for name, rollout in there.items()},
        )
    yield (
        "verdict",
        {name: {"status": str(rollout.verdict.status), "reward": rollout.reward} for name, rollout in named_rollouts},
    )
    yield (
        "advantage",
        {name: [body["advantage"]] for name, body in learned.items() if body.get("advantage") is not None},
    )
    yield "coefficient", {name: body["coefficients"] for name, body in learned.items() if body.get("coefficients")}
    record = next(iter(reader.records("step", step)), None)
    body = record.body if record else {}
    norm = body.get("metrics", {}).get("grad_norm")
    yield "gradient norm", {} if norm is None else {"": [norm]}
    yield "weights", {"": body["weights"]} if body.get("weights") else {}
    texts = {name: rollout.text for name, rollout in named_rollouts}
    yield "texts", texts | {f"group {n}": prompt_text(group) for n, group in enumerate(groups)}


def logps(rollout: Rollout, turn: int, learned: Mapping[str, Any]) -> list[float]:
    """Of the tokens of a turn: those of the sampler, or those of the policy where only they are recorded."""
    of_sampler = list(rollout.turns[turn].completion.logprobs)
    start = sum(len(each.completion.token_ids) for each in rollout.turns[:turn])
    of_policy = learned.get("policy_logp", [])[start : start + len(of_sampler)]
    return of_policy if of_policy and all(map(math.isnan, of_sampler)) else of_sampler


def prompt_text(group: Group) -> str:
    return "\n".join(message.content for message in group.task.messages) or group.task.id


def first(
    stage: str, a: Mapping[str, Any], b: Mapping[str, Any], tolerance: float
) -> tuple[tuple[str, tuple[str, str]] | None, bool]:
    """Where a stage differs first, with both values; and whether both runs record it."""
    if not any(map(bool, a.values())) or not any(map(bool, b.values())):
        return None, False
    numbers = [abs(x) for values in (*a.values(), *b.values()) for x in values] if stage == "coefficient" else []
    for name in dict.fromkeys([*a, *b]):
        left, right = a.get(name, ABSENT), b.get(name, ABSENT)
        if stage not in NUMBERS or ABSENT in (left, right):
            if left != right:
                return difference(name, left, right), True
            continue
        for index, (x, y) in enumerate(zip_longest(left, right, fillvalue=math.nan)):
            if apart(stage, x, y, max(numbers, default=1e-300)) > tolerance:
                where = [name] if name else []
                where += [f"{'token' if name else 'value'} {index}"] if len(left) > 1 else []
                return (", ".join(where), (f"{x:.9g}", f"{y:.9g}")), True
    return None, True


def apart(stage: str, x: float, y: float, size: float = 1e-300) -> float:
    """How far two numbers are apart, relative to the larger or to a size; two that are not finite are equal."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return 0.0 if repr(x) == repr(y) else math.inf
    return abs(x - y) / (1.0 if stage == "log-probabilities" else max(abs(x), abs(y), size))


def difference(name: str, a: Any, b: Any) -> tuple[str, tuple[str, str]]:
    """A difference of values that are no numbers; of lists of tokens with its place."""
    if isinstance(a, list) and isinstance(b, list):
        index = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        here = [str(tokens[index : index + 8]) if index < len(tokens) else "(the end)" for tokens in (a, b)]
        return f"{name}, token {index}", (here[0], here[1])
    return name, shorten(a, b)
