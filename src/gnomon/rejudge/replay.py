"""Judge the stored rollouts of a run again, with another verifier or other options: exactly which verdicts change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.envs import Env, offers
from gnomon.errors import ConfigError, GnomonError
from gnomon.monitoring.alarms import Monitor
from gnomon.reading.address import Address
from gnomon.reading.lines import figure
from gnomon.rejudge import imported
from gnomon.rejudge.again import Again, JudgeSpec, build_judge, judging
from gnomon.rejudge.parts import BY_NAME, original, parts, stored_rollouts
from gnomon.rejudge.stored import Stored, read_rollouts
from gnomon.run.find import env_class
from gnomon.run.objects import OBJECT, by_object
from gnomon.run.trust import require_trusted
from gnomon.store import Record, RunReader
from gnomon.store.layout import RECIPE, of_set
from gnomon.terminal import one_line
from gnomon.types import Status
from gnomon.verifiers import Verifier

__all__ = ["Flip", "Replay", "monitor", "replay", "replay_text"]

CHUNK = 512
"""Rollouts between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A rollout whose verdict is not what was stored."""

    address: str
    was: tuple[str, float | None]
    """Status and reward; None where an imported rollout has no reward."""
    now: tuple[str, float]
    extracted: str
    """What the new verifier judged."""
    detail: str

    @property
    def change(self) -> str:
        if self.was == self.now:
            return f"{self.was[0]}, after other observations"
        same = self.was[0] == self.now[0]
        return f"{self.was[0]}, paid otherwise" if same else f"{self.was[0]} to {self.now[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What became of every stored rollout."""

    judged: int
    flips: tuple[Flip, ...]
    skipped: int
    """Rollouts that were never judged: nobody sampled their answers."""
    opposed: int = 0
    """Rollouts that cannot be played again, since the replies of an opponent are not stored."""
    unjudged: int = 0
    """Rollouts of evaluation sets in other environments, which the verifier that was named does not judge."""
    verifier: str

    def body(self) -> dict[str, Any]:
        changes = Counter(flip.change for flip in self.flips)
        return {
            "verifier": self.verifier,
            "judged": self.judged,
            "skipped": self.skipped,
            "opposed": self.opposed,
            "unjudged": self.unjudged,
            "flipped": len(self.flips),
            "changes": dict(sorted(changes.items())),
            "reward": sum(flip.now[1] - (flip.was[1] or 0.0) for flip in self.flips) / max(1, self.judged),
            "flips": [
                {
                    "address": flip.address,
                    "was": {"status": flip.was[0], "reward": flip.was[1]},
                    "now": {"status": flip.now[0], "reward": flip.now[1]},
                    "extracted": flip.extracted,
                    "detail": flip.detail,
                }
                for flip in self.flips
            ],
        }


def replay(
    folder: Path,
    verifier: str = "",
    options: Mapping[str, Any] | None = None,
    *,
    seconds: float = 5.0,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
    trust: bool = False,
) -> Replay:
    """Judge every stored rollout of a run, trained on or held out, in workers that can be killed.

    An environment plays each episode again, with its key and the replies of all its players; a verifier that is no
    environment judges what a player replied as one text.

    Args:
        verifier: a shipped environment, `package.module:Class` or `file.py:Class`; the run's own unless given.
        options: of the verifier; over those of the run when none is named.
        seconds: of processor time for one reply.
        progress: called with the number of rollouts done, and their total.
        trust: whether the code that the run folder names may be run, although this user has not trained with it here.
    Raises: ConfigError E025 for an environment that was passed as an object, where no other is named; E052 for code
        that is not trusted; RunError E142 when a stored task is not the environment's any more; ConfigError E143 for
        options that the verifier does not take.
    """
    with RunReader(folder) as reader:
        if reader.import_format and not verifier:
            raise imported.need_verifier(reader)
        config = RunConfig() if reader.import_format else resolve([recorded_recipe(folder / RECIPE)])[0]
        sets = config.eval.sets
        if not reader.import_format:
            require_trusted(reader, config, trust)
        spec = judge_spec(config, verifier, dict(options or {}))
        by = config.rollout.judged_by
        total = sum(reader.count(of) for of in ("rollout", "held_out", *(of_set("held_out", name) for name in sets)))
        flips: list[Flip] = []
        counts: Counter[str] = Counter()
        for judge, rollouts in to_judge(reader, config, spec, options or {}, other=bool(verifier)):
            for pairs, skipped in again(
                judge, rollouts, every=bool(reader.import_format), workers=workers, seconds=seconds,
                memory=config.workers.memory_mib * 2**20,
            ):  # fmt: skip
                flips += filter(None, (find_flip(each.record, result, by) for each, result in pairs if result))
                judged_count = sum(result is not None for _, result in pairs)
                counts += Counter(judged=judged_count, skipped=skipped, opposed=len(pairs) - judged_count)
                progress(counts.total(), total)
    text = " ".join([spec.name, *(f"{key}={value}" for key, value in json.loads(spec.options).items())])
    return Replay(
        judged=counts["judged"],
        flips=tuple(flips),
        skipped=counts["skipped"],
        opposed=counts["opposed"],
        unjudged=total - counts.total(),
        verifier=text,
    )


def to_judge(
    reader: RunReader, config: RunConfig, spec: JudgeSpec, options: Mapping[str, Any], *, other: bool
) -> Iterator[tuple[JudgeSpec, Iterator[Stored]]]:
    """The rollouts of a run, of the tasks of its environments, or of the tasks as they were imported; with their judge.

    Args: as in `parts`.
    """
    if reader.import_format:
        yield spec, read_rollouts(imported.rollouts(reader), config, imported.replies)
        return
    for part in parts(config, spec, options, other=other):
        yield part.spec, stored_rollouts(reader, config, part)


def again(
    spec: JudgeSpec, rollouts: Iterator[Stored], *, every: bool, workers: int, seconds: float, memory: int
) -> Iterator[tuple[list[tuple[Stored, Again | None]], int]]:
    """The new result of each rollout that was judged, in chunks, and how many of a chunk were never judged.

    Args: every: judge those too, as in imported runs; workers, seconds, memory: as in `judging`.
    """
    with judging(spec, workers=workers, seconds=seconds, memory=memory) as judge:
        while chunk := list(islice(rollouts, CHUNK)):
            old = [each for each in chunk if every or each.record.body["status"] != Status.UNJUDGED]
            yield list(zip(old, judge(old), strict=True)), len(chunk) - len(old)


def judge_spec(config: RunConfig, verifier: str, options: dict[str, Any]) -> JudgeSpec:
    """The verifier that is asked for. Raises: ConfigError E021, E023, E025 or E143."""
    if not verifier:
        if config.env.type.startswith(OBJECT):
            raise by_object(config.env.type, "the run's recipe", BY_NAME)
        options = config.env.options | options
    name = verifier or config.env.type
    file, _, kind = name.rpartition(":")
    if file.endswith(".py"):
        name = f"{Path(file).resolve()}:{kind}"
    subject = env_class(name, "--verifier")
    try:
        spec = JudgeSpec(name, json.dumps(options, sort_keys=True))
        judge = build_judge(spec)
    except (TypeError, ValueError) as error:
        supplied = ", ".join(f"{key}={value}" for key, value in options.items())
        raise ConfigError("E143", f"{name} does not accept {supplied}", where="replay", why=str(error)) from error
    if not isinstance(judge, Verifier | Env):
        why = "it has neither verify(task, reply) and reward_range nor the members of an environment"
        raise ConfigError("E143", f"{subject.__name__} is not a verifier", where="--verifier", why=why)
    return spec


def monitor(folder: Path, sentinel: str, options: Mapping[str, Any], *, trust: bool = False) -> Monitor:
    """What looks for alarms in a run: with the second verifier that is named, else with the environment's own.

    Args: trust: as in `replay`. Raises: ConfigError E052 for code that is not trusted.
    """
    with RunReader(folder) as reader:
        if reader.import_format:
            second = build_judge(judge_spec(RunConfig(), sentinel, dict(options))) if sentinel else None
            return Monitor(imported.tasks(reader).__getitem__, second)
        config, _ = resolve([recorded_recipe(folder / RECIPE)])
        require_trusted(reader, config, trust)
    if sentinel or options:
        return Monitor(
            original(config).tasks("train").__getitem__, build_judge(judge_spec(config, sentinel, dict(options)))
        )
    try:
        env = original(config)
    except GnomonError:
        return Monitor()  # The environment is not here any more; what was recorded can be looked at all the same.
    return Monitor(env.tasks("train").__getitem__, offers.sentinel(env))


def find_flip(record: Record, now_judged: Again, judged_by: str) -> Flip | None:
    """The rollout as a flip, unless status and reward are what they were, and what the policy saw.

    Args: judged_by: the setting of the run; a reward that the verifier did not decide is not compared.
    """
    verdict = now_judged.verdict
    was, now = (str(record.body["status"]), record.body["reward"]), (str(verdict.status), verdict.reward)
    if judged_by != "verifier" and record.kind == "rollout":
        now = now[0], was[1]
    if was == now and now_judged.other is None:
        return None
    assert record.step is not None
    address = str(Address(record.kind, record.step, record.task, record.sample))
    detail = (
        verdict.detail
        if now_judged.other is None
        else f"the environment gives another observation before reply {now_judged.other}"
    )
    return Flip(address=address, was=was, now=now, extracted=verdict.extracted or "", detail=detail)


LISTED = 20
"""Changed verdicts that the text lists."""


def replay_text(facts: Mapping[str, Any], folder: Path) -> str:
    """The flips for a reader, then the totals."""
    flips: Sequence[Mapping[str, Any]] = facts["flips"]
    rows = []
    for flip in flips[:LISTED]:
        was, now = flip["was"], flip["now"]
        then, since = one_line(was["status"]), one_line(now["status"])
        why = f"   {one_line(flip['detail'])}" if flip["detail"] else ""
        rows.append(
            f"{flip['address']:<24} {then:<12} {figure(was['reward'], '.3g'):>6}  to  {since:<12} "
            f"{now['reward']:>6.3g}   {one_line(flip['extracted'])!r}{why}"
        )
    if len(flips) > LISTED:
        rows.append(f"and {len(flips) - LISTED} more (--json lists all)")
    share = len(flips) / facts["judged"] if facts["judged"] else 0.0
    rows.append(f"verifier     {one_line(facts['verifier'])}")
    skipped = f", {facts['skipped']} had no verdict" if facts["skipped"] else ""
    rows.append(f"judged       {facts['judged']} rollouts{skipped}; {len(flips)} verdicts changed ({share:.2%})")
    if facts["unjudged"]:
        what = "of evaluation sets in other environments, which this verifier does not judge"
        rows.append(f"left out     {facts['unjudged']} rollouts {what}")
    if facts["opposed"]:
        rows.append(f"left out     {facts['opposed']} rollouts, because the replies of their opponents are not stored")
    rows += [f"             {count:>7}  {change}" for change, count in facts["changes"].items()]
    rows.append(f"reward       {facts['reward']:+.4f} per rollout on average")
    if flips:
        rows.append(f"next: gnomon show {folder} {flips[0]['address']}")
    return "\n".join(rows)
