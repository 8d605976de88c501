"""An actor plays tasks: env × renderer × engine → groups."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from contextlib import ExitStack

from gnomon.engines.base import Engine, Tier
from gnomon.envs.base import Env, Episode
from gnomon.errors import ConfigError, VerifierError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import Weights
from gnomon.rollout.render import render
from gnomon.types import Finish, Group, Message, Request, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

__all__ = ["Actor"]


class Actor:
    """Plays an environment with an engine.

    Args:
        group: rollouts per task.
        sampling: how every completion is drawn.
    """

    def __init__(self, env: Env, tokenizer: Tokenizer, engine: Engine, *, group: int, sampling: Sampling) -> None:
        if env.max_turns != 1:
            raise ConfigError(
                "E022", "the environment plays several turns; this actor plays one", where=type(env).__name__
            )
        self.env, self.tokenizer, self.engine = env, tokenizer, engine
        self.group, self.sampling = group, sampling

    @property
    def exact(self) -> bool:
        """Whether the engine's log-probabilities equal the learner's in every bit."""
        return self.engine.tier is Tier.EXACT

    async def sync(self, weights: Weights) -> None:
        """Sample with these weights from now on."""
        self.engine.load(weights)

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        """The groups of a training step; here, what `play` gives."""
        return await self.play(tasks, key, self.group)

    async def play(
        self, tasks: Sequence[tuple[int, Task]], key: Key, group: int, sampling: Sampling | None = None
    ) -> list[Group]:
        """Play every task `group` times.

        Args:
            tasks: each with its index in the split.
            sampling: how every completion is drawn; the actor's own unless given.
            key: of this call; sample s of task i draws from `key.at("sample", task=i, sample=s, turn=0)`.
        Raises: VerifierError E104 when the judge breaks, E105 when its verdict is none.
        """
        with ExitStack() as stack:
            return await self._play(tasks, key, group, sampling or self.sampling, stack)

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The tokens that an episode begins with."""
        return render(messages, self.tokenizer)

    async def _play(
        self, tasks: Sequence[tuple[int, Task]], key: Key, size: int, sampling: Sampling, stack: ExitStack
    ) -> list[Group]:
        """Every episode opened here is closed by the stack, whatever happens."""
        episodes = [
            (index, sample, task, self.env.start(task, key.at("episode", task=index, sample=sample)))
            for index, task in tasks
            for sample in range(size)
        ]
        for *_, episode in episodes:
            stack.callback(episode.close)
        prompts = {index: self.prompt(episode.messages) for index, _, _, episode in episodes}
        requests = [
            Request(
                prompt_ids=prompts[index],
                key=key.at("sample", task=index, sample=sample, turn=0).bytes,
                sampling=sampling,
            )
            for index, sample, _, _ in episodes
        ]
        completions = await self.engine.sample(requests)
        rollouts = [
            Rollout(
                task=task,
                sample=sample,
                turns=(Turn(prompt_ids=prompts[index], completion=completion),),
                verdict=judge(self.env, episode, completion.text, f"task {index}, sample {sample}"),
                stop=Stop.TRUNCATED if completion.finish is Finish.LENGTH else Stop.DONE,
            )
            for (index, sample, task, episode), completion in zip(episodes, completions, strict=True)
        ]
        return [
            Group(task=task, index=index, rollouts=tuple(rollouts[place * size : (place + 1) * size]))
            for place, (index, task) in enumerate(tasks)
        ]


def judge(env: Env, episode: Episode, reply: str, where: str) -> Verdict:
    """The environment's verdict on a reply; a judge that broke is an error, never a zero."""
    name = type(env).__name__
    try:
        verdict = episode.step(reply).verdict
    except Exception as error:
        trace = "".join(traceback.format_exception(error, limit=-3)).rstrip()
        raise VerifierError(
            "E104",
            f"the verifier of {name} raised {type(error).__name__}: {error}",
            where=f"{where}; the reply was {reply[:200]!r}",
            why="a judge that broke cannot be counted as a wrong answer\n" + indented(trace),
            fix="return a Verdict (or raise gnomon.verifiers.Malformed) for every text, then: gnomon check ENV",
        ) from error
    low, high = env.reward_range
    if not isinstance(verdict, Verdict) or verdict.status is Status.FAILED:
        what = f"gave no verdict but {verdict!r}"
    elif not (math.isfinite(verdict.reward) and low - 1e-9 <= verdict.reward <= high + 1e-9):
        what = f"gave the reward {verdict.reward}, outside its declared range {low} … {high}"
    else:
        return verdict
    raise VerifierError(
        "E105",
        f"the verifier of {name} {what}",
        where=f"{where}; the reply was {reply[:200]!r}",
        why="a reward that is no number in the declared range makes every gradient of the step wrong",
        fix="return a Verdict with finite parts inside `reward_range`, then: gnomon check ENV",
    )


def indented(text: str) -> str:
    return "\n".join("      " + line for line in text.splitlines())
