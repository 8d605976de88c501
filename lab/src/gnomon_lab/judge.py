"""A local model as the judge: a soft score of a reply without a reference answer, read from log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp

from gnomon.envs.controlled import Controlled
from gnomon.models.precision import Precision
from gnomon.run.saved import saved_policy
from gnomon.types import Task
from gnomon.verifiers.controls import Control, Scored
from gnomon_lab.probes.asking import asking
from gnomon_lab.probes.belief import Ask, Question

__all__ = ["Judging", "YesNo"]

QUESTION = "{prompt}\nReply: {reply}\nIs the reply right? Answer Yes or No only."
MAX_REPLY = 1024
"""Only this many characters at the end of a reply are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNo:
    """P(yes) / (P(yes) + P(no)) as the next words of a model after a question on prompt and reply, 0 to 1.

    Nothing is sampled. A score depends on no other reply, whatever the batch: the passes are those of the learner,
    which are exact. The scores of a process are kept.
    """

    model: str
    """A model folder."""
    question: str = QUESTION
    """With `{prompt}` and `{reply}`."""
    options: tuple[str, str] = ("Yes", "No")

    def __call__(self, task: Task, reply: str) -> float:
        return one(self, "\n".join(message.content for message in task.messages), reply[-MAX_REPLY:])

    def scores(self, replies: Sequence[tuple[str, str]]) -> list[float]:
        """The scores of pairs of prompt and reply, in passes of several."""
        texts = [self.question.format(prompt=prompt, reply=reply) for prompt, reply in replies]
        asked = [Question(about="", text=text, options=self.options, rewarded=0) for text in texts]
        return [1 / (1 + exp(no - yes)) for yes, no in load_model(self.model)(asked)]


@lru_cache(maxsize=2**16)
def one(judge: YesNo, prompt: str, reply: str) -> float:
    return judge.scores([(prompt, reply)])[0]


@lru_cache(maxsize=1)
def load_model(model: str) -> Ask:
    return asking(saved_policy(model, Precision()))


@dataclass(frozen=True, kw_only=True)
class Judging(Controlled):
    """A single-turn environment that pays the score of a local model (`model`, a folder). Verdicts keep the truth.

    A worker process loads the model: raise `workers.memory_mib` and `workers.seconds`.
    """

    control: str = "proxy"

    @cached_property
    def paying(self) -> Control:
        return Scored(of=self.env, score=YesNo(model=self.model))
