"""What the programs of a run need, for an environment whose episodes are programs that call the policy."""

from __future__ import annotations

import asyncio
import math
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from gnomon.agents.recorder import Bounds, Recorder
from gnomon.envs.agent import CALLS, End, Launch
from gnomon.envs.base import Env
from gnomon.errors import ResourceError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Renderer, Transcript
from gnomon.rollout.programs import WEIGHT, Programs, most
from gnomon.sandbox.descendants import descendants
from gnomon.terminal import one_line
from gnomon.types import Completion, Finish, Request, Rollout, Sampling, Task, Turn

__all__ = ["ANSWERING", "Program", "launch_of_first", "program_of", "recorded_program"]

STARTING, ANSWERING = 7.3e-3, 2.5e-3
"""Seconds of the run's process to start and end a program, and for one of its calls beside sampling; measured with 256
programs (`benchmarks/programs.py`)."""
ASSUMED = 1.0
"""Processor seconds of a program that could not be run here."""
TEXT = " 2 + 2 = 4."
"""The policy's reply while a program is measured, again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program of a run, and the conversations that it has with the policy."""

    calls: float = CALLS
    """Replies of the policy: the mean of a recorded run, or as many as the limits allow."""
    branches: float = 1.0
    """Conversations among which they are divided."""
    added: int = 0
    """Tokens of its first prompt beside the task's."""
    growth: int = 0
    """Tokens that it adds to a conversation between two replies."""
    binding: Mapping[str, float] = field(default_factory=dict)
    """The limits that end its calls or itself, each with the fraction of the programs that reach it."""
    seconds: float = ASSUMED
    """Processor time, in its sandbox."""
    memory: float = WEIGHT
    """Bytes, with its sandbox."""
    measured: bool = False
    """Whether one was run here, for its processor time and memory."""
    ending: str = ""
    """How that one ended, if it made no call or failed."""
    wall_seconds: float = math.inf
    """After so long, it is ended."""
    at_once: int = field(default_factory=most)
    """Most programs at once, by memory and open files of this machine."""

    @property
    def turns(self) -> float:
        """Replies in one conversation."""
        return self.calls / self.branches

    def last_prompt(self, prompt: int, reply: int) -> int:
        """Tokens of the last prompt of a conversation."""
        return round(prompt + max(0.0, self.turns - 1) * (reply + self.growth))

    def conversation(self, reply: int) -> int:
        """Tokens that follow the first prompt of a conversation."""
        return max(1, round(self.turns * reply + max(0.0, self.turns - 1) * self.growth))

    def time(self, programs: int) -> float:
        """Seconds of so many programs beside sampling: theirs on all cores, and those of the run's process."""
        return programs * (self.seconds / (os.cpu_count() or 1) + STARTING + self.calls * ANSWERING)

    def limit_calls(self, launch: Launch, context: int | None, prompt: int, reply: int) -> Program:
        """It, with as many calls as its limits allow if every reply has `reply` tokens."""
        limits = {"calls": launch.calls}
        if launch.tokens is not None:
            limits["tokens"] = -(-launch.tokens // reply)
        if context is not None:
            limits["context"] = max(0, 1 + (context - prompt - self.added - 1) // max(1, reply + self.growth))
        calls = min(limits.values())
        binding = {name: 1.0 for name, most in limits.items() if most == calls}
        return replace(self, calls=calls, binding=binding, wall_seconds=launch.seconds)


def launch_of_first(env: Env) -> Launch | None:
    """The program of the first task; None for an environment that is played otherwise."""
    launch: Callable[[Task], Launch] | None = getattr(env, "launch", None)
    return launch and launch(env.tasks("train")[0])


def program_of(launch: Launch, tokenizer: Tokenizer, renderer: Renderer, task: int, blind: str = "") -> Program:
    """Run a program once, with a fixed text as the policy's replies. Args: task: tokens of the task's own prompt;
    blind: as in `Bounds`.

    Without a sandbox on this machine, its processor time and memory are assumed.
    """
    memory = [0]

    async def reply(request: Request) -> Completion:
        memory[0] = max(memory[0], proportional())
        ids = (*tokenizer.encode(TEXT), min(renderer.stop))
        return Completion(token_ids=ids, logprobs=(0.0,) * len(ids), text=TEXT, finish=Finish.EOS, version=0)

    recorder = Recorder(
        renderer, partial(Transcript.begin, renderer), reply, key=Key(0), sampling=Sampling(max_tokens=64),
        bounds=Bounds(calls=launch.calls, blind=blind), piece=lambda token: tokenizer.decode([token]),
    )  # fmt: skip
    began = children_seconds()
    try:
        end = asyncio.run(Programs().play(launch, recorder, "plan"))
    except ResourceError:
        return Program()
    turns = recorder.turns()
    return Program(
        added=max(0, len(turns[0].prompt_ids) - task) if turns else 0,
        growth=growth_of([turns]),
        seconds=children_seconds() - began,
        memory=memory[0] or WEIGHT,
        measured=True,
        ending="" if turns and end.status == 0 else ending_of(end, len(turns)),
    )


def ending_of(end: End, calls: int) -> str:
    """How a program ended, and the last line of its output."""
    how = f"the limit of {end.limit} ended it" if end.limit else f"exit status {end.status}"
    line = (end.output.strip().splitlines() or ["no output"])[-1]
    return f"{how} after {calls} calls: {one_line(line[:200])}"


def recorded_program(
    program: Program, rollouts: Sequence[Rollout], metrics: Sequence[Mapping[str, float]], prompt: float
) -> Program:
    """The program with the calls of a run. Args: rollouts: of its last step; metrics: of its steps; prompt: mean tokens
    of the first prompts as supposed."""
    turns = [rollout.turns for rollout in rollouts if rollout.turns]
    name = "program/limited/"
    reached = {
        key.removeprefix(name): mean([row.get(key, 0.0) for row in metrics])
        for key in sorted({key for row in metrics for key in row if key.startswith(name)})
    }
    measured_program = replace(
        program,
        calls=mean([row["program/calls"] for row in metrics]),
        binding={key: share for key, share in reached.items() if share},
        added=0,
    )
    if not turns:
        return measured_program
    return replace(
        measured_program,
        branches=mean([len({turn.fork for turn in each}) for each in turns]),
        added=round(mean([len(each[0].prompt_ids) for each in turns]) - prompt),
        growth=growth_of(turns),
    )


def growth_of(programs: Sequence[Sequence[Turn]]) -> int:
    """Mean number of tokens between a reply and the end of the next prompt of its conversation; 0 if none goes on."""
    sizes = [
        len(later.prompt_ids) - len(earlier.prompt_ids) - len(earlier.completion.token_ids)
        for turns in programs
        for earlier, later in pairwise(turns)
        if earlier.fork == later.fork
    ]
    return max(0, round(mean(sizes))) if sizes else 0


def proportional() -> int:
    """Bytes of all descendants of this process. Pages that several of them share are divided among these."""
    total = 0
    for child in descendants():
        with suppress(OSError):
            lines = Path(f"/proc/{child}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
