"""Play whole episodes with scripted players, for the checks of an environment."""

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
    "interrupt",
    "judge",
    "lines",
    "play",
    "replies",
    "slot",
    "turns",
    "well",
]

KEY = Key(0).at("check")


class Fault(Exception):
    """The environment violates a requirement. The message tells its author how."""

    def __init__(self, detail: str, where: str = "") -> None:
        super().__init__(detail)
        self.where = where


class Skip(Exception):
    """The check does not apply to this environment. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Played:
    """A whole episode: completions, observations, and a verdict for every player."""

    opening: tuple[Message, ...]
    replies: tuple[str, ...]
    steps: tuple[Step, ...]
    verdicts: tuple[Verdict, ...]


def play(env: Env, task: Task, say: Callable[[Episode, int], str], key: Key = KEY) -> Played:
    """The episode in which every reply is `say(episode, turn)`. Raises: Fault for an invalid step."""
    episode = env.start(task, key)
    opening, player, informed = episode.messages, 0, {0}
    replies: list[str] = []
    steps: list[Step] = []
    try:
        while not steps or not steps[-1].done:
            if len(steps) == env.max_turns:
                raise Fault(f"the episode is not over after max_turns = {env.max_turns} replies")
            replies.append(say(episode, len(steps)))
            steps.append(episode.step(replies[-1]))
            player = steps[-1].player
            if not steps[-1].done and player not in informed and not steps[-1].messages:
                raise Fault(f"player {player} must act and got no observation")
            informed.add(player)
    finally:
        episode.close()
    return Played(opening, tuple(replies), tuple(steps), verdicts_of(env, steps[-1], len(informed)))


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
            raise Fault(f"the verifier failed: {verdict.detail}")
    return tuple(verdict for verdict in verdicts if verdict is not None)


def judge(env: Env, task: Task, reply: str) -> Verdict:
    """The verdict on player 0 of an episode in which every reply is `reply`."""
    return play(env, task, lambda episode, turn: reply).verdicts[0]


def interrupt(env: Env, task: Task, reply: str, after: int) -> Verdict:
    """The verdict on a player that follows the expert for `after` turns and then always replies `reply`."""
    speakers = [0]

    def say(episode: Episode, turn: int) -> str:
        return expert(env)(task, episode) if turn < after else reply

    whole = play(env, task, say)
    speakers += [step.player for step in whole.steps]
    return whole.verdicts[speakers[min(after, len(whole.replies) - 1)]]


def expert(env: Env) -> Callable[[Task, Episode], str]:
    """The environment's expert: (task, episode) to the next reply. Raises: Fault if there is none."""
    player = offers.expert(env)
    if player is None:
        raise Fault("it has no expert")
    return player


def lines(env: Env, tasks: Sequence[Task], index: int) -> Iterator[Callable[[Episode, int], str]]:
    """Yield scripted players for a task: constant repliers, the expert, and random players."""
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
    """A player that uses all its retries on illegal actions, then acts at random."""
    counts: Counter[int] = Counter()

    def say(episode: Episode, turn: int) -> str:
        assert isinstance(episode, Playing)
        player = episode.ask.player
        counts[player] += 1
        return "" if counts[player] <= env.retries else legal(episode, rng)

    return say


def legal(episode: Episode, rng: random.Random) -> str:
    """A random legal action in its slot; a word if any text is legal."""
    assert isinstance(episode, Playing)
    moves = sorted(episode.ask.legal or ("word",))
    return slot(rng.choice(moves))


def replies(env: Env, tasks: Sequence[Task], index: int) -> tuple[str, ...]:
    """A correct, a wrong and an empty reply to a task, if the environment provides them."""
    if not isinstance(env, SingleTurn):
        return "", "one two three", slot("one two three")
    return slot(env.solution(tasks[index]), env), slot(env.solution(tasks[index - 1]), env), ""


def turns(env: Env, task: Task) -> int:
    """Number of turns after which an episode can be interrupted: all turns of the expert, if there is one."""
    return 1 if isinstance(env, SingleTurn) or offers.expert(env) is None else len(well(env, task).replies)


def well(env: Env, task: Task) -> Played:
    """The episode in which the expert plays all players."""
    return play(env, task, lambda episode, turn: expert(env)(task, episode))


def at(index: int, split: str = "train") -> str:
    return f"{split} task {index}"


def slot(answer: str, env: Env | None = None) -> str:
    """A reply with this answer in the environment's slot, or in the default slot."""
    return env.framed(answer) if isinstance(env, SingleTurn) else f"<answer>{answer}</answer>"
