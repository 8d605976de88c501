"""The host process of an environment of another library. It runs on Python 3.10 or newer, without this package.

    python host.py PROCESSES KIND NAME OPTIONS

PROCESSES is the path of `gnomon/sandbox/descendants.py`. Standard input is a socket. Every descriptor that arrives on
it opens a conversation, and a process is forked for it. So each episode has its own process and its own global random
generator. When the other end of a conversation closes, its process and all descendants are killed. When the socket
closes, all conversations end. A conversation is lines of JSON:

    -> {"op": "start", "seed": 7, "token": T}       <- {"token": T, "text": ..., "player": 0}
    -> {"op": "step", "text": "[3]", "token": T}    <- {"token": T, "text": ..., "done": false, ...}

The first line is a greeting with the process id and the number of players. Every question has a new token, which its
answer repeats: a line that something else wrote is not an answer. Failures are reported as
{"error": KIND, "text": ...}, where KIND is "load" or "environment".
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import os
import random
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

Kept = Callable[[Callable[[], None], int], None]
"""Runs a function until it ends or a channel closes, then ends all its descendants."""
KEPT = 200
"""Number of tasks of a task set that are cached."""


class Gymnasium:
    """`reset(seed=) -> (text, info)` and `step(text) -> (text, reward, terminated, truncated, info)`."""

    players = 1

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        module, _, attribute = name.rpartition(":")
        self.env = getattr(importlib.import_module(module), attribute)(**options)
        self.earned = 0.0

    def start(self, seed: int) -> dict[str, Any]:
        text, info = self.env.reset(seed=seed)
        return {"text": join_lines(text, info), "player": 0}

    def step(self, text: str) -> dict[str, Any]:
        observation, reward, terminated, truncated, info = self.env.step(text)
        self.earned += float(reward)
        done = bool(terminated or truncated)
        text = "" if done else join_lines(observation, info)
        return {"text": text, "player": 0, "done": done, "rewards": [self.earned] if done else None}


class Gem(Gymnasium):
    """An environment of GEM, by its registered name."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.env = importlib.import_module("gem").make(name, **options)
        self.earned = 0.0


class TextArena:
    """A game of TextArena, by its registered name; without the wrappers that repeat the whole history every turn."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        registry = importlib.import_module("textarena.envs.registration")
        players = options.get("players")
        rest = {key: value for key, value in options.items() if key != "players"}
        raw = name + "-raw"
        self.env = registry.make(raw if raw in registry.ENV_REGISTRY else name, **rest)
        self.players = self.least(players)
        self.first = 0

    def least(self, requested: int | None) -> int:
        """The number of players: the requested one, else the smallest that the game allows."""
        problem: BaseException = ValueError("no number of players")
        for players in [requested] if requested else range(1, 7):
            try:
                self.env.reset(num_players=players, seed=0)
            except Exception as error:
                problem = error
            else:
                return int(players)
        raise problem

    def start(self, seed: int) -> dict[str, Any]:
        self.env.reset(num_players=self.players, seed=seed)
        self.first, observation = self.env.get_observation()
        return {"text": self.show(self.first, observation), "player": 0}

    def step(self, text: str) -> dict[str, Any]:
        done, _ = self.env.step(action=text)
        if done:
            rewards, _ = self.env.close()
            turned = [(player + self.first) % self.players for player in range(self.players)]
            return {"text": "", "player": 0, "done": True, "rewards": [float(rewards[player]) for player in turned]}
        player, observation = self.env.get_observation()
        seat = (player - self.first) % self.players
        return {"text": self.show(player, observation), "player": seat, "done": False, "rewards": None}

    def show(self, player: int, observation: Any) -> str:
        """A player's observation since its last action, without its own actions."""
        if isinstance(observation, str):
            return observation
        return "\n".join(
            message if sender == -1 else f"[Player {sender}] {message}"
            for sender, message, *_ in observation
            if sender != player
        )


class Verifiers:
    """An environment of `verifiers` 0.4: task i of a task set. Its control flow runs with the policy as its agent.

    No harness and no runtime is started; a turn of the agent is a reply. Rewards that need a runtime are refused.
    """

    players = 1

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.v1 = importlib.import_module("verifiers.v1")
        loaders = importlib.import_module("verifiers.v1.utils.loaders")
        self.env = loaders.load_environment(loaders.resolve_env_config({"taskset": {"id": name, **options}}))
        self.tasks = list(itertools.islice(iter(self.env.taskset), KEPT))
        self.traces: list[Any] = []
        self.run: Any = None

    def start(self, seed: int) -> dict[str, Any]:
        is_loaded = seed < len(self.tasks)
        task = self.tasks[seed] if is_loaded else next(itertools.islice(iter(self.env.taskset), seed, None))
        # An event loop does not survive a fork, so each episode has its own.
        self.loop = asyncio.new_event_loop()
        self.replies: asyncio.Queue[str] = asyncio.Queue()
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.run = self.loop.create_task(self.env.run(task, Agents(self)))
        return {"system": task.data.system_prompt or "", **self.until_asked()}

    def step(self, text: str) -> dict[str, Any]:
        self.replies.put_nowait(text)
        return self.until_asked()

    def until_asked(self) -> dict[str, Any]:
        """Run the environment until it needs a reply or is over."""
        question = self.loop.create_task(self.asked.get())
        self.loop.run_until_complete(asyncio.wait([self.run, question], return_when=asyncio.FIRST_COMPLETED))
        if question.done():
            return {"text": question.result(), "player": 0, "done": False, "rewards": None}
        question.cancel()
        self.run.result()
        paid = [reward for trace in self.traces for reward in trace.rewards.values()]
        if not paid or None in paid:
            raise RuntimeError("a reward was not scored: it needs a runtime or a judge, and neither is available")
        return {
            "text": "",
            "player": 0,
            "done": True,
            "rewards": [sum(reward.score * reward.weight for reward in paid)],
        }


class Interaction:
    """The state of an episode of `verifiers`: the turns, and the trace that is scored at the end."""

    def __init__(self, owner: Verifiers, task: Any) -> None:
        v1 = self.v1 = owner.v1
        self.owner, self.task, self.fresh = owner, task, True
        observation = v1.TraceTask(type=type(task).__name__, data=task.data)
        self.trace = v1.Trace(task=observation, agent=v1.AgentInfo(config=v1.AgentConfig()))
        owner.traces.append(self.trace)

    async def __aenter__(self) -> Interaction:
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.trace.is_completed = self.trace.ok = True
            await self.task.score(self.trace)

    async def turn(self, message: str | None = None) -> Any:
        data, v1 = self.task.data, self.v1
        if self.fresh and data.system_prompt:
            self.say(v1.SystemMessage(content=data.system_prompt))
        text = data.prompt_text if message is None else message
        self.fresh = False
        self.say(v1.UserMessage(content=text))
        await self.owner.asked.put(text)
        reply = v1.AssistantMessage(content=await self.owner.replies.get())
        self.say(reply, by_policy=True)
        return importlib.import_module("verifiers.v1.agent").Segment(messages=[reply])

    def say(self, message: Any, by_policy: bool = False) -> None:
        nodes = self.trace.nodes
        nodes.append(self.v1.MessageNode(message=message, sampled=by_policy, parent=len(nodes) - 1 if nodes else None))


class Agent:
    """One role of an environment of `verifiers`."""

    def __init__(self, owner: Verifiers) -> None:
        self.owner = owner

    def interaction(self, task: Any) -> Interaction:
        return Interaction(self.owner, task)

    async def run(self, task: Any) -> Any:
        async with self.interaction(task) as interaction:
            await interaction.turn()
        return interaction.trace


class Agents:
    """The agents of an environment by role. Only one role can be played."""

    def __init__(self, owner: Verifiers) -> None:
        self._owner, self._role = owner, ""

    def __getattr__(self, role: str) -> Agent:
        if role.startswith("_") or self._role not in ("", role):
            raise AttributeError(f"the environment needs a second agent, {role!r}; only one can be played")
        self._role = role
        return Agent(self._owner)


KINDS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "gem": Gem,
    "gym": Gymnasium,
    "textarena": TextArena,
    "verifiers": Verifiers,
}


def join_lines(text: Any, info: Any) -> str:
    """The text of a step, and the line that GEM adds after it."""
    parts = [text, *filter(None, [info.get("suffix")])]
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"the environment returned a {type(part).__name__} instead of text")
    return "\n".join(part.rstrip("\n") for part in parts)


def seed_all(seed: int) -> None:
    """Seed the global generators of the process, for environments that ignore their seed argument."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def converse(channel: socket.socket, env: Any, problem: str) -> None:
    """Serve one conversation until it ends."""
    with channel, channel.makefile("rw", encoding="utf-8", errors="surrogatepass", newline="\n") as lines:

        def send(answer: dict[str, Any]) -> None:
            lines.write(json.dumps(answer) + "\n")
            lines.flush()

        if problem:
            send({"error": "load", "text": problem})
            return
        send({"pid": os.getppid(), "players": env.players})
        for line in lines:
            request = json.loads(line)
            try:
                if request["op"] == "start":
                    seed_all(request["seed"])
                    answer = env.start(request["seed"])
                else:
                    answer = env.step(request["text"])
            except BaseException:
                answer = {"error": "environment", "text": traceback.format_exc(limit=-3)}
            send({**answer, "token": request["token"]})


def converse_kept(contain: Kept, descriptor: int, env: Any, problem: str) -> None:
    """Serve one conversation, then end all processes that the environment started."""
    contain(lambda: converse(socket.socket(fileno=os.dup(descriptor)), env, problem), descriptor)


def main(processes: str, kind: str, name: str, options: dict[str, Any]) -> None:
    """Serve until the other end of the socket closes; then end all running processes."""
    contain: Kept = runpy.run_path(processes)["run_contained"]
    requests = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    # Output of a library must not be mistaken for an answer, so it is discarded.
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    contain(lambda: serve(requests, contain, kind, name, options), requests.fileno())


def serve(requests: socket.socket, contain: Kept, kind: str, name: str, options: dict[str, Any]) -> None:
    """Load the environment once, then fork for every conversation."""
    # Modules of the working folder can be imported, after those of the standard library.
    library = os.path.dirname(os.__file__)
    last = max(i for i, entry in enumerate(sys.path) if entry in (library, f"{library}/lib-dynload"))
    sys.path[:] = [*sys.path[1 : last + 1], os.getcwd(), *sys.path[last + 1 :]]
    env, problem = None, ""
    seed_all(0)
    try:
        env = KINDS[kind](name, options)
    except BaseException:
        problem = traceback.format_exc(limit=-3)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, descriptors, *_ = socket.recv_fds(requests, 1, 1)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            try:
                converse_kept(contain, descriptors[0], env, problem)
            finally:
                os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
