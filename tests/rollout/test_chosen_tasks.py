"""Which tasks of a step are trained on where several sit: whole tasks, and as many as were planned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest

from gnomon.engines.scripted import Scripted
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import objective
from gnomon.rollout import Actor, Limits, pack
from gnomon.rollout.failures import judged_groups
from gnomon.rollout.select import Candidates, Refill, Selector, mixed, of_tasks, predictive_entropy, with_spares
from gnomon.types import Group, Sampling, Status, Task, Verdict
from rollout.bets import Bets
from rollout.ladder import Ladder
from rollout.scripts import by_sample

TOKENIZER = Tokenizer(model_folder("tiny"))
SAMPLING = Sampling(max_tokens=8)
PLANNED, GROUP = 4, 4
PLAYERS = (1, 2, 3)
Kind = Callable[..., Selector]
Reply = Callable[[str, bytes], str]


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


halves = by_sample(lambda task, sample, turn: "up" if sample % 2 else "down")
"""Half of a group wins, with every player."""


def by_player(players: int) -> Reply:
    """The first player always wins and the others never do: no player has anything to compare within itself."""
    return by_sample(lambda task, sample, turn: "up" if turn % players == 0 else "down")


def collected(started: Started, kind: Kind, env: Bets, reply: Reply, **options: object) -> list[Group]:
    actor = Actor(
        env,
        TOKENIZER,
        Scripted(TOKENIZER, reply),
        group=GROUP,
        sampling=SAMPLING,
        workers=started[env],
        limits=Limits(failures=1.0),  # An environment that breaks on purpose may go on.
        selector=kind(offered=env.tasks("train"), among=range(16), **options),
    )
    tasks = [(index, env.tasks("train")[index]) for index in range(PLANNED)]
    return asyncio.run(actor.collect(tasks, Key(0)))


def whole(groups: list[Group], players: int) -> list[int]:
    """Indices of the tasks that are trained on; each is in all its players, or in none."""
    for task in of_tasks(groups):
        assert [group.rollouts[0].player for group in task] == list(range(players))
        assert len({group.spare for group in task}) == 1
    return [task[0].index for task in of_tasks(groups) if not task[0].spare]


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_refilling_trains_whole_tasks_as_many_as_planned(started, players, shared, rounds):
    """Tasks 0 and 3 of the planned four teach nothing; a round replaces them by those that do, if it draws such."""
    groups = collected(started, Refill, Bets(players=players), halves, rounds=rounds, shared=shared)
    trained = whole(groups, players)
    assert len(trained) == PLANNED
    assert (rounds == 0) == (len(of_tasks(groups)) == PLANNED)
    teaching = [task[0].index for task in of_tasks(groups) if task[0].index % 3]
    assert set(trained) >= set(teaching[:PLANNED])
    if rounds == 3:
        assert trained == teaching[:PLANNED]
    batch = pack(judged_groups(groups), sampling=SAMPLING, exact=False)
    assert batch.denominators.groups == PLANNED * players
    assert batch.denominators.sequences == PLANNED * players * GROUP
    ready = Crediting(objective("rloo"), shared=shared)(batch, LocalLearner(Policy.load("tiny")))
    assert ready.rollouts.rewards.shape == ((PLANNED, players * GROUP) if shared else (PLANNED * players, GROUP))
    assert len(ready.rollout[ready.advantage != 0].unique()) == players * GROUP * sum(
        index % 3 > 0 for index in trained
    )


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("candidates", [1, 2, 3])
def test_candidates_train_whole_tasks_as_many_as_planned(started, players, shared, candidates):
    groups = collected(started, Candidates, Bets(players=players), halves, candidates=candidates)
    assert len(of_tasks(groups)) == candidates * PLANNED
    assert len(whole(groups, players)) == PLANNED
    batch = pack(judged_groups(groups), sampling=SAMPLING, exact=False)
    assert batch.denominators.groups == PLANNED * players
    ready = Crediting(objective("rloo"), shared=shared)(batch, LocalLearner(Policy.load("tiny")))
    assert ready.rollouts.rewards.shape == ((PLANNED, players * GROUP) if shared else (PLANNED * players, GROUP))


@pytest.mark.parametrize("players", [2, 3])
def test_what_a_shared_baseline_compares_decides_which_tasks_teach(started, players):
    """One player always wins: within a player there is nothing to compare, across the players there is."""
    for shared in (False, True):
        groups = collected(started, Refill, Bets(players=players), by_player(players), rounds=1, shared=shared)
        assert not any(mixed(group.rollouts) for group in groups)
        met = [task[0].index for task in of_tasks(groups)]
        missing = sum(index % 3 == 0 for index in met[:PLANNED]) if shared else PLANNED
        assert len(met) == PLANNED + missing
        assert len(whole(groups, players)) == PLANNED


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize(("kind", "options"), [(Refill, {"rounds": 3}), (Candidates, {"candidates": 3})])
def test_a_task_that_could_not_be_judged_is_replaced(started, players, kind, options):
    """Task 0 is one of the four; it is not trained on while another was sampled."""
    groups = collected(started, kind, Bets(players=players, failing=True), halves, **options)
    assert any(not group.judged for group in groups)
    trained = whole(groups, players)
    assert len(trained) == PLANNED and not any(index % 5 == 0 for index in trained)
    assert pack(judged_groups(groups), sampling=SAMPLING, exact=False).denominators.groups == PLANNED * players


def test_the_worthiest_tasks_are_chosen_and_the_first_of_equals():
    groups = [
        Group(task=Task(id=str(i), messages=(), answer=None), index=i, rollouts=rollouts(i, player, i != 7))
        for i in (3, 7, 1, 5)
        for player in (0, 1)
    ]
    worth = {3: 1.0, 7: 9.0, 1: 2.0, 5: 1.0}
    for count, expected in ((1, [1]), (2, [3, 1]), (3, [3, 1, 5]), (4, [3, 7, 1, 5])):
        found = with_spares(groups, count, lambda task: worth[task[0].index])
        assert [
            index for index, part in groupby(found, lambda g: g.index) if not any(g.spare for g in part)
        ] == expected
        assert [group.rollouts for group in found] == [group.rollouts for group in groups]


def rollouts(index: int, player: int, good: bool):
    from gnomon.types import Rollout, Stop

    status = Status.CORRECT if good else Status.FAILED
    task = Task(id=str(index), messages=(), answer=None)
    verdict = Verdict(status=status, parts=())
    return (Rollout(task=task, sample=player, turns=(), verdict=verdict, stop=Stop.DONE, player=player),)


def test_the_entropy_of_a_task_is_that_of_a_reply_in_any_of_its_players(started):
    groups = collected(started, Candidates, Bets(players=2), halves, candidates=1)
    assert predictive_entropy(of_tasks(groups)[0]) == 0.0  # A script is certain of every token.
