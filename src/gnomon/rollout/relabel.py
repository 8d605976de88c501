"""Change rollouts before training: with the reference solution, or with feedback."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from typing import Protocol

from gnomon.envs.base import Env
from gnomon.errors import VerifierError
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.conversation import Begin, Conversation
from gnomon.rollout.solutions import with_solutions
from gnomon.types import Message, Rollout, Sampling, Status, Verdict

__all__ = ["WISH", "BehindFeedback", "Relabel", "WithSolution", "condition"]

OPEN, CLOSE = "<answer>", "</answer>"
WISH = Status.CORRECT
"""The feedback that is requested from the policy, unless the environment has words of its own."""


class Relabel(Protocol):
    """Changes the rollouts of a step before training, after the groups are selected."""

    def sampling(self, own: Sampling) -> Sampling:
        """The sampling settings of training steps, from the actor's settings."""
        ...

    def rollout(self, rollout: Rollout) -> Rollout: ...


class WithSolution:
    """Samples up to the opening of the answer slot and appends the reference answer.

    A rollout that never opens its slot has no answer tokens. The changed rollouts are not judged.

    Raises: ConfigError E037 for an environment without reference answers.
    """

    def __init__(self, env: Env, tokenizer: Tokenizer) -> None:
        solvable = with_solutions(env, "this objective scores a reference answer after the policy's own reasoning")
        self.solution, self.tokenizer = solvable.solution, tokenizer

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
                entropies=completion.entropies and completion.entropies + (nan,) * len(added),
                text=completion.text + answer,
            )
        unjudged = Verdict(status=Status.UNJUDGED, parts=(), detail="the reference answer was supplied")
        return replace(rollout, turns=(replace(turn, completion=completion),), verdict=unjudged)


@dataclass(frozen=True, slots=True)
class BehindFeedback:
    """Trains every reply after the feedback that its rollout received, which is a separate line before the task.

    The replies were not sampled in this context, so their log-probabilities are not known.
    Raises: VerifierError E690 for a verdict without words from an environment that has words of praise.
    """

    begin: Begin
    """Begins a new conversation."""
    praise: str = ""
    """The environment's words for a good reply. Empty: the feedback is the status of the verdict."""

    def sampling(self, own: Sampling) -> Sampling:
        return own

    def rollout(self, rollout: Rollout) -> Rollout:
        conversation = Conversation(self.begin, (condition(self.words(rollout)),))
        for turn in rollout.turns:
            conditioned = turn.messages[:1] == (condition(self.praise or WISH),) and turn is rollout.turns[0]
            conversation.observe(turn.messages[1:] if conditioned else turn.messages)
            unknown = (nan,) * len(turn.completion.token_ids)
            conversation.reply(replace(turn.completion, logprobs=unknown, entropies=()))
        return replace(rollout, turns=tuple(conversation.turns))

    def words(self, rollout: Rollout) -> str:
        """The feedback on a rollout. One that a limit of the run ended was never judged: its status is the feedback."""
        verdict = rollout.verdict
        if not self.praise or (verdict.status in (Status.EXCEEDED, Status.FAILED) and not verdict.feedback):
            return verdict.status.value
        if not verdict.feedback:
            raise VerifierError(
                "E690",
                f"the environment gave no feedback on a reply with the verdict {verdict.status.value}",
                where=f"task {rollout.task.id}, sample {rollout.sample}, player {rollout.player}",
                why=f"it has the praise {self.praise!r}, so every verdict needs words of feedback",
                fix="return words from `feedback` for every verdict, or remove `praise` and use the status",
            )
        return verdict.feedback


def condition(words: str) -> Message:
    """Feedback as a separate line."""
    return Message(role="system", content=f"<EF>{words}</EF>")
