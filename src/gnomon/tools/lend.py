"""Lend tools to an environment of one question: replies that call are told what came of it, the first that does not
call is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gnomon.envs.base import SingleTurn, Step
from gnomon.keys import Key
from gnomon.tools.base import EnvTool, Held, Outcome, use
from gnomon.tools.calls import CALL, calls, without
from gnomon.types import Message, Part, Task, Verdict
from gnomon.verifiers.prices import Price

__all__ = ["Lending", "WithTools"]

REFUSED = "refused"
"""Calls that no call was left for."""
COUNTED = ("calls", *(str(outcome) for outcome in Outcome if outcome is not Outcome.ANSWERED), REFUSED)
"""What a verdict counts, each a part that pays nothing."""


@dataclass(frozen=True, kw_only=True)
class WithTools:
    """An environment with tools. No call pays, whatever comes of it: a verdict's parts only count them.

    A reply that calls is no answer, whatever else it says. The one after the last call that is allowed is judged, with
    calls or without.
    """

    env: SingleTurn
    lent: tuple[EnvTool, ...]
    budget: int = 4
    """Calls of an episode, those that cannot be read included."""
    brief: bool = True
    """Whether a message before the task says how to call. False for a model whose chat template tells it."""
    most: int = 4096
    """Characters of a result that are told."""

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.lent]
        if not names or len({*names, CALL, "answer", "think"}) != len(names) + 3:
            raise ValueError(f"the tools are called {names}; they need names of their own")
        if self.budget < 1:
            raise ValueError(f"budget is {self.budget}; it must be 1 or more")
        self._prepare()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        for tool in self.lent:
            tool.prepare()

    @property
    def tools(self) -> tuple[EnvTool, ...]:
        """What a chat template is to tell of."""
        return self.lent

    @property
    def isolation(self) -> tuple[str, ...]:
        """Of the sandbox, that its tools need."""
        return tuple(sorted({tool.isolation for tool in self.lent} - {""}))

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.env.reward_range

    @property
    def prices(self) -> tuple[Price, ...]:
        most = 9.0 * (self.budget + 1)
        return *self.env.prices, *(Price(name=name, weight=0.0, most=most) for name in COUNTED)

    @property
    def max_turns(self) -> int:
        return self.budget + 1

    def tasks(self, split: str) -> Sequence[Task]:
        tasks = self.env.tasks(split)
        return Briefed(tasks, briefing(self.lent, self.budget)) if self.brief else tasks

    def start(self, task: Task, key: Key) -> Lending:
        return Lending(self, task)

    def expert(self, task: Task, episode: Lending) -> str:
        """The next reply of an expert, who knows the answer and calls nothing."""
        return self.env.framed(self.env.solution(task))


class Briefed(Sequence[Task]):
    """Tasks behind a message on how to call."""

    def __init__(self, tasks: Sequence[Task], briefing: str) -> None:
        self._tasks, self._briefing = tasks, Message(role="system", content=briefing)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        task = self._tasks[index]
        return replace(task, messages=(self._briefing, *task.messages))


def briefing(tools: Sequence[EnvTool], budget: int) -> str:
    """How to call, for a model that no template tells."""
    lines = [f"Tools, {budget} call{'s' if budget > 1 else ''} at most, before the answer:"]
    for tool in tools:
        fields = ", ".join(f'"{name}": ...' for name in tool.parameters.get("properties", {}))
        call = f'<{CALL}>{{"name": "{tool.name}", "arguments": {{{fields}}}}}</{CALL}>'
        lines.append(
            f"{call if tool.argument is None else f'<{tool.name}>{tool.argument}</{tool.name}>'} {tool.description}"
        )
    return "\n".join(lines)


class Lending:
    """The play of one task with tools."""

    def __init__(self, env: WithTools, task: Task) -> None:
        self.env, self.task, self.messages = env, task, task.messages
        self._tools = {tool.name: tool for tool in env.lent}
        self._open: dict[object, Held] = {}
        self._count: Counter[str] = Counter()

    def step(self, reply: str) -> Step:
        found = calls(reply, self.env.lent)
        left = self.env.budget - self._count["calls"]
        if not found or left == 0:
            self._count[REFUSED] += len(found)
            return Step(done=True, verdict=self._counted(self.env.env.verify(self.task, without(reply, found))))
        results: list[str] = []
        for call in found[:left]:
            self._count["calls"] += 1
            if call.problem:
                self._count[Outcome.MALFORMED] += 1
                results.append(f"error: {call.problem}")
                continue
            tool = self._tools[call.name]
            if tool.host not in self._open:
                self._open[tool.host] = tool.open()
            result = use(tool, self._open[tool.host], call.arguments, self.env.most)
            self._count[result.outcome] += 1
            results.append(result.text)
        if over := found[left:]:
            self._count[REFUSED] += len(over)
            results.append(f"error: no call is left for {len(over)} more")
        return Step(done=False, messages=tuple(Message(role="tool", content=text) for text in results))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _counted(self, verdict: Verdict) -> Verdict:
        counts = tuple(Part(name=name, value=float(self._count[name]), weight=0.0) for name in COUNTED)
        return replace(verdict, parts=(*verdict.parts, *counts))
