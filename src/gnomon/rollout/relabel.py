"""What is trained on in a rollout: what was sampled, or something made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Protocol

from gnomon.envs.base import Env, SingleTurn
from gnomon.errors import ConfigError
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.conversation import Begin, Conversation
from gnomon.types import Message, Rollout, Sampling, Status, Verdict

__all__ = ["WISH", "AsSampled", "BehindFeedback", "Relabel", "WithSolution", "condition"]

OPEN, CLOSE = "<answer>", "</answer>"
WISH = Status.CORRECT
"""The feedback that a policy is asked to earn."""


class Relabel(Protocol):
    """Turns the rollouts of a step into what is trained on. Groups are chosen before."""

    def sampling(self, own: Sampling) -> Sampling:
        """How the completions of a training step are drawn, in place of the actor's own way."""
        ...

    def rollout(self, rollout: Rollout) -> Rollout: ...


class AsSampled:
    """Trains on what was sampled."""

    def sampling(self, own: Sampling) -> Sampling:
        return own

    def rollout(self, rollout: Rollout) -> Rollout:
        return rollout


class WithSolution:
    """Samples up to the opening of the answer slot and puts the reference answer behind it.

    A rollout that never opens its slot has no answer tokens. What training is like is not judged.

    Raises: ConfigError E037 for an environment that gives no reference answers.
    """

    def __init__(self, env: Env, tokenizer: Tokenizer) -> None:
        if not isinstance(env, SingleTurn):
            raise ConfigError(
                "E037",
                "the environment has no reference answers",
                where=type(env).__name__,
                why="this objective scores a reference answer after the policy's own reasoning",
                fix="use an environment with `solution(task)` (a SingleTurn), or objective=rloo",
            )
        self.solution, self.tokenizer = env.solution, tokenizer

    def sampling(self, own: Sampling) -> Sampling:
        return replace(own, stop=(OPEN,))

    def rollout(self, rollout: Rollout) -> Rollout:
        (turn,) = rollout.turns
        completion = turn.completion
        if completion.text.endswith(OPEN):
            answer = self.solution(rollout.task) + CLOSE
            added = self.tokenizer.encode(answer)
            completion = replace(
                completion,
                token_ids=completion.token_ids + added,
                logprobs=completion.logprobs + (nan,) * len(added),
                text=completion.text + answer,
            )
        unjudged = Verdict(status=Status.UNJUDGED, parts=(), detail="the reference answer was given")
        return replace(rollout, turns=(replace(turn, completion=completion),), verdict=unjudged)


@dataclass(frozen=True, slots=True)
class BehindFeedback:
    """Trains every reply behind the feedback that its rollout received, as a line of its own in front.

    Nobody sampled the replies there, so their log-probabilities are not known.
    """

    begin: Begin
    """Begins the conversation anew."""

    def sampling(self, own: Sampling) -> Sampling:
        return own

    def rollout(self, rollout: Rollout) -> Rollout:
        conversation = Conversation(self.begin, (condition(rollout.verdict.status),))
        for turn in rollout.turns:
            asked = turn.messages[:1] == (condition(WISH),) and turn is rollout.turns[0]
            conversation.observe(turn.messages[1:] if asked else turn.messages)
            conversation.reply(replace(turn.completion, logprobs=(nan,) * len(turn.completion.token_ids)))
        return replace(rollout, turns=tuple(conversation.turns))


def condition(status: Status) -> Message:
    """Feedback as a line of its own."""
    return Message(role="system", content=f"<EF>{status.value}</EF>")
