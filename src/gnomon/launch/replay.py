"""Judge the stored rollouts of a run again, with another verifier or other options: exactly which verdicts change."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.config import RunConfig, recorded, resolve
from gnomon.envs import Env
from gnomon.errors import ConfigError, GnomonError, RunError
from gnomon.keys import Key
from gnomon.launch.find import env_class, make_env
from gnomon.launch.read import Address
from gnomon.launch.trust import require_trusted
from gnomon.monitoring.alarms import Monitor
from gnomon.store import Record, RunReader
from gnomon.store.layout import RECIPE
from gnomon.terminal import one_line
from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import Died, Exceeded, Outcome, Pool, Raised, Returned

__all__ = ["Flip", "Judge", "Replay", "monitor", "replay", "replay_text"]

CHUNK = 512
"""Rollouts between two words of progress."""
SPLITS = {"rollout": "train", "held_out": "test"}


@dataclass(frozen=True, slots=True)
class Judge:
    """A verifier or an environment by name: light to send to a worker, which finds it again there."""

    name: str
    options: str = "{}"
    """As JSON: a text can be compared and sent, whatever stands in it."""

    def __call__(self, task: Task, reply: str) -> Verdict:
        return judge(made(self), task, reply)


@cache
def made(named: Judge) -> Any:
    return make_env(EnvConfig(type=named.name, **json.loads(named.options)))


def judge(subject: Any, task: Task, reply: str) -> Verdict:
    """What a verifier, or an episode of an environment, says of a reply."""
    if hasattr(subject, "verify"):
        verdict: Verdict = subject.verify(task, reply)
        return verdict
    episode = subject.start(task, Key(0).at("replay"))
    try:
        step = episode.step(reply)
    finally:
        episode.close()
    if not step.done or not isinstance(step.verdict, Verdict):
        raise ValueError("the episode goes on after the stored reply")
    return step.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A rollout whose verdict is not what was stored."""

    address: str
    was: tuple[str, float]
    """Status and reward."""
    now: tuple[str, float]
    extracted: str
    """What the new verifier judged."""
    detail: str

    @property
    def change(self) -> str:
        same = self.was[0] == self.now[0]
        return f"{self.was[0]}, paid otherwise" if same else f"{self.was[0]} to {self.now[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What became of every stored rollout."""

    judged: int
    flips: tuple[Flip, ...]
    skipped: int
    """Rollouts that were never judged: their answers were given."""
    verifier: str

    def body(self) -> dict[str, Any]:
        changes = Counter(flip.change for flip in self.flips)
        return {
            "verifier": self.verifier,
            "judged": self.judged,
            "skipped": self.skipped,
            "flipped": len(self.flips),
            "changes": dict(sorted(changes.items())),
            "reward": sum(flip.now[1] - flip.was[1] for flip in self.flips) / max(1, self.judged),
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

    Args:
        verifier: a shipped environment, `package.module:Class` or `file.py:Class`; the run's own unless given.
        options: of the verifier; over those of the run when none is named.
        seconds: of processor time for one reply.
        progress: called with the number of rollouts done, and their total.
        trust: whether the code that the run folder names may be run, although this user has not trained with it here.
    Raises: ConfigError E052 for code that is not trusted; RunError E142 when a stored task is not the environment's
        any more; ConfigError E143 for options that the verifier does not take.
    """
    with RunReader(folder) as reader:
        config, _ = resolve([recorded(folder / RECIPE)])
        require_trusted(reader, config, trust)
        named = chosen(config, verifier, dict(options or {}))
        total = sum(len(reader.rollout_rows(kind=kind)) for kind in SPLITS)
        flips: list[Flip] = []
        seen: dict[tuple[str, str], Outcome] = {}
        done = skipped = 0
        with Pool(named.__call__, workers, seconds=seconds) as pool:
            stored = asked(reader, folder, original(config))
            while chunk := list(islice(stored, CHUNK)):
                judged = [(record, task) for record, task in chunk if record.body["status"] != Status.UNJUDGED]
                fresh = {(task.id, record.body["reply"]): (task, record.body["reply"]) for record, task in judged}
                fresh = {key: job for key, job in fresh.items() if key not in seen}
                seen |= zip(fresh, pool.map(list(fresh.values())), strict=True)
                for record, task in judged:
                    flip = compared(record, seen[task.id, record.body["reply"]])
                    flips += [flip] if flip else []
                done, skipped = done + len(chunk), skipped + len(chunk) - len(judged)
                progress(done, total)
    text = " ".join([named.name, *(f"{key}={value}" for key, value in json.loads(named.options).items())])
    return Replay(judged=done - skipped, flips=tuple(flips), skipped=skipped, verifier=text)


def chosen(config: RunConfig, verifier: str, options: dict[str, Any]) -> Judge:
    """The verifier that is asked for. Raises: ConfigError E021, E023 or E143."""
    if not verifier:
        options = config.env.options | options
    name = verifier or config.env.type
    file, _, kind = name.rpartition(":")
    if file.endswith(".py"):
        name = f"{Path(file).resolve()}:{kind}"
    subject = env_class(name, "--verifier")
    try:
        named = Judge(name, json.dumps(options, sort_keys=True))
        found = made(named)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value}" for key, value in options.items())
        raise ConfigError("E143", f"{name} does not accept {given}", where="replay", why=str(error)) from error
    if not hasattr(found, "verify") and not isinstance(found, Env):
        why = "it has neither verify(task, reply) nor the members of an environment"
        raise ConfigError("E143", f"{subject.__name__} is not a verifier", where="--verifier", why=why)
    return named


def monitor(folder: Path, sentinel: str, options: Mapping[str, Any], *, trust: bool = False) -> Monitor:
    """What looks for alarms in a run: with the second verifier that is named, else with the environment's own.

    Args: trust: as of `replay`. Raises: ConfigError E052 for code that is not trusted.
    """
    config, _ = resolve([recorded(folder / RECIPE)])
    with RunReader(folder) as reader:
        require_trusted(reader, config, trust)
    if sentinel or options:
        return Monitor(original(config).tasks("train").__getitem__, made(chosen(config, sentinel, dict(options))))
    try:
        env = original(config)
    except GnomonError:
        return Monitor()  # The environment is not here any more; what was recorded can be looked at all the same.
    return Monitor(env.tasks("train").__getitem__, getattr(env, "sentinel", None))


def original(config: RunConfig) -> Env:
    """The environment whose tasks the run's indices count."""
    env = make_env(config.env)
    if not config.rollout.demonstrations:
        return env
    from gnomon.rollout.demonstrations import demonstrations

    return demonstrations(Path(config.rollout.demonstrations), env)


def asked(reader: RunReader, folder: Path, env: Env) -> Iterator[tuple[Record, Task]]:
    """Every rollout with its task, made again and compared with what is stored. Raises: RunError E142."""
    splits = {kind: env.tasks(split) for kind, split in SPLITS.items()}
    task: Task | None = None
    for record in reader.records():
        if record.kind == "task":
            assert record.task is not None
            split = splits[record.body["of"]]
            task = split[record.task] if record.task < len(split) else None
            if task is None or task.id != record.body["id"]:
                raise changed(folder, record, task)
        elif record.kind in SPLITS:
            assert task is not None
            yield record, task


def changed(folder: Path, record: Record, task: Task | None) -> RunError:
    now = "it does not exist" if task is None else f"its id is {task.id}"
    return RunError(
        "E142",
        f"{SPLITS[record.body['of']]} task {record.task} has changed since the run",
        where=f"{folder}, step {record.step}",
        why=f"its id was {record.body['id']}, and now {now}; the environment or its data has changed",
        fix=f"replay with the original environment; {shlex.quote(str(folder))}/manifest.json has its hash",
    )


def compared(record: Record, outcome: Outcome) -> Flip | None:
    """The rollout as a flip, unless status and reward are what they were."""
    status, reward, extracted, detail = told(outcome)
    was = str(record.body["status"]), float(record.body["reward"])
    if (status, reward) == was:
        return None
    assert record.step is not None
    place = Address(record.kind, record.step, record.task, record.sample)
    return Flip(address=str(place), was=was, now=(status, reward), extracted=extracted, detail=detail)


def told(outcome: Outcome) -> tuple[str, float, str, str]:
    """Status, reward, extracted text and detail of an outcome."""
    match outcome:
        case Returned(value=Verdict() as verdict):
            return str(verdict.status), verdict.reward, verdict.extracted or "", verdict.detail
        case Returned(value=value):
            return str(Status.FAILED), 0.0, "", f"not a verdict: {value!r}"[:200]
        case Exceeded(resource=resource):
            return str(Status.EXCEEDED), 0.0, "", f"exceeded the limit of {resource}"
        case Raised(error=error):
            return str(Status.FAILED), 0.0, "", error[:200]
        case Died(tries=tries, why=why):
            return str(Status.FAILED), 0.0, "", f"the worker died {tries} times{': ' if why else ''}{why}"


def replay_text(facts: Mapping[str, Any], folder: Path, most: int = 20) -> str:
    """The flips for a reader, then the totals."""
    flips: Sequence[Mapping[str, Any]] = facts["flips"]
    rows = []
    for flip in flips[:most]:
        was, now = flip["was"], flip["now"]
        then, since = one_line(was["status"]), one_line(now["status"])
        why = f"   {one_line(flip['detail'])}" if flip["detail"] else ""
        rows.append(
            f"{flip['address']:<24} {then:<12} {was['reward']:>6.3g}  to  {since:<12} "
            f"{now['reward']:>6.3g}   {one_line(flip['extracted'])!r}{why}"
        )
    if len(flips) > most:
        rows.append(f"and {len(flips) - most} more (--json lists all)")
    share = len(flips) / facts["judged"] if facts["judged"] else 0.0
    rows.append(f"verifier     {one_line(facts['verifier'])}")
    skipped = f", {facts['skipped']} had no verdict" if facts["skipped"] else ""
    rows.append(f"judged       {facts['judged']} rollouts{skipped}; {len(flips)} verdicts changed ({share:.2%})")
    rows += [f"             {count:>7}  {change}" for change, count in facts["changes"].items()]
    rows.append(f"reward       {facts['reward']:+.4f} per rollout on average")
    if flips:
        rows.append(f"next: gnomon show {folder} {flips[0]['address']}")
    return "\n".join(rows)
