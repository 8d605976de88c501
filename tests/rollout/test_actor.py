"""Episodes of several turns and players; faults that the policy causes, and faults of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gnomon.engines.scripted import Scripted
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import VerifierError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import joined
from gnomon.rollout import Actor, Limits
from gnomon.rollout.failures import Failures, judged_groups
from gnomon.rollout.speakers import Own
from gnomon.types import Group, Rollout, Sampling, Status, Stop
from rollout.ladder import Ladder
from rollout.scripts import by_sample

TOKENIZER = Tokenizer(model_folder("tiny"))
SAMPLING = Sampling(max_tokens=16)
Reply = Callable[[str, bytes], str]


@contextmanager
def acting(env: Ladder, reply: Reply, *, limits: Limits | None = None, group: int = 4) -> Iterator[Actor]:
    """An actor whose policy says what `reply` makes of the prompt and of the request's key."""
    workers = EnvWorkers(env, workers=2, seconds=0.3, memory=2**29)
    actor = Actor(
        env, TOKENIZER, Scripted(TOKENIZER, reply), group=group, sampling=SAMPLING, workers=workers, limits=limits
    )
    try:
        yield actor
    finally:
        workers.close()


def collect(env: Ladder, reply: Reply, *, limits: Limits | None = None, group: int = 4, tasks: int = 3) -> list[Group]:
    with acting(env, reply, limits=limits, group=group) as actor:
        return asyncio.run(actor.collect(list(enumerate(env.tasks("train")[:tasks])), Key(0)))


def climbing(word: str, task: int, sample: int, turn: int = 1) -> Reply:
    """Always "up"; but one word in one turn of one episode."""
    return by_sample(lambda *place: word if place == (task, sample, turn - 1) else "up")


def rollouts(groups: list[Group]) -> list[Rollout]:
    return [rollout for group in groups for rollout in group.rollouts]


def test_every_turn_goes_on_from_the_tokens_of_the_turn_before():
    (group, *_) = collect(Ladder(rungs=3), lambda prompt, key: "up")
    for rollout in group.rollouts:
        assert len(rollout.turns) == 3 and rollout.verdict.correct and rollout.stop is Stop.DONE
        assert rollout.turns[0].messages == group.task.messages
        for before, after in pairwise(rollout.turns):
            told = TOKENIZER.encode(f"\n{after.messages[0].content}\n")
            assert after.prompt_ids == before.prompt_ids + before.completion.token_ids + told
            assert joined(after.segments) == told
            assert [segment.origin.value for segment in after.segments] == ["template", "environment", "template"]
    luck = {rollout.turns[1].messages[0].content for rollout in group.rollouts}
    assert len(luck) == 4, "every episode has chance of its own"


def test_a_rollout_that_was_tokenised_anew_is_none():
    (group, *_) = collect(Ladder(), lambda prompt, key: "up")
    rollout = group.rollouts[0]
    first, second = rollout.turns
    with pytest.raises(ValueError, match="does not continue"):
        replace(rollout, turns=(first, replace(second, prompt_ids=second.prompt_ids[1:])))


def test_every_player_has_a_conversation_and_a_group_of_its_own():
    groups = collect(Ladder(rungs=3, players=2), lambda prompt, key: "up", tasks=2)
    assert [(group.index, group.rollouts[0].player) for group in groups] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    winner, loser = groups[:2]
    assert [rollout.reward for rollout in winner.rollouts] == [1.0] * 4
    assert [rollout.reward for rollout in loser.rollouts] == [-1.0] * 4
    assert [len(rollout.turns) for rollout in (winner.rollouts[0], loser.rollouts[0])] == [2, 1]
    assert "another" in TOKENIZER.decode(loser.rollouts[0].turns[0].prompt_ids)
    assert "another" not in TOKENIZER.decode(winner.rollouts[0].turns[-1].prompt_ids)
    assert [rollout.sample for group in groups[:2] for rollout in group.rollouts] == list(range(8))


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize(
    ("word", "status"),
    [("spin", "exceeded"), ("eat", "exceeded"), ("crash", "failed"), ("leave", "failed"), ("raise", "failed")],
)
def test_what_one_reply_does_is_counted_under_its_name_and_the_rest_goes_on(word: str, status: str, turn: int):
    groups = collect(Ladder(rungs=3), climbing(word, 1, 1, turn))
    ended = [rollout for rollout in rollouts(groups) if not rollout.verdict.correct]
    assert [(rollout.task.answer, rollout.sample) for rollout in ended] == [(1, 1)]
    (rollout,) = ended
    assert rollout.verdict.status.value == rollout.stop.value == status and len(rollout.turns) == turn
    assert rollout.reward == -1.0 if status == "exceeded" else rollout.verdict.parts == ()
    kept = judged_groups(groups)
    assert [group.index for group in kept] == ([0, 1, 2] if status == "exceeded" else [0, 2])
    assert all(len(rollout.turns) == 3 for rollout in rollouts(kept) if rollout is not ended[0])
    again = collect(Ladder(rungs=3), climbing(word, 1, 1, turn))
    assert [group.rewards for group in again] == [group.rewards for group in groups]


def test_a_process_that_dies_once_loses_nothing(tmp_path: Path):
    """The episodes it held are played again from what was said, by another."""
    slipped = collect(Ladder(rungs=3, slip=str(tmp_path)), climbing("slip", 1, 1, 2))
    assert (tmp_path / "slipped").exists()
    never = collect(Ladder(rungs=3, slip=str(tmp_path)), climbing("slip", 1, 1, 2))
    assert rollouts(slipped) == rollouts(never)
    assert all(rollout.verdict.status is Status.CORRECT for rollout in rollouts(slipped))


def test_an_environment_that_hangs_is_ended_by_the_clock():
    env = Ladder(seconds=60.0)
    workers = EnvWorkers(env, workers=2, seconds=0.05)
    engine = Scripted(TOKENIZER, lambda prompt, key: "up")
    actor = Actor(env, TOKENIZER, engine, group=1, sampling=SAMPLING, workers=workers)
    (group,) = asyncio.run(actor.collect([(0, env.tasks("train")[0])], Key(0)))
    workers.close()
    assert group.rollouts[0].stop is Stop.EXCEEDED and "time" in group.rollouts[0].verdict.detail


@pytest.mark.parametrize(
    ("limits", "stop", "turns"),
    [
        (Limits(turns=2), Stop.TURNS, 2),
        (Limits(context=20), Stop.CONTEXT, 1),
        (Limits(seconds=1e-9), Stop.TIME, 0),
    ],
)
def test_a_budget_that_is_used_up_ends_the_episode_at_the_lowest_reward(limits: Limits, stop: Stop, turns: int):
    found = rollouts(collect(Ladder(rungs=9), lambda prompt, key: "up", limits=limits))
    assert {(rollout.stop, len(rollout.turns), rollout.reward) for rollout in found} == {(stop, turns, -1.0)}
    assert {rollout.verdict.status for rollout in found} == {Status.EXCEEDED}


def test_the_time_that_an_episode_waits_for_the_others_counts():
    class Uneven(Scripted):
        """Its first reply takes a second, and the next round waits for it."""

        mixes, slow = True, True

        async def sample(self, request):  # type: ignore[no-untyped-def]
            seconds, self.slow = float(self.slow), False
            await asyncio.sleep(seconds)
            return await super().sample(request)

    env = Ladder(rungs=9)
    with acting(env, lambda prompt, key: "up", limits=Limits(seconds=0.5)) as actor:
        tasks = list(enumerate(env.tasks("train")[:2]))
        asyncio.run(actor.collect(tasks, Key(0)))  # Starts the workers, which takes time too.
        actor.engine = Uneven(TOKENIZER, lambda prompt, key: "up")
        actor.speakers = Own(actor.engine, actor.renderer)
        found = rollouts(asyncio.run(actor.collect(tasks, Key(1))))
    assert {rollout.stop for rollout in found} == {Stop.TIME} and max(len(rollout.turns) for rollout in found) <= 1


def test_the_room_that_is_left_limits_the_last_completion():
    env = Ladder(rungs=9)
    (group, *_) = collect(env, lambda prompt, key: "up up up up up up up", limits=Limits(context=12))
    (turn,) = group.rollouts[0].turns
    assert len(turn.prompt_ids) + len(turn.completion.token_ids) == 12


def test_too_much_failure_of_our_own_stops_the_run_with_the_reply_and_the_trace():
    with pytest.raises(VerifierError, match="E104") as caught:
        collect(Ladder(rungs=1), by_sample(lambda task, sample, turn: "raise" if sample % 2 else "up"))
    assert "'raise'" in str(caught.value) and "a rung is missing" in str(caught.value)
    assert "6 of 12 rollouts" in str(caught.value)


def test_a_failure_with_a_fix_of_its_own_is_told_with_it():
    """The judge's server is down: no line of the verifier is to be changed."""
    error = VerifierError("E115", "the judge model did not answer", fix="check that the server runs")
    rollout = rollouts(collect(Ladder(rungs=1), climbing("raise", 0, 0), tasks=1))[0]
    failed = replace(rollout, verdict=replace(rollout.verdict, detail=f"Traceback …\nVerifierError: {error}"))
    with pytest.raises(VerifierError, match="E104") as caught:
        Failures("Judged", 0.0).count(4, [(0, failed)] * 4)
    assert caught.value.fix == "check that the server runs"


def test_a_step_that_cannot_be_judged_at_all_is_an_error():
    groups = collect(Ladder(), climbing("raise", 0, 0), tasks=1)
    with pytest.raises(VerifierError, match="E106"):
        judged_groups(groups)


def test_an_engine_that_raises_leaves_the_workers_fit_for_the_next_call():
    class Broken(Scripted):
        async def sample(self, request):  # type: ignore[no-untyped-def]
            raise RuntimeError("the engine broke")

    env = Ladder()
    with acting(env, lambda prompt, key: "up") as actor:
        tasks = list(enumerate(env.tasks("train")[:2]))
        good = actor.speakers
        actor.speakers = Own(Broken(TOKENIZER, lambda prompt, key: ""), actor.renderer)
        with pytest.raises(RuntimeError, match="the engine broke"):
            asyncio.run(actor.collect(tasks, Key(0)))
        actor.speakers = good
        assert all(rollout.verdict.correct for rollout in rollouts(asyncio.run(actor.collect(tasks, Key(0)))))
