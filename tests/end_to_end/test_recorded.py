"""The gradient from recorded rollouts, from the stored run to the learner, against exact sums over all answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.keys import Key
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Objective, objective
from gnomon.rendering import Plain, Transcript
from gnomon.rollout import Actor, pack
from gnomon.rollout.batches import InTurn
from gnomon.rollout.conversation import Conversation
from gnomon.rollout.replay import Replay
from gnomon.store import Record, RecordedGroups, Run, encode
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Origin,
    Part,
    Rollout,
    Sampling,
    Segment,
    Status,
    Stop,
    Task,
    Turn,
    Verdict,
)
from models.characters import tokenizer

END, VOCABULARY, LONGEST, GROUP = 1, 4, 2, 2
PROMPT = (2, 3, 3)
ANSWERS = [(END,), *((first, second) for first in (0, 2, 3) for second in range(VOCABULARY))]
"""All that a policy can reply: the end, or any other token and then any."""
PAIRS = list(itertools.product(range(len(ANSWERS)), repeat=GROUP))
SAMPLING = Sampling(max_tokens=LONGEST)
BEGUN = Transcript(
    renderer=Plain(Tokenizer(model_folder("tiny"))), segments=(Segment(origin=Origin.TASK, token_ids=PROMPT),)
)
CLOSE = 5e-7
"""All is float64, but the rotary angles, which learner and model round to float32 apart (a share of 6e-8)."""
TASKS = CharCount().tasks("train")


def reward(answer: tuple[int, ...]) -> float:
    return float(answer in ((END,), (2, 3), (3, END)))


def saved(folder: Path, seed: int) -> Path:
    """A random model of four tokens."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=VOCABULARY, **sizes, bos_token_id=None, eos_token_id=END, pad_token_id=0, initializer_range=0.6
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A policy to train, and the stored groups of another policy: every possible group, each of a task of its own."""

    policy: Path
    behavior: Path
    run: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root = tmp_path_factory.mktemp("recorded")
    policy, behavior = saved(root / "policy", 7), saved(root / "behavior", 3)
    with torch.no_grad():
        mu = answers_logp(AutoModelForCausalLM.from_pretrained(behavior).double())
    with Run.create(root / "run", recipe="", manifest={}, genesis={}) as run:
        records = [
            record
            for index, pair in enumerate(PAIRS)
            for record in encode(group(TASKS[index], index, pair, mu), kind="rollout", step=0)
        ]
        run.append([*records, Record(kind="step", step=0, body={"metrics": {}})])
    return Recorded(policy=policy, behavior=behavior, run=root / "run")


def group(task: Task, index: int, pair: tuple[int, ...], mu: list[Tensor]) -> Group:
    rollouts = [
        Rollout(
            task=task,
            sample=sample,
            turns=(
                Turn(
                    prompt_ids=PROMPT,
                    completion=Completion(
                        token_ids=ANSWERS[place],
                        logprobs=tuple(mu[place].tolist()),
                        text="",
                        finish=Finish.EOS if ANSWERS[place][-1] == END else Finish.LENGTH,
                        version=0,
                    ),
                ),
            ),
            verdict=Verdict(status=Status.WRONG, parts=(Part(name="answer", value=reward(ANSWERS[place])),)),
            stop=Stop.DONE,
        )
        for sample, place in enumerate(pair)
    ]
    return Group(task=task, index=index, rollouts=tuple(rollouts))


def answers_logp(model: torch.nn.Module) -> list[Tensor]:
    """Log-probabilities of the tokens of every answer, by plain autograd."""
    found = []
    for answer in ANSWERS:
        ids = torch.tensor([[*PROMPT, *answer]])
        logp = model(input_ids=ids).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
        found.append(logp.gather(1, torch.tensor(answer)[:, None])[:, 0])
    return found


@torch.no_grad()
def behavior_logp(recorded: Recorded) -> list[Tensor]:
    return answers_logp(AutoModelForCausalLM.from_pretrained(recorded.behavior).double())


def found_gradient(recorded: Recorded, row: Objective) -> Tensor:
    """The expected gradient of a step that replays one group: its sum over all groups, with their chances."""
    policy = Policy.load(recorded.policy, Precision.only(torch.float64))
    learner, mu = LocalLearner(policy), behavior_logp(recorded)
    chances = torch.stack([logp.sum().exp() for logp in mu])
    actor = Actor(CharCount(), policy.tokenizer, Embedded(policy), group=GROUP, sampling=SAMPLING)
    source = RecordedGroups(recorded.run, 0, lambda split, index: TASKS[index])
    total = torch.zeros(0)
    for index, pair in enumerate(PAIRS):
        replay = Replay(InTurn(actor), 1, recorded=source, among=[index])
        groups = asyncio.run(replay.take(0, learner.publish(), lambda step: ([(0, TASKS[0])], Key(step))))
        assert [g.index for g in groups] == [index] and groups[0].replayed == (0, 0)
        batch = Crediting(row)(pack(groups, sampling=SAMPLING, exact=replay.exact), learner)
        learner.forward_backward(batch, row)
        parameters = learner.parameters.values()
        gradient = torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
        )
        for value in parameters:
            value.grad = None
        weighted = -gradient * chances[list(pair)].prod()  # The learner descends.
        total = weighted if index == 0 else total + weighted
    actor.workers.close()
    return total


def exact_gradient(recorded: Recorded, weights: Iterator[tuple[int, Tensor]] | None = None) -> Tensor:
    """∇ Σ_y π(y) r(y), or ∇ Σ w_y log π(y) for given weights, in the order of the learner's parameters."""
    policy = Policy.load(recorded.policy, Precision.only(torch.float64))
    names = list(LocalLearner(policy).parameters)
    model = AutoModelForCausalLM.from_pretrained(recorded.policy).double()
    pi = answers_logp(model)
    if weights is None:
        value = sum(logp.sum().exp() * reward(answer) for answer, logp in zip(ANSWERS, pi, strict=True))
    else:
        value = sum(weight * pi[place].sum() for place, weight in weights)
    value.backward()
    own = dict(model.named_parameters())
    return torch.cat([own[name].grad.flatten() for name in names])


def tapered(recorded: Recorded) -> Iterator[tuple[int, Tensor]]:
    """By the equation of TOPR: the weight of log π(y) for every rollout of every pair."""
    with torch.no_grad():
        pi = answers_logp(AutoModelForCausalLM.from_pretrained(recorded.policy).double())
    mu = behavior_logp(recorded)
    for pair in PAIRS:
        chance = torch.stack([mu[place].sum() for place in pair]).sum().exp()
        mean = sum(reward(ANSWERS[place]) for place in pair) / GROUP
        for place in pair:
            advantage = reward(ANSWERS[place]) - mean
            ratio = (pi[place].sum() - mu[place].sum()).exp().clamp(max=1) if advantage < 0 else torch.tensor(1.0)
            yield place, chance * advantage * ratio / GROUP


def right_ones(recorded: Recorded) -> Iterator[tuple[int, Tensor]]:
    """Rejection fine-tuning: the successes of the recorded policy, by tokens."""
    mu = behavior_logp(recorded)
    for pair in PAIRS:
        chance = torch.stack([mu[place].sum() for place in pair]).sum().exp()
        for place in pair:
            yield place, chance * reward(ANSWERS[place]) / sum(len(ANSWERS[other]) for other in pair)


def failure_chances(recorded: Recorded) -> dict[int, float]:
    """The law of the first token among the failed replies of two tokens, the prefixes of a cut after one token."""
    mu = [float(logp.sum().exp()) for logp in behavior_logp(recorded)]
    failed = [place for place, answer in enumerate(ANSWERS) if len(answer) == LONGEST and not reward(answer)]
    total, found = sum(mu[place] for place in failed), dict.fromkeys((0, 2, 3), 0.0)
    for place in failed:
        found[ANSWERS[place][0]] += mu[place] / total
    return found


def continuation_logp(model: torch.nn.Module, first: int) -> Tensor:
    """[4] of every token after the prompt and the first token of a reply."""
    return model(input_ids=torch.tensor([[*PROMPT, first]])).logits[0, -1].log_softmax(-1)


def continued_group(first: int, pair: tuple[int, ...], logp: Tensor) -> Group:
    """Two continuations of a prefix, as the actor's conversation records them."""
    rollouts = []
    for sample, token in enumerate(pair):
        conversation = Conversation(lambda messages: BEGUN, prefix=(first,))
        assert conversation.observe(()) == (*PROMPT, first)
        conversation.reply(
            Completion(token_ids=(token,), logprobs=(float(logp[token]),), text="", finish=Finish.LENGTH, version=0)
        )
        part = Part(name="answer", value=reward((first, token)))
        verdict = Verdict(status=Status.WRONG, parts=(part,))
        rollouts.append(
            Rollout(task=TASKS[0], sample=sample, turns=tuple(conversation.turns), verdict=verdict, stop=Stop.DONE)
        )
    return Group(task=TASKS[0], index=0, rollouts=tuple(rollouts))


def test_continuations_are_the_gradient_of_their_value_and_not_of_the_prompt(recorded: Recorded) -> None:
    """Over all prefixes of failures with their chances, and all groups of two continuations."""
    policy = Policy.load(recorded.policy, Precision.only(torch.float64))
    learner, row = LocalLearner(policy), objective("rloo")
    model, chances = AutoModelForCausalLM.from_pretrained(recorded.policy).double(), failure_chances(recorded)
    for first, chance in chances.items():
        logp = continuation_logp(model, first).detach()
        for pair in itertools.product(range(VOCABULARY), repeat=GROUP):
            group = continued_group(first, pair, logp)
            batch = Crediting(row)(pack([group], sampling=SAMPLING, exact=False), learner)
            assert len(batch) == GROUP and group.continued, "the prefix is not trained"
            weight = chance * float(logp[list(pair)].sum().exp())
            learner.forward_backward(replace(batch, advantage=batch.advantage * weight), row)
    found = -torch.cat([value.grad.flatten() for value in learner.parameters.values()])
    value = sum(
        chance * continuation_logp(model, first)[token].exp() * reward((first, token))
        for first, chance in chances.items()
        for token in range(VOCABULARY)
    )
    value.backward()
    own = dict(model.named_parameters())
    assert_close(found, torch.cat([own[name].grad.flatten() for name in learner.parameters]))
    whole = exact_gradient(recorded)
    assert float(torch.cosine_similarity(found, whole, dim=0)) < 0.999


def assert_close(found: Tensor, wanted: Tensor) -> None:
    assert float((found - wanted).abs().max()) <= CLOSE * float(wanted.abs().max())


def test_with_whole_ratios_it_is_the_gradient_of_the_trained_policy(recorded: Recorded) -> None:
    """Float64 sums of 169 groups; the naive gradient shows that the behavior is far enough to tell them apart."""
    wanted = exact_gradient(recorded)
    assert_close(found_gradient(recorded, objective("sequence_is")), wanted)
    naive = found_gradient(recorded, objective("reinforce_centred"))
    assert float((naive * GROUP / (GROUP - 1) - wanted).abs().max()) > 0.01 * float(wanted.abs().max())


def test_topr_is_its_equation(recorded: Recorded) -> None:
    wanted = exact_gradient(recorded, tapered(recorded))
    assert_close(found_gradient(recorded, objective("topr")), wanted)


def test_rft_is_the_likelihood_of_what_the_recorded_policy_got_right(recorded: Recorded) -> None:
    wanted = exact_gradient(recorded, right_ones(recorded))
    assert_close(found_gradient(recorded, objective("rft")), wanted)
