"""What the environment wrote after the first reply: which tokens these are, and the gradient of their likelihood."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

import gnomon
from gnomon.engines.embedded import Embedded
from gnomon.envs import GuessNumber, Nim
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.batch import TokenSequence
from gnomon.learners.local import LocalLearner
from gnomon.models.adapter import Adapter
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Objective, objective
from gnomon.rendering import Transcript
from gnomon.rendering.chatml import ChatML
from gnomon.rollout import Actor, Limits, pack
from gnomon.rollout.conversation import Conversation
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Rollout,
    Sampling,
    Segment,
    Status,
    Stop,
    Task,
    Tool,
    Turn,
    Verdict,
)
from learners.sequences import credited
from rendering.families import tokenizer_folder

SAMPLING = Sampling(max_tokens=24, stop=("</answer>",), temperature=0.8)
ECHO = objective("echo", observation=0.3)


def collected(env: Env, turns: int, tasks: int = 2) -> list[Group]:
    """Sampled in float32 by an exact engine."""
    engine, workers = Embedded(Policy.load(model_folder("tiny"))), EnvWorkers(env, workers=1)
    actor = Actor(
        env,
        engine.policy.tokenizer,
        engine,
        group=3,
        sampling=SAMPLING,
        workers=workers,
        limits=Limits(turns=turns),
    )
    chosen = [(index, env.tasks("train")[index]) for index in range(tasks)]
    try:
        return asyncio.run(actor.collect(chosen, Key(1).at("test")))
    finally:
        workers.close()


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return collected(GuessNumber(), turns=3)


def packed(groups: list[Group], *, rewards: list[list[float]] | None = None) -> Batch:
    """Rewards of 0 unless others are named."""
    found = pack(groups, sampling=SAMPLING, exact=True)
    values = torch.tensor(rewards or [[0.0] * len(group.rollouts) for group in groups], dtype=torch.float64)
    return replace(found, rollouts=replace(found.rollouts, rewards=values))


@pytest.fixture(scope="module")
def batch(groups: list[Group]) -> Batch:
    """No group has a reward that differs, so no sampled token has credit."""
    found = packed(groups)
    assert found.denominators.observed > 20
    return found


def learner(dtype: torch.dtype = torch.float64, precision: Precision | None = None, **options: Adapter) -> LocalLearner:
    return LocalLearner(Policy.load(model_folder("tiny"), precision or Precision.only(dtype), **options))


def gradient(mind: LocalLearner, batch: Batch, row: Objective = ECHO) -> Tensor:
    for value in mind.parameters.values():
        value.grad = None
    mind.forward_backward(credited(mind, batch, row), row)
    zero = torch.zeros(1)
    return torch.cat([(zero if value.grad is None else value.grad).flatten() for value in mind.parameters.values()])


def plain_loss(model: torch.nn.Module, sequences: tuple[TokenSequence, ...], temperature: float) -> Tensor:
    """The mean negative log-likelihood of the observed tokens, one sequence after the other."""
    found = []
    for sequence in sequences:
        logp = torch.log_softmax(model(input_ids=sequence.token_ids[None]).logits[0, :-1] / temperature, -1)
        chosen = logp.gather(1, sequence.token_ids[1:, None])[:, 0]
        found.append(-chosen[sequence.observed[1:]])
    return torch.cat(found).mean()


# Which tokens they are.


def texts(batch: Batch, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.decode(tuple(s.token_ids[s.observed].tolist())) for s in batch.sequences]


@pytest.mark.parametrize("env", [GuessNumber(), Nim()], ids=["one player", "two players"])
def test_they_are_the_messages_after_the_first_turn(env: Env) -> None:
    """Without the line breaks of plain text around them. A move of the other player counts as the environment shows it.

    The first message of a player, who may come second, is not among them, nor what follows the last reply.
    """
    found = collected(env, turns=3 * (2 if isinstance(env, Nim) else 1))
    wanted = [
        "".join(message.content for turn in rollout.turns[1:] for message in turn.messages)
        for group in found
        for rollout in group.rollouts
        if rollout.turns
    ]
    assert texts(packed(found), Tokenizer(model_folder("tiny"))) == wanted
    assert any(wanted)


def turn(prompt: str, reply: str, *segments: tuple[Origin, str], fork: int = 0) -> Turn:
    """One letter is one token."""
    parts = tuple(Segment(origin=origin, token_ids=tuple(map(ord, text))) for origin, text in segments)
    ids = tuple(map(ord, reply))
    completion = Completion(token_ids=ids, logprobs=(-1.0,) * len(ids), text=reply, finish=Finish.STOP, version=0)
    return Turn(prompt_ids=tuple(map(ord, prompt)), completion=completion, segments=parts, fork=fork)


def packed_turns(*turns: Turn) -> Batch:
    """A step of one rollout."""
    task = Task(id="1", messages=(Message(role="user", content=""),), answer=None)
    verdict = Verdict(status=Status.WRONG, parts=())
    rollout = Rollout(task=task, sample=0, turns=turns, verdict=verdict, stop=Stop.DONE)
    group = Group(task=task, index=0, rollouts=(rollout,))
    return pack([group], sampling=SAMPLING, exact=False)


def observed(*turns: Turn) -> list[str]:
    """Of every sequence of a rollout of these turns."""
    found = packed_turns(*turns)
    assert found.denominators.observed == sum(sequence.observations for sequence in found.sequences)
    return ["".join(chr(c) for c in s.token_ids[s.observed].tolist()) for s in found.sequences]


ASKED = ((Origin.TEMPLATE, "<"), (Origin.TASK, "ask"), (Origin.TEMPLATE, ">"))
SAW = ((Origin.TEMPLATE, "["), (Origin.ENVIRONMENT, "saw"), (Origin.TOOL, "two"), (Origin.TEMPLATE, "]"))


def test_the_template_is_not_among_them() -> None:
    assert observed(turn("<ask>", "one", *ASKED), turn("<ask>one[sawtwo]", "end", *SAW)) == ["sawtwo"]


def test_where_history_is_rewritten_each_counts_once() -> None:
    """In the sequence that first shows it: what the policy has read before is not learned again."""
    whole = (*ASKED, (Origin.POLICY, "ne"), *SAW, (Origin.POLICY, "nd"), (Origin.ENVIRONMENT, "new"))
    last = turn("<ask>ne[sawtwo]ndnew", "out", *whole, fork=1)
    first = turn("<ask>", "one", *ASKED), turn("<ask>one[sawtwo]", "end", *SAW)
    assert observed(*first, last) == ["sawtwo", "new"]


def test_a_turn_without_a_token_is_a_reply_too() -> None:
    """What comes after it is observed where a later reply has read it, and else in no sequence."""
    silent, after = turn("<ask>", "", *ASKED), (Origin.ENVIRONMENT, "b")
    assert observed(silent, turn("<ask>[sawtwo]", "end", *SAW)) == ["sawtwo"]
    assert observed(silent, turn("<ask>[sawtwo]", "end", *SAW), turn("<ask>[sawtwo]endb", "", after)) == ["sawtwo"]


def test_tool_results_are_found_without_the_tags_of_a_template(tmp_path: Path) -> None:
    """The descriptions of the tools stand in the first prompt."""
    tokenizer = Tokenizer(tokenizer_folder(tmp_path, "chatml"))
    tools = (Tool(name="add", description="Adds."),)
    conversation = Conversation(partial(Transcript.begin, ChatML(tokenizer), tools=tools))
    conversation.observe((Message(role="user", content="Guess."),))
    conversation.reply(turn("", "a").completion)
    conversation.observe((Message(role="tool", content="7"), Message(role="user", content="Higher.")))
    conversation.reply(turn("", "b").completion)
    (sequence,) = packed_turns(*conversation.turns).sequences
    text = tokenizer.decode(tuple(sequence.token_ids.tolist()))
    assert "Adds." in text and "<tool_response>\n7\n</tool_response>" in text
    assert tokenizer.decode(tuple(sequence.token_ids[sequence.observed].tolist())) == "7Higher."


# The gradient.


def test_the_gradient_is_that_of_their_mean_log_likelihood(batch: Batch) -> None:
    """By plain autograd at the temperature of the samples, in float64; also where no token has credit."""
    mind = learner()
    ours = gradient(mind, replace(batch, exact=False))
    model = AutoModelForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float64).eval()
    loss = plain_loss(model, batch.sequences, SAMPLING.temperature)
    (0.3 * loss).backward()
    named = dict(model.named_parameters())
    theirs = torch.cat([named[name].grad.flatten() for name in mind.parameters])
    assert theirs.abs().max() > 1e-4
    assert (ours - theirs).abs().max() <= 1e-10 * theirs.abs().max()
    stats = mind.forward_backward(credited(mind, replace(batch, exact=False), ECHO), ECHO)
    assert stats["observation_nll"].value == pytest.approx(loss.item(), rel=1e-12)


def test_it_adds_to_the_gradient_of_the_row(groups: list[Group], batch: Batch) -> None:
    """The gradients of the two terms apart, of the same step."""
    mind, step = learner(), replace(packed(groups, rewards=[[1, 0, 0], [0, 1, 1]]), exact=False)
    alone, still = gradient(mind, step, objective("grpo")), gradient(mind, replace(batch, exact=False))
    both = gradient(mind, step)
    assert min(alone.abs().max(), still.abs().max()) > 1e-4
    assert (both - alone - still).abs().max() <= 1e-11 * both.abs().max()


@pytest.mark.parametrize("tokens", [1, 60])
def test_a_split_does_not_change_it(batch: Batch, tokens: int) -> None:
    """Through prefixes that sequences of a micro-batch share, or do not."""
    mind = learner()
    mind.micro_batch = 10**6
    whole = gradient(mind, replace(batch, exact=False))
    mind.micro_batch = tokens
    assert len(batch.micro_batches(tokens)) > 1
    assert (gradient(mind, replace(batch, exact=False)) - whole).abs().max() <= 1e-11 * whole.abs().max()


def test_a_step_without_observations_is_that_of_the_row_alone() -> None:
    found = pack(collected(GuessNumber(), turns=1), sampling=SAMPLING, exact=True)
    assert found.denominators.observed == 0
    rewards = torch.tensor([[1.0, 0, 0], [0, 1, 1]], dtype=torch.float64)
    mind, step = learner(), replace(found, exact=False, rollouts=replace(found.rollouts, rewards=rewards))
    assert torch.equal(gradient(mind, step), gradient(mind, step, objective("grpo")))
    assert "observation_nll" not in mind.forward_backward(credited(mind, step, ECHO), ECHO)


@pytest.mark.parametrize("adapted", [False, True], ids=["all weights", "adapter"])
@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16, torch.float16])
def test_in_every_dtype_they_get_likelier(batch: Batch, compute: torch.dtype, adapted: bool) -> None:
    """In float32 the sampler's log-probabilities are still the learner's in every bit: E202 would be raised."""
    options = {"adapter": Adapter(rank=4, key=Key(7))} if adapted else {}
    mind = learner(precision=Precision(compute=compute), **options)
    step = replace(batch, exact=compute is torch.float32)
    seen = []
    for _ in range(4):
        stats = mind.forward_backward(credited(mind, step, ECHO), ECHO)
        step = replace(step, exact=False)
        seen.append(stats["observation_nll"].value)
        mind.optim_step(1e-3)
    assert seen[-1] < seen[0] - 0.05


@pytest.mark.parametrize(
    ("env", "row", "turns", "said"),
    [("char_count", "echo", 0, True), ("calculator", "echo", 1, True), ("calculator", "echo", 0, False),
     ("char_count", "grpo", 0, False)],
)  # fmt: skip
def test_a_run_says_that_one_turn_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], env: str, row: str, turns: int, said: bool
) -> None:
    rollout = {"prompts": 1, "group": 2, "turns": turns, "max_tokens": 4}
    gnomon.train(env, objective=row, steps=1, rollout=rollout, eval={"tasks": 1}, run=tmp_path / "run").close()
    assert ("there are no observations to train on" in capsys.readouterr().out) == said
