"""Add tools to an environment with one question. A reply with calls gets their results; the first without is judged."""

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
"""Part that counts calls beyond the budget."""
COUNTED = ("calls", *(str(outcome) for outcome in Outcome if outcome is not Outcome.ANSWERED), REFUSED)
"""Parts of a verdict that count calls by outcome. None of them is paid."""


@dataclass(frozen=True, kw_only=True)
class WithTools:
    """An environment with tools. Calls are not rewarded; the parts of a verdict only count them.

    A reply with calls is not an answer, whatever else it contains. The reply after the last allowed call is judged,
    with or without calls.
    """

    env: SingleTurn
    lent: tuple[EnvTool, ...]
    budget: int = 4
    """Largest number of calls in an episode, including malformed ones."""
    brief: bool = True
    """Whether a message before the task describes the tools. Use False if the model's chat template lists them."""
    most: int = 4096
    """Largest number of characters of a result in an observation."""

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.lent]
        if not names or len({*names, CALL, "answer", "think"}) != len(names) + 3:
            raise ValueError(f"the tools are called {names}; each needs a unique name")
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
        """The tools that a chat template lists."""
        return self.lent

    @property
    def isolation(self) -> tuple[str, ...]:
        """The isolation levels that its tools need."""
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
        """The next reply of the expert: the solution, without calls."""
        return self.env.framed(self.env.solution(task))


class Briefed(Sequence[Task]):
    """Tasks, each after a message that describes the tools."""

    def __init__(self, tasks: Sequence[Task], briefing: str) -> None:
        self._tasks, self._briefing = tasks, Message(role="system", content=briefing)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        task = self._tasks[index]
        return replace(task, messages=(self._briefing, *task.messages))


def briefing(tools: Sequence[EnvTool], budget: int) -> str:
    """A description of the tools, for a model whose template does not list them."""
    lines = [f"Tools, {budget} call{'s' if budget > 1 else ''} at most, before the answer:"]
    for tool in tools:
        fields = ", ".join(f'"{name}": ...' for name in tool.parameters.get("properties", {}))
        call = f'<{CALL}>{{"name": "{tool.name}", "arguments": {{{fields}}}}}</{CALL}>'
        lines.append(
            f"{call if tool.argument is None else f'<{tool.name}>{tool.argument}</{tool.name}>'} {tool.description}"
        )
    return "\n".join(lines)


class Lending:
    """One episode with tools."""

    def __init__(self, env: WithTools, task: Task) -> None:
        self.env, self.task, self.messages = env, task, task.messages
        self._tools = {tool.name: tool for tool in env.lent}
        self._open: dict[object, Held] = {}
        self._count: Counter[str] = Counter()

    def step(self, reply: str) -> Step:
        requests = calls(reply, self.env.lent)
        remaining = self.env.budget - self._count["calls"]
        if not requests or remaining == 0:
            self._count[REFUSED] += len(requests)
            return Step(done=True, verdict=self._with_counts(self.env.env.verify(self.task, without(reply, requests))))
        results: list[str] = []
        for call in requests[:remaining]:
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
        if over := requests[remaining:]:
            self._count[REFUSED] += len(over)
            results.append(f"error: no call is left for {len(over)} more")
        return Step(done=False, messages=tuple(Message(role="tool", content=text) for text in results))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _with_counts(self, verdict: Verdict) -> Verdict:
        counts = tuple(Part(name=name, value=float(self._count[name]), weight=0.0) for name in COUNTED)
        return replace(verdict, parts=(*verdict.parts, *counts))
