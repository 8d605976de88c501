"""Environments whose episode is a program. An author writes `make` and `judge`."""

from __future__ import annotations

import json
import os
import random
import shlex
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from gnomon.envs.base import Step, Tasks
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from gnomon.verifiers.judging import LIMIT, OVER_TIME, limit_verdict

__all__ = ["CALLS", "END_LIMITS", "Agent", "AgentEpisode", "End", "Launch", "launch_of", "over"]

Files = Mapping[str, bytes]
NOTHING: Files = MappingProxyType({})
SHELL = Path(__file__).with_name("shell_loop.py")
"""A program that gives the policy a shell."""
LOST = "sandbox"
"""In place of a limit: the host ended the sandbox. The rollout is a failure, and not a wrong answer."""
END_LIMITS = ("time", "memory", "files")
"""The limits that end a program."""
CALLS = 16
"""Replies of the policy in an episode, unless an environment says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program, and what it may use. It plays an episode until it ends."""

    command: tuple[str, ...]
    files: Files = field(default_factory=dict)
    """Its working folder, by relative path."""
    stdin: bytes = b""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside those that name the endpoint."""
    readable: tuple[str, ...] = ()
    """Paths of the host that it may read, beside the interpreter and its packages."""
    calls: int = CALLS
    """Largest number of replies."""
    tokens: int | None = None
    """Largest number of sampled tokens over all replies."""
    seconds: float = 300.0
    """Wall-clock seconds. A program that reaches this limit is ended, and its episode has the lowest reward."""
    cpu_seconds: float = 60.0
    """CPU seconds of one process."""
    memory_bytes: int = 2**31
    processes: int = 64
    file_bytes: int = 2**26
    """Largest size of the working folder."""
    changed_bytes: int = 2**22
    """Largest size of the files that it changes. They are recorded; a program that exceeds it has the lowest reward."""
    output_bytes: int = 2**16
    """Kept of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a program ended."""

    status: int | None
    """Exit status, negative for a signal; None if a limit ended the program."""
    output: str = ""
    """The end of standard output and standard error."""
    files: Files = field(default_factory=dict)
    """The working folder as the program left it, regular files only."""
    limit: str = ""
    """The limit that ended it."""

    def text(self, name: str) -> str:
        """A file as text; empty if there is none."""
        return self.files.get(name, b"").decode(errors="replace")

    def dumps(self, before: Files = NOTHING) -> str:
        """The end as text, which is the reply that the environment judges. Args: before: the folder at the start."""
        changed = {name: _pack(data) for name, data in sorted(self.files.items()) if before.get(name) != data}
        removed = sorted(before.keys() - self.files.keys())
        value = {"status": self.status, "output": self.output, "limit": self.limit, "changed": changed,
                 "removed": removed}  # fmt: skip
        return json.dumps(value, ensure_ascii=False)

    @classmethod
    def loads(cls, reply: str, before: Files = NOTHING) -> End:
        """The end that `dumps` wrote. Any other text is the output of a program that did nothing else."""
        try:
            value = json.loads(reply)
            changed = {str(name): _unpack(data) for name, data in value["changed"].items()}
            files = {name: data for name, data in before.items() if name not in value["removed"]} | changed
            return cls(status=value["status"], output=str(value["output"]), limit=str(value["limit"]), files=files)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(status=0, output=reply, files=before)


def _pack(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _unpack(data: str | Mapping[str, str]) -> bytes:
    return data.encode() if isinstance(data, str) else b64decode(data["base64"])


@dataclass(frozen=True, kw_only=True)
class Agent(ABC):
    """An environment whose episode is a program that calls the policy over HTTP.

    The program runs in a sandbox without network. There, `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and
    `ANTHROPIC_API_KEY` point the clients at the policy, and `MODEL` has its name. Standard input has the text of the
    task, which also replaces `{prompt}` in an argument of the command. Its images are `images/0.png` and so on.
    """

    command: str = ""
    """The program and its arguments, as in a shell. Empty: a short program that gives the policy a shell."""
    calls: int = CALLS
    """Largest number of replies of the policy in an episode."""
    tokens: int = 0
    """Largest number of sampled tokens in an episode. 0: no limit."""
    wall_seconds: float = 300.0
    """Wall-clock seconds of an episode."""
    memory_mib: int = 2048
    """Address space of a process, in MiB."""
    readable: tuple[str, ...] = ()
    """Paths that the program may read, beside its own file, the interpreter and its packages."""
    seed: int = 0
    """Seed of the tasks. It does not depend on a run's seed, so every run has the same held-out tasks."""
    stream: ClassVar[str] = ""
    """Name of the tasks' random stream. Empty: that of the environment's class, also in a class derived from it."""
    isolation: ClassVar[tuple[str, ...]] = ("session",)
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def make(self, rng: random.Random) -> Task:
        """Make one task, as a pure function of the generator's stream. `identity` makes its id."""

    @abstractmethod
    def judge(self, task: Task, end: End) -> float | Verdict:
        """Judge how a program ended: a boolean, the fraction of the reward that it earns, or a verdict.

        It runs after the program and all its processes have ended, in another process. Code from `end.files` must
        run in a sandbox, such as `gnomon.sandbox.run_command`.
        """

    def folder(self, task: Task) -> Mapping[str, str | bytes]:
        """The program's working folder, by relative path."""
        return {}

    def solution(self, task: Task) -> End:
        """How a correct program ends. Raises: NotImplementedError if the environment does not know."""
        raise NotImplementedError

    def launch(self, task: Task) -> Launch:
        """The program of a task, and its limits."""
        files = {name: data.encode() if isinstance(data, str) else data for name, data in self.folder(task).items()}
        launch = launch_of(self.command, task)
        return replace(
            launch,
            files={**launch.files, **files},
            readable=tuple(map(os.path.abspath, self.readable)),
            calls=self.calls,
            tokens=self.tokens or None,
            seconds=self.wall_seconds,
            memory_bytes=self.memory_mib * 2**20,
        )

    @property
    def max_turns(self) -> int:
        return self.calls

    def tasks(self, split: str) -> Tasks:
        return Tasks(self, split)

    def start(self, task: Task, key: Key) -> AgentEpisode:
        return AgentEpisode(task, self.launch(task), lambda end: self.verdict(task, end))

    @property
    def correct_reply(self) -> Callable[[Task], str] | None:
        """The end of a correct program as text; None without `solution`."""
        if type(self).solution is Agent.solution:
            return None
        return lambda task: self.solution(task).dumps(self.launch(task).files)

    @property
    def expert(self) -> Any:
        """For the checks: the only reply of an episode is the end of the program."""
        reply = self.correct_reply
        return None if reply is None else lambda task, episode: reply(task)

    def verdict(self, task: Task, end: End) -> Verdict:
        if end.limit:
            return over(end, self.reward_range)
        value = self.judge(task, end)
        if isinstance(value, Verdict):
            return value
        status = Status.CORRECT if value >= 1 else Status.WRONG
        return Verdict(status=status, parts=(Part(name="correct", value=float(value)),))


class AgentEpisode:
    """The play of a task by a program: its end is the one reply."""

    def __init__(self, task: Task, launch: Launch, judge: Callable[[End], Verdict]) -> None:
        self.messages: tuple[Message, ...] = task.messages
        self.launch, self._judge = launch, judge

    def step(self, reply: str) -> Step:
        return Step(done=True, verdict=self._judge(End.loads(reply, self.launch.files)))

    def close(self) -> None:
        """Does nothing: the program runs elsewhere."""


def over(end: End, reward_range: tuple[float, float]) -> Verdict:
    """The verdict on a program that a limit ended. Raises: RuntimeError if its sandbox ended for another reason."""
    if end.limit == LOST:
        raise RuntimeError("the sandbox of the program ended before the program; this is not the program's doing")
    return limit_verdict(OVER_TIME if end.limit == "time" else LIMIT.format(end.limit), reward_range)


def launch_of(command: str, task: Task) -> Launch:
    """A command for a task, with its images as files. An empty command is the program in `SHELL`."""
    prompt = "\n".join(message.content for message in task.messages)
    words = tuple(word.replace("{prompt}", prompt) for word in shlex.split(command))
    # A recorded image has no bytes: its file is in the folder of the run.
    images = (image for message in task.messages for image in message.images if image.data)
    files = {f"images/{place}{Path(image.file_name).suffix}": image.data for place, image in enumerate(images)}
    return Launch(command=words or ("python", "-c", SHELL.read_text("utf-8")), files=files, stdin=prompt.encode())
