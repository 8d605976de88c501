"""The reference of self-distillation reads a solved example of the task, and then scores the policy's own reply."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from gnomon.api import configure
from gnomon.envs import CharCount, NumberWords
from gnomon.keys import Key
from gnomon.learners.base import Model
from gnomon.learners.batch import Batch
from gnomon.learners.coefficients import tokens_of
from gnomon.learners.credit import Crediting
from gnomon.models.folder import TINY
from gnomon.objectives import objective
from gnomon.rendering import Plain
from gnomon.rollout import pack
from gnomon.rollout.conversation import beginning
from gnomon.rollout.failures import judged_groups
from gnomon.rollout.solutions import SolutionShown
from gnomon.run.parts import Parts, open_parts
from gnomon.types import Message, Task

SMALL: dict[str, Any] = {"threads": 1, "rollout": {"prompts": 3, "group": 2, "max_tokens": 12}, "objective": "opsd"}


def packed(parts: Parts) -> Batch:
    tasks = [(index, parts.env.tasks("train")[index]) for index in (4, 0, 7)]
    asyncio.run(parts.actor.sync(parts.learner.publish(), 0))
    groups = asyncio.run(parts.actor.collect(tasks, Key(0)))
    return pack(judged_groups(groups), sampling=parts.actor.sampling, exact=True, limit=parts.actor.longest)


@pytest.mark.parametrize("env", ["char_count", "number_words"])
@pytest.mark.parametrize("shots", [0, 1])
def test_the_reference_scores_the_reply_after_the_solved_task(env: str, shots: int) -> None:
    """Against a policy that reads the two texts itself, token by token, in the order of the batch."""
    config = configure(env, {**SMALL, "env": {"shots": shots}})[0]
    with open_parts(config) as parts:
        batch = packed(parts)
        ready = parts.credit(batch, parts.learner)
        tokenizer, base, place = parts.actor.tokenizer, AutoModelForCausalLM.from_pretrained(TINY).double(), 0
        for sequence in batch.sequences:
            task = parts.env.tasks("train")[int(batch.rollouts.task.flatten()[sequence.rollout])]
            solution = parts.env.framed(parts.env.solution(task))
            lines = [message.content for message in (*task.messages,)] + [solution, task.messages[-1].content]
            prompt = tokenizer.encode("".join(line + "\n" for line in lines))
            reply = sequence.targets.tolist()
            ids = torch.tensor([[*prompt, *reply]])
            logits = base(input_ids=ids).logits[0, len(prompt) - 1 : -1] / batch.temperature
            wanted = logits.log_softmax(-1).gather(1, torch.tensor(reply)[:, None])[:, 0]
            here = slice(place, place := place + len(reply))
            assert torch.allclose(ready.reference_logp[here], wanted, atol=1e-4)
            assert torch.allclose(ready.advantage[here], wanted - batch.behavior_logp[here], atol=1e-4)
        plain = parts.learner.score(batch.sequences, batch.temperature, Model.REFERENCE)
        assert float((torch.cat([torch.from_numpy(x) for x in plain]) - ready.reference_logp).abs().max()) > 0.1


@pytest.mark.parametrize("row", [{"type": "opsd"}, {"type": "reinforce_pp", "beta": 0.1}, {"type": "reinforce_pp"}])
@pytest.mark.parametrize("updates", [1, 2])
def test_one_update_is_compared_with_the_sampler_and_several_with_the_first(row: dict[str, Any], updates: int) -> None:
    """Also where credit reads the log-probabilities of the policy: a lag must not vanish from the ratio."""
    with open_parts(configure("char_count", {**SMALL, "objective": row})[0]) as parts:
        batch = replace(packed(parts), exact=False)
        older = tuple(replace(one, behavior_logp=one.behavior_logp - 0.5) for one in batch.sequences)
        batch = replace(batch, sequences=older)
        ready = parts.credit(batch, parts.learner, updates=updates)
        now = torch.cat([torch.from_numpy(x) for x in parts.learner.score(batch.sequences, batch.temperature)])
        ahead = tokens_of(ready, now.double(), parts.objective).log_ratio
        # The engine and the learner of this run are equal in every bit, so only the subtraction of ½ is rounded.
        assert torch.allclose(ahead, torch.full_like(ahead, 0.5 if updates == 1 else 0.0), atol=1e-9)


def test_examples_and_a_system_message_are_not_repeated() -> None:
    env = CharCount(shots=2)
    task = env.tasks("train")[3]
    told = replace(task, messages=(Message(role="system", content="Count."), *task.messages))
    shown = SolutionShown(env, lambda messages: None)  # type: ignore[arg-type,return-value]
    *before, reply, question = shown.messages(told)
    assert tuple(before) == told.messages and question == task.messages[-1]
    assert reply == Message(role="assistant", content=env.framed(env.solution(task)))


def test_the_policy_is_trained_on_its_own_prompt() -> None:
    """What was sampled stays as it is; what is shown has the same replies."""
    with open_parts(configure("char_count", SMALL)[0]) as parts:
        batch = packed(parts)
        ready = parts.credit(batch, parts.learner)
        assert ready.sequences == batch.sequences
        env = CharCount()
        shown = SolutionShown(env, beginning(env, Plain(parts.actor.tokenizer)))(batch)
        for own, seen in zip(batch.sequences, shown, strict=True):
            assert torch.equal(own.targets, seen.targets) and len(seen.token_ids) > len(own.token_ids)
            assert len(seen.trainable) == len(seen.token_ids) and seen.rollout == own.rollout


def test_an_objective_that_needs_answers_is_not_credited_without_them() -> None:
    with pytest.raises(ValueError, match="reads sequences of its own"):
        Crediting(objective("opsd"))


def test_a_solution_is_a_correct_reply() -> None:
    env = NumberWords()
    task: Task = env.tasks("train")[0]
    assert env.verify(task, env.framed(env.solution(task))).correct
