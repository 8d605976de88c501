"""The parts of rewards as credit sees them."""

from __future__ import annotations

from gnomon.objectives import across_players, gdpo
from gnomon.rollout import pack
from gnomon.types import Completion, Finish, Group, Part, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

TASK = Task(id="1", messages=(), answer=None)
TEST, GATED = Part(name="test", value=1.0), Part(name="short", value=0.5, weight=0.2, gate="test")


def group(*parts: tuple[Part, ...], player: int = 0) -> Group:
    reply = Completion(token_ids=(3, 4), logprobs=(-1.0, -1.0), text="ab", finish=Finish.EOS, version=0)
    verdicts = [Verdict(status=Status.WRONG, parts=each) for each in parts]
    turns = (Turn(prompt_ids=(1,), completion=reply),)
    rollouts = tuple(
        Rollout(task=TASK, sample=i, turns=turns, verdict=verdict, stop=Stop.DONE, player=player)
        for i, verdict in enumerate(verdicts)
    )
    return Group(task=TASK, index=0, rollouts=rollouts)


def test_a_part_that_is_missing_or_whose_gate_is_not_met_is_nothing() -> None:
    wrong = Part(name="test", value=0.0)
    groups = [group((TEST, GATED), (wrong, GATED)), group((TEST,), (), player=1)]
    batch = pack(groups, sampling=Sampling(max_tokens=4), exact=True)
    seen = batch.rollouts
    assert seen.parts.tolist() == [[[0.5, 1.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]]
    assert seen.part_weights.tolist() == [[[0.2, 1.0]] * 2] * 2
    assert ((seen.parts * seen.part_weights).sum(2) == seen.rewards).all()
    assert across_players(seen).parts.tolist() == [[[0.5, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]
    assert gdpo().credits(seen).shape == (8,)


def test_rewards_without_parts_have_none() -> None:
    batch = pack([group((), ())], sampling=Sampling(max_tokens=4), exact=True)
    assert batch.rollouts.parts is None and batch.rollouts.part_weights is None
