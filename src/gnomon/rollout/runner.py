"""Runs episodes: environment × renderer × engine, until the environment or a limit ends them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Protocol

from gnomon.agents.recorder import Bounds, Recorder
from gnomon.engines.base import Engine
from gnomon.envs.agent import Launch
from gnomon.envs.base import Env, Step
from gnomon.envs.offers import tools
from gnomon.envs.workers import EnvWorkers, Remote
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Renderer, Transcript, choose
from gnomon.rollout.conversation import Conversation, beginning
from gnomon.rollout.played import Played
from gnomon.rollout.programs import Programs
from gnomon.rollout.rounds import Rounds
from gnomon.rollout.speakers import Own, Speaker
from gnomon.types import Calls, Request, Sampling, Stop, Task

__all__ = ["Episode", "Limits", "LocalRunner", "Runner", "reply_keys"]

AT_ONCE = 1024
"""Largest number of concurrent episodes in this process, unless the environment workers keep more."""
REACHED = {
    Stop.TURNS: "the turns were used up before the episode was over",
    Stop.CONTEXT: "the conversation has no room left, and the episode is not over",
    Stop.TIME: "the time was used up before the episode was over",
}
"""What a limit's verdict says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that end an episode before its environment does."""

    turns: int | None = None
    """Largest number of replies, over all players; by default the environment's `max_turns`."""
    context: int | None = None
    """Largest number of tokens of one player's conversation, sampled and observed."""
    seconds: float = inf
    """Wall-clock seconds for all episodes played together. A run that reaches this limit is not reproducible."""
    blind: str = ""
    """Why images of a program are refused; empty where the run takes them."""
    failures: float = 0.005
    """Largest fraction of rollouts in which the environment may fail before the run stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An episode to be run."""

    task: Task
    key: Key
    """Of the environment's random draws."""
    speakers: tuple[Speaker, ...]
    """One per player."""
    reply_key: Callable[[int], Key]
    """Returns the key of reply t."""
    sampling: Sampling
    """How every completion is drawn."""
    deadline: float = inf
    """Monotonic time after which no reply begins."""
    rounds: Rounds | None = None
    """In which its replies begin; None: at once. A program asks by itself, so its calls begin at once."""


class Runner(Protocol):
    """Runs episodes, here or in other processes."""

    @property
    def room(self) -> int:
        """Largest number of episodes that may run at once."""
        ...

    async def run(self, episode: Episode) -> Played: ...


class LocalRunner:
    """Runs episodes in this process.

    Args:
        renderer: the format of the model family; by default chosen from the tokenizer's folder.
        workers: run the environment; by default two processes.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        renderer: Renderer | None = None,
        workers: EnvWorkers | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tokenizer, self.engine = tokenizer, engine
        self.renderer = renderer or choose(tokenizer, turns=env.max_turns)
        self.workers, self.limits = workers or EnvWorkers(env), limits or Limits()
        self.turns = min(self.limits.turns or env.max_turns, env.max_turns)
        """Largest number of replies of an episode."""
        self.programs = Programs()
        self._begin = beginning(env, self.renderer)
        self._tooled = bool(tools(env))

    @property
    def room(self) -> int:
        return max(AT_ONCE, self.workers.room)

    def own(self) -> Own:
        """The engine as the speaker of every player."""
        return Own(self.engine, self.renderer, self.workers.players)

    async def run(self, episode: Episode) -> Played:
        remote, step = await self.workers.start(episode.task, episode.key)
        try:
            if step.launch is not None:
                leave(episode)
                return await self._run_program(episode, remote, step.launch)
            return await self._converse(episode, remote, step)
        finally:
            self.workers.abandon(remote)

    async def _converse(self, episode: Episode, remote: Remote, step: Step) -> Played:
        """An episode in which observations and replies take turns."""
        speakers = episode.speakers
        conversations = [Conversation(self._begin, s.preface, s.prefix.token_ids) for s in speakers]
        stop, turn, prefix_chars = None, 0, len(speakers[0].prefix.text)
        malformed, illegal = [0] * len(speakers), [0] * len(speakers)
        while not step.done:
            player = step.player
            speaker, conversation = speakers[player], conversations[player]
            prompt = conversation.observe(step.messages)
            room = episode.sampling.max_tokens if self.limits.context is None else self.limits.context - len(prompt)
            key = episode.reply_key(turn).bytes
            if episode.rounds is not None:
                await episode.rounds.join(key)
            if stop := self._limit_reached(turn, room, episode.deadline):
                step = self.workers.over(REACHED[stop])
                break
            prefix = 0 if conversation.turns else len(speaker.prefix.token_ids)
            tokens = min(episode.sampling.max_tokens - prefix, room)
            tokens = tokens if step.tokens is None else min(tokens, step.tokens)
            sampling = replace(episode.sampling, max_tokens=tokens, stop_ids=self.renderer.stop)
            request = Request(prompt_ids=prompt, key=key, sampling=sampling)
            completion = await speaker.reply(request)
            conversation.reply(completion)
            malformed[player] += self._tooled and self.renderer.parse(completion.token_ids, prompt).unreadable
            reply = speaker.text(completion, prompt)
            prefix_chars = len(reply) - len(completion.text) if reply.endswith(completion.text) else prefix_chars
            step = await self.workers.step(remote, reply)
            illegal[player] += step.illegal
            turn += 1
        leave(episode)
        turns = tuple(tuple(conversation.turns) for conversation in conversations)
        return Played(
            task=episode.task,
            speakers=speakers,
            turns=turns,
            step=in_sampled(step, prefix_chars),
            stop=stop,
            calls=tuple(Calls(malformed=m, illegal=i) for m, i in zip(malformed, illegal, strict=True)),
        )

    def _limit_reached(self, turn: int, room: int, deadline: float) -> Stop | None:
        """The limit that an episode has reached; None if it may continue."""
        if turn >= self.turns:
            return Stop.TURNS
        if room < 1:
            return Stop.CONTEXT
        return Stop.TIME if time.monotonic() > deadline else None

    async def _run_program(self, episode: Episode, remote: Remote, launch: Launch) -> Played:
        """An episode that a program plays: it calls the policy over HTTP."""
        (speaker,) = episode.speakers
        key = episode.reply_key(0)
        recorder = Recorder(
            self.renderer,
            partial(Transcript.begin, self.renderer),
            speaker.reply,
            key=key,
            sampling=episode.sampling,
            bounds=Bounds(
                calls=launch.calls, tokens=launch.tokens, context=self.limits.context, blind=self.limits.blind
            ),
            piece=lambda token: self.tokenizer.decode([token]),
        )
        end = (await self.programs.play(launch, recorder, key.at("endpoint").bytes.hex())).dumps(launch.files)
        return Played(
            task=episode.task,
            speakers=episode.speakers,
            turns=(recorder.turns(),),
            step=await self.workers.step(remote, end),
            stop=None,
            end=end,
            calls=(recorder.calls,),
        )


def leave(episode: Episode) -> None:
    """The episode asks for no further reply."""
    if episode.rounds is not None:
        episode.rounds.leave()


def in_sampled(step: Step, prefix_chars: int) -> Step:
    """The step, with its verdict's span counted from the first sampled character; None if the span begins before it.

    Args: prefix_chars: characters of the last reply that the prompt wrote.
    """
    if not prefix_chars or step.verdict is None or step.verdict.span is None:
        return step
    start, end = (position - prefix_chars for position in step.verdict.span)
    return replace(step, verdict=replace(step.verdict, span=(start, end) if start >= 0 else None))


def reply_keys(key: Key, index: int, sample: int) -> Callable[[int], Key]:
    """The keys of an episode's replies. Args: key: of all episodes of the call; index: of the task."""
    return partial(reply_key, key, index, sample)  # It can be sent to another process.


def reply_key(key: Key, index: int, sample: int, turn: int) -> Key:
    return key.at("sample", task=index, sample=sample, turn=turn)
