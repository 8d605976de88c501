"""Whole episodes by experts: what the checks of an environment are made of."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gnomon.envs import offers
from gnomon.envs.base import Env, Episode, SingleTurn, Step
from gnomon.envs.turns import MultiTurn, Playing
from gnomon.keys import Key
from gnomon.types import Message, Status, Task, Verdict

__all__ = [
    "Fault",
    "Played",
    "Skip",
    "at",
    "expert",
    "interrupted",
    "judge",
    "lines",
    "played",
    "replies",
    "slot",
    "turns",
    "well",
]

KEY = Key(0).at("check")


class Fault(Exception):
    """A promise that the environment does not keep; the message says how, for its author."""

    def __init__(self, detail: str, where: str = "") -> None:
        super().__init__(detail)
        self.where = where


class Skip(Exception):
    """The check does not concern this environment; the message says why."""


@dataclass(frozen=True, slots=True)
class Played:
    """A whole episode: what was said on both sides, and a verdict for every player."""

    opening: tuple[Message, ...]
    replies: tuple[str, ...]
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...]


def played(env: Env, task: Task, say: Callable[[Episode, int], str], key: Key = KEY) -> Played:
    """The episode in which every player's reply is `say` of the episode and the turn; held to what a step may be."""
    episode = env.start(task, key)
    opening, player, told = episode.messages, 0, {0}
    replies: list[str] = []
    steps: list[Step] = []
    try:
        while not steps or not steps[-1].done:
            if len(steps) == env.max_turns:
                raise Fault(f"the episode is not over after max_turns = {env.max_turns} replies")
            replies.append(say(episode, len(steps)))
            steps.append(episode.step(replies[-1]))
            player = steps[-1].player
            if not steps[-1].done and player not in told and not steps[-1].messages:
                raise Fault(f"player {player} must act and got no observation")
            told.add(player)
    finally:
        episode.close()
    return Played(opening, tuple(replies), tuple(steps), verdicts_of(env, steps[-1], len(told)))


def verdicts_of(env: Env, step: Step, players: int) -> tuple[Verdict, ...]:
    """The verdicts that end an episode, one per player, in range."""
    verdicts = step.verdicts or (step.verdict,)
    if len(verdicts) < players:
        raise Fault(f"the episode has {players} players and {len(verdicts)} verdicts")
    low, high = env.reward_range
    for verdict in verdicts:
        if not isinstance(verdict, Verdict):
            raise Fault(f"the episode ends with {verdict!r} instead of a verdict")
        if not (math.isfinite(verdict.reward) and low - 1e-9 <= verdict.reward <= high + 1e-9):
            raise Fault(f"the reward {verdict.reward} is outside reward_range ({low}, {high})")
        if verdict.status is Status.FAILED:
            raise Fault(f"the judge failed: {verdict.detail}")
    return tuple(verdict for verdict in verdicts if verdict is not None)


def judge(env: Env, task: Task, reply: str) -> Verdict:
    """The verdict on player 0 of an episode in which everybody always says `reply`."""
    return played(env, task, lambda episode, turn: reply).verdicts[0]


def interrupted(env: Env, task: Task, reply: str, after: int) -> Verdict:
    """The verdict on a player that plays well for `after` turns of the episode, and from then on says `reply`."""
    speakers = [0]

    def say(episode: Episode, turn: int) -> str:
        return expert(env)(task, episode) if turn < after else reply

    whole = played(env, task, say)
    speakers += [step.player for step in whole.steps]
    return whole.verdicts[speakers[min(after, len(whole.replies) - 1)]]


def expert(env: Env) -> Callable[[Task, Episode], str]:
    """The environment's expert: of a task and the episode, the next reply. Raises: Fault for none."""
    found = offers.expert(env)
    if found is None:
        raise Fault("it has no expert")
    return found


def lines(env: Env, tasks: Sequence[Task], index: int) -> Iterator[Callable[[Episode, int], str]]:
    """Ways to play a task: what is said by constant repliers, by its player, and by one that moves at random."""
    task = tasks[index]
    for reply in replies(env, tasks, index):
        yield lambda episode, turn, reply=reply: reply  # type: ignore[misc]
    if not isinstance(env, SingleTurn) and offers.expert(env) is not None:
        yield lambda episode, turn: expert(env)(task, episode)
    if isinstance(env, MultiTurn):
        for number in range(3):
            rng = KEY.at("legal", index=index, number=number).random()
            yield lambda episode, turn, rng=rng: legal(episode, rng)  # type: ignore[misc]
        yield slow(env, KEY.at("slow", index=index).random())


def slow(env: MultiTurn, rng: random.Random) -> Callable[[Episode, int], str]:
    """Who uses up what each player is forgiven before moving at random."""
    spent: Counter[int] = Counter()

    def say(episode: Episode, turn: int) -> str:
        assert isinstance(episode, Playing)
        player = episode.ask.player
        spent[player] += 1
        return "" if spent[player] <= env.retries else legal(episode, rng)

    return say


def legal(episode: Episode, rng: random.Random) -> str:
    """A legal move drawn at random, in its slot; a word where any text is one."""
    assert isinstance(episode, Playing)
    moves = sorted(episode.ask.legal or ("word",))
    return slot(rng.choice(moves))


def replies(env: Env, tasks: Sequence[Task], index: int) -> tuple[str, ...]:
    """A right, a wrong and an empty reply to a task, as far as the environment can tell us."""
    if not isinstance(env, SingleTurn):
        return "", "one two three", slot("one two three")
    return slot(env.solution(tasks[index]), env), slot(env.solution(tasks[index - 1]), env), ""


def turns(env: Env, task: Task) -> int:
    """How many turns there are to interrupt: all that the expert makes, where there is one."""
    return 1 if isinstance(env, SingleTurn) or offers.expert(env) is None else len(well(env, task).replies)


def well(env: Env, task: Task) -> Played:
    """The episode of the expert, in every player."""
    return played(env, task, lambda episode, turn: expert(env)(task, episode))


def at(index: int, split: str = "train") -> str:
    return f"{split} task {index}"


def slot(answer: str, env: Env | None = None) -> str:
    """A reply with this answer in its slot; of no environment, in the one that most have."""
    return env.framed(answer) if isinstance(env, SingleTurn) else f"<answer>{answer}</answer>"
