"""Rewards that the verifier does not decide, but the group's majority or the policy.

A group's majority and the policy itself know no reference answer. The verifier still judges every rollout: a verdict
keeps its status, so pass@1 and the alarms follow the truth, and its parts stay beside the reward with a weight of 0.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gnomon.engines.base import Engine
from gnomon.keys import Key
from gnomon.rendering import Renderer
from gnomon.rendering.transcript import reply_text
from gnomon.rollout.conversation import Begin, Conversation
from gnomon.types import Group, Kind, Message, Part, Request, Rollout, Sampling

__all__ = ["JUDGEMENT", "MAJORITY", "QUESTION", "ByMajority", "ByPolicy", "Reward", "majority"]

MAJORITY, JUDGEMENT = "majority", "judgement"
"""Names of the part of a verdict that is the reward."""
QUESTION = "Is this answer right? Reply yes or no."
YES = re.compile(r"\W*yes\b", re.IGNORECASE)
TOKENS = 8
"""Length limit of a judgement."""


class Reward(Protocol):
    """Decides the rewards of a step's rollouts, after the groups are selected and before credit."""

    async def groups(self, groups: Sequence[Group], key: Key) -> list[Group]:
        """The groups with their rewards; those that the verifier failed on stay as they are. Args: key: of the step."""
        ...


class ByMajority:
    """The reward is 1 for the group's most frequent answer, else 0 (self-consistency).

    The greedy rollout of a group does not vote, and is rewarded by the same rule.

    Source: Shafayat et al. 2025 (self-rewarded training), arXiv 2505.21444.
    Differs: answers are compared as text; the paper compares their mathematical value.
    """

    async def groups(self, groups: Sequence[Group], key: Key) -> list[Group]:
        return [by_majority(group) if group.judged else group for group in groups]


def by_majority(group: Group) -> Group:
    right = majority([answer(rollout) for rollout in group.rollouts])

    def reward_rollout(rollout: Rollout) -> Rollout:
        agrees = right is not None and answer(rollout) == right
        return add_payment(rollout, Part(name=MAJORITY, value=float(agrees)))

    greedy = group.greedy and reward_rollout(group.greedy)
    return replace(group, rollouts=tuple(map(reward_rollout, group.rollouts)), greedy=greedy)


def majority(answers: Sequence[str | None]) -> str | None:
    """The most frequent answer. Of equally frequent ones it is the one that comes first; None if nobody answered.

    Samples are exchangeable, so the first of several is as good as a random draw, and it is the same in every run.
    """
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts, key=lambda answer: counts[answer], default=None)  # A Counter keeps the order.


def answer(rollout: Rollout) -> str | None:
    """The extracted answer, each run of white space as one space; None where there is none that can be read."""
    verdict = rollout.verdict
    readable = verdict.extracted is not None and verdict.status.kind in (Kind.SCORED, Kind.REJECTED)
    return " ".join((verdict.extracted or "").split()) if readable else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPolicy:
    """The reward is the share of the policy's own judgements that call the reply right.

    After the conversation of a rollout, the policy is asked `QUESTION`, with the weights that sampled the rollout. A
    judgement that begins with `yes` calls the reply right, any other text does not. The share is 0 or 1 for one
    judgement, and for more an unbiased estimate of the probability that the policy says yes.
    """

    engine: Engine
    begin: Begin
    """Begins a new conversation."""
    renderer: Renderer
    sampling: Sampling
    """Of the rollouts. Judgements have the same temperature."""
    judgements: int
    """Judgements of every rollout, 1 or more."""
    context: int
    """Largest number of tokens of a conversation. A reply after which a judgement has no room is not called right."""

    async def groups(self, groups: Sequence[Group], key: Key) -> list[Group]:
        return list(await asyncio.gather(*(self._group(group, key.at("judgements")) for group in groups)))

    async def _group(self, group: Group, key: Key) -> Group:
        if not group.judged:
            return group
        rollouts = await asyncio.gather(*(self._reward(rollout, group.index, key) for rollout in group.rollouts))
        greedy = group.greedy and await self._reward(group.greedy, group.index, key.at("greedy"))
        return replace(group, rollouts=tuple(rollouts), greedy=greedy)

    async def _reward(self, rollout: Rollout, task: int, key: Key) -> Rollout:
        keys = [key.at("draw", task=task, sample=rollout.sample, number=n).bytes for n in range(self.judgements)]
        right = await asyncio.gather(*(self._right(self.prompt(rollout), each) for each in keys))
        return add_payment(rollout, Part(name=JUDGEMENT, value=sum(right) / len(right)))

    async def _right(self, prompt: tuple[int, ...], key: bytes) -> bool:
        """Whether one judgement calls the reply right."""
        if len(prompt) + TOKENS > self.context:
            return False
        brief = Sampling(max_tokens=TOKENS, temperature=self.sampling.temperature, stop_ids=self.renderer.stop)
        completion = await self.engine.sample(Request(prompt_ids=prompt, key=key, sampling=brief))
        return bool(YES.match(reply_text(self.renderer, prompt, completion.text, completion.token_ids)))

    def prompt(self, rollout: Rollout) -> tuple[int, ...]:
        """The tokens of a rollout's conversation, and the question about it."""
        conversation = Conversation(self.begin)
        for turn in rollout.turns:
            conversation.observe(turn.messages)
            conversation.reply(turn.completion)
        return conversation.observe((Message(role="user", content=QUESTION),))


def add_payment(rollout: Rollout, part: Part) -> Rollout:
    """The rollout with this part for its reward, after the verifier's parts."""
    true = tuple(replace(each, weight=0.0) for each in rollout.verdict.parts)
    return replace(rollout, verdict=replace(rollout.verdict, parts=(*true, part)))
