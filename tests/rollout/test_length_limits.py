"""A reply has a length limit, and a rollout of several turns another one: what each of them decides."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnomon.api import configure
from gnomon.engines.scripted import Scripted
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Tokens, across_players, less_overlong, objective, soft_overlong
from gnomon.objectives.aggregate import constant
from gnomon.rollout import Actor, Limits, pack
from gnomon.run.parts import build
from gnomon.types import Finish, Group, Sampling, Stop
from rollout.ladder import Ladder
from rollout.scripts import by_sample

TOKENIZER = Tokenizer(model_folder("tiny"))
LIMIT, BUFFER = 5, 2
SAMPLING = Sampling(max_tokens=LIMIT)
LONG = "up and up and up"
CASES = [(turns, players) for turns in (1, 2, 3) for players in (1, 2)]


class Started(dict[Ladder, EnvWorkers]):
    """One process for each of the environments that the cases below have in common."""

    def __missing__(self, env: Ladder) -> EnvWorkers:
        self[env] = EnvWorkers(env, workers=1, retries=0)
        return self[env]


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for workers in made.values():
        workers.close()


def played(
    started: Started, turns: int, players: int, *, at: int | None = None, limits: Limits | None = None
) -> tuple[Batch, list[Group]]:
    """Two tasks, three rollouts each, `turns` replies per player. Args: at, the turn in which rollout 1 is too long."""
    env = Ladder(rungs=turns * players, players=players)
    engine = Scripted(TOKENIZER, by_sample(lambda *place: LONG if place == (0, 1, at) else "up"))
    actor = Actor(env, TOKENIZER, engine, group=3, sampling=SAMPLING, workers=started[env], limits=limits)
    groups = asyncio.run(actor.collect(list(enumerate(env.tasks("train")[:2])), Key(0)))
    batch = pack(groups, sampling=SAMPLING, exact=True, limit=actor.longest)
    return batch, groups


def penalties(batch: Batch) -> list[list[float]]:
    """What the shaping takes from every reward, read off a row whose credit is the reward."""
    row = objective("reinforce")
    shaped = replace(row, credit=less_overlong(row.credit, max_tokens=LIMIT, buffer=BUFFER))
    apart: Tensor = shaped.credits(batch.rollouts) - row.credits(batch.rollouts)
    starts = torch.cumsum(batch.rollouts.lengths.flatten(), 0) - batch.rollouts.lengths.flatten()
    return apart[starts].reshape(batch.rollouts.rewards.shape).tolist()


def test_a_word_is_short_and_a_sentence_is_too_long():
    assert len(TOKENIZER.encode("up")) <= LIMIT - BUFFER < LIMIT < len(TOKENIZER.encode(LONG))


@pytest.mark.parametrize(("turns", "players"), CASES)
def test_replies_that_end_in_time_cost_nothing_however_many(started, turns, players):
    batch, groups = played(started, turns, players)
    assert all(rollout.verdict and rollout.stop is Stop.DONE for group in groups for rollout in group.rollouts)
    assert {len(rollout.turns) for group in groups for rollout in group.rollouts} == {turns}
    if turns == 3:
        assert int(batch.rollouts.lengths.max()) > LIMIT  # Their sum is past the limit of a reply.
    assert penalties(batch) == [[0.0] * 3] * (2 * players)


@pytest.mark.parametrize(("turns", "players"), CASES)
def test_a_reply_that_was_cut_costs_its_rollout_one_in_whichever_turn(started, turns, players):
    for at in range(turns * players):
        batch, groups = played(started, turns, players, at=at)
        player = at % players
        expected = [[0.0, -1.0 if place == player else 0.0, 0.0] for place in range(players)] + [[0.0] * 3] * players
        assert penalties(batch) == expected
        cut = groups[player].rollouts[1]
        assert [turn.completion.finish for turn in cut.turns].count(Finish.LENGTH) == 1


@pytest.mark.parametrize(("turns", "players"), CASES)
def test_the_longest_reply_of_a_rollout_is_known_to_credit(started, turns, players):
    batch, groups = played(started, turns, players)
    by_hand = [[max(len(t.completion.token_ids) for t in r.turns) for r in group.rollouts] for group in groups]
    assert batch.rollouts.longest is not None and batch.rollouts.longest.tolist() == by_hand
    merged = across_players(batch.rollouts)
    assert merged.longest is not None and merged.longest.shape == merged.rewards.shape
    assert merged.longest.flatten().tolist() == batch.rollouts.longest.flatten().tolist()


def test_of_one_turn_the_penalty_is_the_papers(started):
    batch, _ = played(started, 1, 1, at=0)
    expected = soft_overlong(batch.rollouts.lengths, max_tokens=LIMIT, buffer=BUFFER)
    assert penalties(batch) == expected.tolist() and float(expected.min()) == -1.0


def test_a_reply_that_the_end_of_the_context_cut_counts_as_cut(started):
    """It has fewer tokens than a reply may have."""
    prompt = len(TOKENIZER.encode("Climb 0.\n"))
    batch, groups = played(started, 1, 1, limits=Limits(context=prompt + 1))
    first = groups[0].rollouts[0]
    assert first.turns[0].completion.finish is Finish.LENGTH and first.tokens == 1 < LIMIT - BUFFER
    assert penalties(batch) == [[-1.0] * 3] * 2


def test_a_conversation_without_room_did_not_end_by_itself(started):
    prompt = len(TOKENIZER.encode("Climb 0.\n"))
    batch, groups = played(started, 3, 1, limits=Limits(context=prompt + 2))
    assert {rollout.stop for group in groups for rollout in group.rollouts} == {Stop.CONTEXT}
    assert batch.rollouts.finished is not None and not bool(batch.rollouts.finished.any())


@pytest.mark.parametrize(("turns", "players"), CASES)
@pytest.mark.parametrize(
    ("limits", "longest"),
    [(Limits(), 8 * LIMIT), (Limits(turns=3), 3 * LIMIT), (Limits(turns=99), 8 * LIMIT), (Limits(context=30), 30)],
)
def test_the_limit_of_a_rollout_is_that_of_all_its_replies_within_the_context(started, turns, players, limits, longest):
    """The environment allows 8 replies. The limit is the same whatever was said, and no rollout is longer."""
    for at in (None, 0):
        batch, _ = played(started, turns, players, at=at, limits=limits)
        assert batch.denominators.max_tokens == longest >= int(batch.rollouts.lengths.max())


@pytest.mark.parametrize(("turns", "players"), CASES)
def test_a_constant_divisor_weighs_no_rollout_more_than_one_of_a_mean(started, turns, players):
    """Of `constant`: 1/S at most, over all tokens of a rollout."""
    batch, _ = played(started, turns, players)
    sequence = batch.rollouts.sequence
    zeros = torch.zeros(len(sequence))
    tokens = Tokens(logp=zeros, behavior_logp=zeros, advantage=zeros, sequence=sequence, group=sequence // 3)
    total = torch.zeros(batch.denominators.sequences).index_add(0, sequence, constant(tokens, batch.denominators))
    assert 0 < float(total.max()) * batch.denominators.sequences <= 1


@pytest.mark.parametrize("env", ["guess_number", "nim", "char_count"])
@pytest.mark.parametrize("baseline", ["player", "shared"])
def test_dapos_recipe_shapes_every_reply_by_its_own_limit(env, baseline):
    """From the settings on: what the row credits is what it credits without shaping, of rewards shaped by hand."""
    size = 24
    settings = {
        "objective": "dapo",
        "rollout": {"prompts": 4, "group": 4, "max_tokens": size, "refill": 0},
        "players": {"baseline": baseline},
        "threads": 1,
    }
    parts = build(configure(env, settings)[0])
    tasks = [(index, parts.env.tasks("train")[index]) for index in range(4)]
    groups = asyncio.run(parts.actor.collect(tasks, Key(0).at("test")))
    parts.actor.workers.close()
    batch = pack(groups, sampling=parts.actor.sampling, exact=False, limit=parts.actor.longest)
    lost = torch.tensor([[worst(rollout, size) for rollout in group.rollouts] for group in groups])
    by_hand = replace(batch.rollouts, rewards=batch.rollouts.rewards + lost)
    whole = batch.rollouts
    if baseline == "shared":
        whole, by_hand = across_players(whole), across_players(by_hand)
    assert torch.equal(parts.objective.credits(whole), objective("dapo").credits(by_hand))
    turns = parts.env.max_turns
    assert batch.denominators.max_tokens == min(turns * size, 4096)


def worst(rollout, size: int) -> float:
    """0 up to 80 % of the limit, −1 at the limit or where the reply was cut, straight between; of the worst reply."""
    buffer, found = round(0.2 * size), 0.0
    for turn in rollout.turns:
        length = size if turn.completion.finish is Finish.LENGTH else len(turn.completion.token_ids)
        found = min(found, max(-1.0, min(0.0, (size - buffer - length) / buffer)))
    return found
