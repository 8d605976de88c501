"""Collect, pack, prepare, updates, micro-batches: the gradient is that of the whole step, however the step is cut.

Every row of the table, and some that only a user has: episodes of one and of three turns, one player and two that are
compared apart or together, one update and four, micro-batches of the whole step, of some prompts and of one row. Held
against `whole_step`, in float64. Of rows that a learner treats alike the first runs in all episodes, the others in two.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import nan
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from end_to_end.whole_step import Expected, Model, Step, Terms, copied, expected, text_of
from gnomon.engines.scripted import Scripted
from gnomon.envs import GuessNumber, TicTacToe
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.learners import Batch, TokenSequence
from gnomon.learners.coefficients import cut
from gnomon.learners.credit import Crediting
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.learners.local import Terms as LearnerTerms
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import (
    RENAMED,
    TABLE,
    CreditState,
    Data,
    Denominators,
    Need,
    Objective,
    Reach,
    Rewards,
    Tokens,
    k1_in_return,
    k3,
    less_overlong,
    objective,
    reaches,
    terminal,
)
from gnomon.rollout import Actor, Limits, pack
from gnomon.rollout.solutions import after
from gnomon.types import Group, Part, Rollout, Sampling, Status, Stop, Verdict
from learners.sequences import lines

TOKENIZER = Tokenizer(model_folder("tiny"))
SAMPLING = Sampling(max_tokens=30, temperature=0.9)
SPLITS = (10**6, 16, 1)
"""Tokens of a micro-batch: the whole step, a few sequences, one sequence."""
TOLERANCE = 1e-9
"""Of the largest part of a gradient. Sums in another order differ by some 1e-14."""
ZERO = 1e-11
"""A gradient smaller than this is the rest of larger parts that cancel, two equal replies with opposite credit."""
PAST = 0.25
SOLUTION = (5, 6, 7, 5)
"""Tokens that the reference of some rows reads before everything else."""
VISITS = (2, 0.3, 0.2)
"""Earlier visits of every task: how many, and the mean and variance of their rewards."""


# A policy that is quick to compute.


class Body(nn.Module):
    """Two layers without attention: what comes next depends on the last token and on where it stands."""

    def __init__(self, vocabulary: int, size: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, size), nn.Embedding(512, size)
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(2))

    def forward(self, input_ids: Tensor, position_ids: Tensor, **layout: object) -> SimpleNamespace:
        hidden = self.token(input_ids) + self.place(position_ids)
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        return SimpleNamespace(last_hidden_state=hidden)


class Config(SimpleNamespace):
    """A configuration, as `Policy` asks for one."""

    sub_configs: ClassVar[dict[str, Any]] = {}

    def get_text_config(self) -> Config:
        return self


class Small(nn.Module):
    """A language model of that body, as `Policy` asks for one."""

    def __init__(self, seed: int, size: int = 6) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.config = Config(model_type="table")
        self.base_model = Body(102, size)
        self.head = nn.Linear(size, 102, bias=False)
        self.double()

    def get_output_embeddings(self) -> nn.Linear:
        return self.head


POLICY, REFERENCE, CRITIC = Small(0), Small(1), Small(2)


def read(model: nn.Module) -> Model:
    """A copy for plain autograd."""
    twin = copied(model)
    body = twin.base_model

    def hidden(ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1]).expand(ids.shape)
        return body(input_ids=ids, position_ids=places).last_hidden_state

    return Model(hidden=hidden, parameters=dict(twin.named_parameters()), head=twin.head.weight)


# What is collected.


@dataclass(frozen=True, kw_only=True)
class Case:
    players: int
    turns: int
    shared: bool = False
    rewritten: bool = False
    """Whether the last turn of a rollout is said to another history than the turns before."""

    def __str__(self) -> str:
        baseline = "" if self.players == 1 else ", compared together" if self.shared else ", compared apart"
        return f"{self.turns} turn(s), {self.players} player(s){baseline}{', rewritten' if self.rewritten else ''}"


CASES = [
    *(Case(players=players, turns=1, shared=shared) for players, shared in ((1, False), (2, False), (2, True))),
    Case(players=1, turns=3),
    Case(players=1, turns=3, rewritten=True),
    Case(players=2, turns=3, rewritten=True),
    Case(players=2, turns=3, shared=True),
]
REWARDS = ((1.0, 0.5, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.25))
"""Of every group: the second one has nothing to teach by itself."""

EASY = (0.0, 1.0, 0.25)
"""A second part of the reward of the rollouts of each group, which is in the reward by half."""
GREEDY = (0.5, 0.25, 0.0, 1.0)
"""Of the greedy rollout of every group."""

SILENT = (3, 0)
"""A player whose turn never came: group and sample."""


def reply(prompt: str, key: bytes) -> str:
    """A legal move most of the time, after some letters; sometimes nothing. Some of a group say the same."""
    luck = random.Random(f"{prompt}/{key[0] % 3}")
    if luck.random() < 0.1:
        return ""
    taken = re.findall(r"\d", prompt.replace("1-9", ""))
    free = [cell for cell in "123456789" if cell not in taken] or ["1"]
    move = luck.choice(free) if "Tic" in prompt else str(luck.randint(1, 20))
    return f"{'abcdefgh'[: luck.randrange(6)]}<answer>{move}</answer>"


@cache
def collected(players: int, turns: int) -> tuple[Group, ...]:
    """Three rollouts of each of some tasks; two players play each other."""
    env = TicTacToe() if players == 2 else GuessNumber()
    workers = EnvWorkers(env, workers=1)
    engine, limits = Scripted(TOKENIZER, reply), Limits(turns=turns * players)
    actor = Actor(env, TOKENIZER, engine, group=3, sampling=SAMPLING, workers=workers, limits=limits)
    tasks = [(index, env.tasks("train")[index]) for index in range(2 if players == 2 else 3)]
    try:
        return tuple(asyncio.run(actor.collect(tasks, Key(10).at("test", turns=turns))))
    finally:
        workers.close()


def rewritten(rollout: Rollout) -> Rollout:
    """The last of several turns without a part of what was before it."""
    *before, last = rollout.turns
    if before:
        dropped = before[-1].completion.token_ids
        start = len(before[-1].prompt_ids)
        prompt = last.prompt_ids[:start] + last.prompt_ids[start + len(dropped) :]
        last = replace(last, prompt_ids=prompt, fork=last.fork + 1)
    return replace(rollout, turns=(*before, last))


@cache
def groups(case: Case, data: Data, rewards: Rewards) -> tuple[Group, ...]:
    """With other rewards, and a sampler somewhat apart from the policy; given, where the row learns from that."""
    noise, found = random.Random(7), []
    for place, group in enumerate(collected(case.players, case.turns)):
        rollouts = []
        for sample, rollout in enumerate(group.rollouts):
            reward = REWARDS[place][sample]
            if (place + sample) % 3 == 1:
                rollout = replace(rollout, stop=Stop.TRUNCATED)
            if (place, sample) == SILENT:
                rollout = replace(rollout, turns=())
            elif case.rewritten:
                rollout = rewritten(rollout)
            value = float(reward > 0.3) if rewards is Rewards.BINARY else reward
            rollout = reported(rollout, noise, data, last=sample == 2)
            verdict = Verdict(
                status=Status.CORRECT if value else Status.WRONG,
                parts=(
                    Part(name="test", value=value - EASY[sample] / 2),
                    Part(name="easy", value=EASY[sample], weight=0.5),
                ),
                extracted=rollout.verdict.extracted,
            )
            rollouts.append(replace(rollout, verdict=verdict))
        greedy = Verdict(status=Status.WRONG, parts=(Part(name="test", value=GREEDY[place]),))
        found.append(replace(group, rollouts=tuple(rollouts), greedy=replace(group.rollouts[0], verdict=greedy)))
    return tuple(found)


def reported(rollout: Rollout, noise: random.Random, data: Data, *, last: bool) -> Rollout:
    """The rollout with log-probabilities as a sampler reports them; NaN where a token was given.

    Demonstrations and replies behind their feedback are given whole, of a mixed group the last rollout is, and of a
    spliced one the second half of the last turn.
    """
    model, turns = read(POLICY), []
    for number, turn in enumerate(rollout.turns):
        text = text_of(turn)
        count = len(text.reply)
        known = model.logp([text], SAMPLING.temperature).tolist() if count else []
        said = [logp + noise.gauss(0, 0.3) for logp in known]
        kept = count
        if data in (Data.DEMONSTRATED, Data.CONDITIONED) or (data is Data.MIXED and last):
            kept = 0
        elif data is Data.SPLICED and number + 1 == len(rollout.turns):
            kept = count // 2
        completion = replace(turn.completion, logprobs=(*said[:kept], *[nan] * (count - kept)))
        turns.append(replace(turn, completion=completion))
    return replace(rollout, turns=tuple(turns))


# What is maximised.


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A row, and what stands beside it."""

    row: Objective
    terms: Terms = field(default_factory=Terms)


def of_the_step(tokens: Tokens) -> Tensor:
    """A ratio that declares nothing, and looks at all there is."""
    return tokens.log_ratio.mean().exp() * (1 + (tokens.log_ratio - tokens.log_ratio.mean()).square())


@reaches(Reach.GROUP)
def of_the_group(tokens: Tokens) -> Tensor:
    """The mean ratio of a group, of rollouts without credit too."""
    sums = torch.zeros(int(tokens.group.max()) + 1, dtype=tokens.logp.dtype).index_add(
        0, tokens.group, tokens.log_ratio
    )
    return (sums[tokens.group] / torch.bincount(tokens.group)[tokens.group]).exp()


def by_hand(tokens: Tokens, sizes: Denominators) -> Tensor:
    """A mean over rollouts that counts the tokens it sees, and declares nothing."""
    return 1 / (sizes.sequences * torch.bincount(tokens.sequence)[tokens.sequence]).to(tokens.logp.dtype)


OPTIONS = {"k": 2, "order": 2, "keep": 2}
"""For groups of three."""
SPECIAL = {"gspo": {"clip_low": 0.02, "clip_high": 0.02}, "geometric_rejection": {"least": 0.9, "most": 1.1}}


def table() -> Iterator[tuple[str, Loss]]:
    """Every row, and every one that was a row and has options now."""
    forms = [(name, name, {}) for name in TABLE]
    forms += [(former, row, options) for former, (row, _, options) in RENAMED.items() if options]
    for name, row, more in forms:
        known = inspect.signature(TABLE[row]).parameters
        options = {option: value for option, value in OPTIONS.items() if option in known} | SPECIAL.get(row, {})
        yield name, Loss(row=objective(row, **{**options, **more}))


def others() -> Iterator[tuple[str, Loss]]:
    """What users put together."""
    grpo, dr_grpo, rloo, gspo = (objective(name) for name in ("grpo", "dr_grpo", "rloo", "gspo"))
    beside = Terms(entropy=0.05, full_kl=0.1)
    yield "a ratio of the whole step", Loss(row=replace(rloo, ratio=of_the_step))
    yield "a ratio of the group", Loss(row=replace(rloo, ratio=of_the_group))
    yield "a mean that counts for itself", Loss(row=replace(dr_grpo, aggregate=by_hand))
    yield "dr_grpo, k1_in_return", Loss(row=replace(dr_grpo, penalty=k1_in_return, penalty_weight=0.1))
    yield "gspo, k1_in_return", Loss(row=replace(gspo, penalty=k1_in_return, penalty_weight=0.1))
    yield "grpo, k3", Loss(row=replace(grpo, penalty=k3, penalty_weight=0.1))
    yield "grpo, entropy and full divergence", Loss(row=grpo, terms=beside)
    yield "gspo, entropy and full divergence", Loss(row=gspo, terms=beside)
    yield "a mean of its own, entropy", Loss(row=replace(grpo, aggregate=by_hand), terms=beside)
    yield "gspo, observations", Loss(row=replace(gspo, observation=0.5))
    yield "a ratio of the group, observations", Loss(row=replace(rloo, ratio=of_the_group, observation=0.5))
    for name, bootstrap in (("ppo", "reply"), ("ppo", "limit"), ("vc_ppo", "limit"), ("vapo", "limit")):
        yield f"{name}, {bootstrap} with a value", Loss(row=objective(name, bootstrap=bootstrap))
    yield "vapo, likelihood", Loss(row=objective("vapo", likelihood=0.3))
    late = less_overlong(dr_grpo.credit, max_tokens=SAMPLING.max_tokens, buffer=20)
    yield "dr_grpo, overlong", Loss(row=replace(dr_grpo, credit=late))


ALL = {**dict(table()), **dict(others())}


def kind(loss: Loss) -> tuple[object, ...]:
    """All that a learner, or the credit of a step, makes a difference by."""
    row = loss.row
    parts = (row.aggregate, row.penalty is None, row.credit is terminal, row.corrects, row.returns is None)
    return (row.reach, row.scope, row.asks, row.data, row.rewards, *parts, bool(row.observation), loss.terms)


FIRST = {kind(loss): name for name, loss in reversed(ALL.items())}
"""The first loss of each kind."""


def cases_for(name: str) -> list[Case]:
    """Every case for the first loss of a kind; for the others one of several turns and one of several players."""
    return CASES if FIRST[kind(ALL[name])] == name else [CASES[4], CASES[-1]]


# The comparison.


@dataclass(frozen=True, kw_only=True)
class Run:
    """A learner with a prepared step, and the same step for plain code."""

    loss: Loss
    learner: LocalLearner
    ready: Batch
    step: Step
    credit: Tensor
    began: Tensor | None

    def expected(self, part: Batch) -> Expected:
        """For an optimiser step: what is compared together is in it whole, or not at all."""
        sequence, group = self.step.of_rollouts()
        owner = dict(zip(sequence.tolist(), group.tolist(), strict=True))
        here = set(part.rollout.tolist())
        chosen = {owner[sequence] for sequence in here}
        assert here == {sequence for sequence, group in owner.items() if group in chosen}
        silent = [place for place in range(len(self.step.merged)) if place not in owner.values()]
        chosen |= set(silent[: part.denominators.groups - len(chosen)])
        assert len(chosen) == part.denominators.groups
        return expected(
            self.step,
            self.loss.row,
            self.credit,
            policy=read(self.learner.policy.model),
            reference=read(REFERENCE),
            began=self.began,
            chosen=chosen,
            terms=self.loss.terms,
        )


def begin(loss: Loss, case: Case, *, updates: int, change: Callable[[Sequence[Group]], Sequence[Group]] = list) -> Run:
    """Args: change: what becomes of the groups before they are packed."""
    row, terms = loss.row, loss.terms
    found = change(groups(case, row.data, row.rewards))
    needs = row.needs_reference or terms.full_kl
    learner = LocalLearner(
        Policy(copied(POLICY), TOKENIZER),
        terms=LearnerTerms(entropy=terms.entropy, full_kl=terms.full_kl),
        reference=Policy(copied(REFERENCE), TOKENIZER) if needs else None,
        critic=critic() if Need.VALUES in row.asks else None,
    )
    shown = after_solutions if Need.SOLUTION in row.asks else None
    credits = Crediting(row, shared=case.shared, solution_shown=shown)
    known_values = {(group.index, player): PAST for group in found for player in (0, 1)}
    known_visits = dict.fromkeys(known_values, VISITS)
    credits.state = CreditState(means={0: PAST, 1: PAST}, values=known_values, visits=known_visits)
    batch = pack(found, sampling=SAMPLING, exact=False)
    step = Step(
        groups=found,
        shared=case.shared,
        temperature=SAMPLING.temperature,
        max_tokens=batch.denominators.max_tokens,
        reply_tokens=SAMPLING.max_tokens,
        past=PAST,
        visits=VISITS,
        encode=TOKENIZER.encode,
    )
    known: dict[str, Tensor] = {}
    if "brpo" in row.name:  # No environment here pays by the budget.
        count, most = batch.rollouts.rewards.numel(), int(batch.rollouts.segment.max()) + 1
        paid = torch.arange(count * most, dtype=torch.float64).reshape(count, most).sin()
        batch = replace(batch, rollouts=replace(batch.rollouts, segment_rewards=paid.reshape(len(found), -1, most)))
        known["segment_rewards"] = paid.reshape(len(step.merged), -1, most)
    ready = credits(batch, learner, updates=updates)
    now = read(POLICY).logp(step.spoken, SAMPLING.temperature).detach()
    if learner.critic:
        known["values"] = (read(CRITIC).states(step.spoken) @ slope()).detach()
        beyond = (read(CRITIC).last_states(step.texts) @ slope()).detach()
        known["beyond"] = beyond.reshape(len(step.merged), -1)
    seen = [replace(text, prompt=SOLUTION + text.prompt) for text in step.spoken] if shown else step.spoken
    anchor = read(REFERENCE).logp(seen, SAMPLING.temperature).detach()
    whole = read(POLICY).distributions(step.spoken, SAMPLING.temperature).detach()
    known["entropy"], known["collision"] = -(whole.exp() * whole).sum(-1), (2 * whole).exp().sum(-1)
    credit = row.credits(step.rollouts(logp=now, reference_logp=anchor, **known))
    assert torch.allclose(ready.advantage, credit, rtol=1e-12, atol=1e-12), "credit is not that of the whole step"
    began = now if updates > 1 else None
    return Run(loss=loss, learner=learner, ready=ready, step=step, credit=credit, began=began)


def after_solutions(batch: Batch) -> list[TokenSequence]:
    """Every sequence as a reference reads it that was shown something before."""
    found = []
    for sequence in batch.sequences:
        first = int(sequence.trainable.nonzero()[0])
        found.append(after(torch.cat([torch.tensor(SOLUTION), sequence.token_ids[:first]]), sequence))
    return found


def slope() -> Tensor:
    return torch.linspace(-0.2, 0.3, 6, dtype=torch.float64)


def critic() -> Critic:
    found = Critic(Policy(copied(CRITIC), TOKENIZER), lr=1e-2)
    with torch.no_grad():
        found.parameters["value.weight"].copy_(slope())
    return found


def gradient(parameters: dict[str, Tensor]) -> Tensor:
    """What has been gathered; then it is forgotten."""
    found = []
    for value in parameters.values():
        found.append(torch.zeros_like(value).flatten() if value.grad is None else value.grad.flatten().clone())
        value.grad = None
    return torch.cat(found)


def apart(found: Tensor, wanted: Tensor) -> float:
    """Relative to the largest part; absolute where that is what cancelling parts leave."""
    size = float(wanted.abs().max())
    apart = float((found - wanted).abs().max())
    return apart / size if size > ZERO else apart


def compare(run: Run, part: Batch, splits: Sequence[int]) -> float:
    """The largest error over these splits of an optimiser step. Its gradient is left with the learner."""
    wanted, worst, stats, values = run.expected(part), 0.0, [], []
    for tokens in splits:
        run.learner.micro_batch = tokens
        stats.append(run.learner.forward_backward(part, run.loss.row))
        if run.learner.critic:
            values.append(gradient(run.learner.critic.parameters))
            worst = max(worst, apart(values[-1], values[0]))
        worst = max(worst, apart(gradient(run.learner.policy.state()), wanted.gradient))
    for found in stats:
        assert found.keys() == stats[0].keys()
        for name, stat in found.items():
            assert stat.value == pytest.approx(stats[0][name].value, rel=1e-7, abs=1e-12, nan_ok=True), name
        assert found["trained"].value == wanted.trained
        if "clipped" in found and wanted.trained:
            assert found["clipped"].value == pytest.approx(wanted.clipped, abs=1e-12)
    run.learner.forward_backward(part, run.loss.row)
    return worst


@pytest.mark.parametrize("name", ALL)
def test_one_update_has_the_gradient_of_the_whole_step(name: str) -> None:
    for case in cases_for(name):
        run = begin(ALL[name], case, updates=1)
        (part,) = run.ready.updates(1, 1, Key(0).at("updates"))
        assert compare(run, part, SPLITS) <= TOLERANCE, str(case)


@pytest.mark.parametrize("name", ALL)
def test_of_several_updates_each_has_the_gradient_of_its_own_step(name: str) -> None:
    """Two epochs of two minibatches: by the policy as it is then, over the groups that are in it."""
    for case in cases_for(name):
        run = begin(ALL[name], case, updates=4)
        parts = list(run.ready.updates(2, 2, Key(0).at("updates")))
        assert len(parts) == 4
        for place, part in enumerate(parts):
            splits = (10**6, SPLITS[1 + place % 2])
            assert compare(run, part, splits) <= TOLERANCE, f"{case}, update {place}"
            run.learner.optim_step(0.02)


def rotated(found: Sequence[Group]) -> list[Group]:
    """The last task first, with all its players."""
    cut = len(found) - (2 if len(found) % 2 == 0 else 1)
    return [*found[cut:], *found[:cut]]


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_tasks_does_not_matter(name: str) -> None:
    case = CASES[-1]
    found = []
    for change in (list, rotated):
        run = begin(ALL[name], case, updates=1, change=change)
        assert compare(run, run.ready, SPLITS[1:2]) <= TOLERANCE
        found.append(gradient(run.learner.policy.state()))
    if "brpo" not in name:  # Its scores by the budget are made up here, in order.
        assert apart(found[1], found[0]) <= TOLERANCE


def silenced(found: Sequence[Group]) -> list[Group]:
    """The second task is never spoken to."""
    return [
        replace(group, rollouts=tuple(replace(rollout, turns=()) for rollout in group.rollouts))
        if group.index == found[-1].index
        else group
        for group in found
    ]


EDGES: dict[str, Callable[[Sequence[Group]], Sequence[Group]]] = {
    "one task": lambda found: [group for group in found if group.index == found[0].index],
    "a task without a token": silenced,
    "no token at all": lambda found: silenced(silenced(found[-2:])),
}


AT_EDGES = (
    "dapo", "echo", "grpo", "gspo", "luffy", "maxrl", "online_dpo", "online_simpo", "opd_sequence", "ppo", "rae",
    "rebn", "sequence_tis", "verifree", "xpo", "a ratio of the whole step", "gspo, entropy and full divergence",
)  # fmt: skip


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("name", AT_EDGES)
def test_a_step_at_an_edge_has_its_gradient(name: str, edge: str) -> None:
    for case in CASES[-2:]:
        run = begin(ALL[name], case, updates=2, change=EDGES[edge])
        for part in run.ready.updates(1, 2, Key(0).at("updates")):
            assert compare(run, part, SPLITS[1:2]) <= TOLERANCE, str(case)
            run.learner.optim_step(0.02)


def test_what_is_compared_holds_what_a_split_could_change() -> None:
    """Several turns, prompts that groups share, rollouts without a token, groups that teach nothing; and it is cut."""
    repeated = []
    for case in CASES:
        run = begin(ALL["gspo"], case, updates=1)
        turns = [len(texts) for texts in run.step.texts]
        assert max(turns) == case.turns and (case.players == 1 or min(turns) == 0)
        spoken = list(lines(run.ready))
        assert len({line.prompt for line in spoken}) < len({(line.prompt, line.group) for line in spoken})
        repeated.append(len({(line.prompt, line.reply) for line in spoken}) < len(spoken))
        assert run.ready.denominators.groups == (2 if case.shared else len(run.step.groups))
        assert case.shared or not all(any(line.advantage) for line in spoken)
        pieces = [[run.ready.take(places) for places in run.ready.micro_batches(tokens)] for tokens in SPLITS]
        assert len(pieces[0]) == 1
        assert all(len({tuple(s.inputs.tolist()) for s in piece.sequences}) == 1 for piece in pieces[2])
        assert len(pieces[1]) > 1 and cut(pieces[2], Reach.GROUP)
        assert cut(pieces[2], Reach.SEQUENCE) == case.rewritten
    assert any(repeated), "no reply is said twice"


@pytest.mark.parametrize("name", ALL)
def test_what_is_compared_moves_the_policy(name: str) -> None:
    run = begin(ALL[name], CASES[-1], updates=1)
    assert run.expected(run.ready).gradient.abs().max() > 1e-6
