"""What holds of every environment of several turns: the rule for illegal moves, players, payment, replay."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from gnomon.envs import ENVS, Ask, GuessNumber, KuhnPoker, MultiTurn, Nim, Play, identity
from gnomon.envs.base import SLOT, Step, user
from gnomon.envs.turns import Playing
from gnomon.keys import Key
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Strictness

KEY = Key(3)


def said(answer: object) -> str:
    return f"<answer>{answer}</answer>"


def opened(env: MultiTurn, index: int = 0) -> tuple[Task, Playing]:
    task = env.tasks("train")[index]
    return task, env.start(task, KEY)


def verdict_of(step: Step) -> Verdict:
    assert step.done and step.verdict is not None and not step.verdicts
    return step.verdict


# Illegal moves


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("", Status.NO_ANSWER),
        ("10", Status.NO_ANSWER),
        (said(""), Status.NO_ANSWER),
        (said(1) + said(2), Status.SEVERAL),
        (said(1) + " I think", Status.OUT_OF_PLACE),
        (said("21"), Status.REJECTED),
        (said("ten"), Status.REJECTED),
    ],
)
def test_a_reply_without_a_legal_move_is_forgiven_once_and_then_ends_the_episode(reply: str, status: Status) -> None:
    _, episode = opened(GuessNumber())
    asked = episode.ask
    first = episode.step(reply)
    assert not first.done and first.messages[0].content == "No legal move." and episode.ask is asked
    verdict = verdict_of(episode.step(reply))
    assert verdict.status is status and verdict.reward == 0 and verdict.detail
    if verdict.extracted is not None:
        assert verdict.span is not None and reply[slice(*verdict.span)] == verdict.extracted
    with pytest.raises(ValueError, match="is over"):
        episode.step(said(1))


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_as_many_are_forgiven_as_the_environment_says(retries: int) -> None:
    env = GuessNumber(retries=retries, largest=20, guesses=5)
    task, episode = opened(env)
    for _ in range(retries):
        assert not episode.step("").done
    if retries:
        assert verdict_of(episode.step(said(task.answer))).correct
    else:
        assert verdict_of(episode.step("")).status is Status.NO_ANSWER
    assert env.max_turns == 5 + retries


def test_a_forgiven_reply_does_not_cost_a_guess() -> None:
    env = GuessNumber(largest=1000, guesses=2)
    task, episode = opened(env)
    wrong = said(task.answer % 1000 + 1)
    steps = [episode.step(reply) for reply in (wrong, "", wrong)]
    assert [step.done for step in steps] == [False, False, True] and verdict_of(steps[-1]).status is Status.WRONG


def test_few_legal_moves_are_listed_and_many_are_not() -> None:
    _, kuhn = opened(KuhnPoker())
    assert kuhn.step(said("raise")).messages[0].content == "No legal move. Legal: pass, bet"
    assert kuhn.step(said("BET")).player == 1, "case does not matter"


def test_each_player_is_forgiven_by_itself_and_who_breaks_the_rule_loses() -> None:
    _, episode = opened(KuhnPoker())
    assert episode.step("").player == 0
    assert episode.step(said("pass")).player == 1
    again = episode.step(said("fold"))
    assert (again.player, again.done) == (1, False)
    end = episode.step(said("fold"))
    assert end.verdict is None
    first, second = end.verdicts
    assert (first.status, first.reward, first.detail) == (Status.CORRECT, 2.0, "player 1 made no legal move")
    assert (second.status, second.reward, second.extracted) == (Status.REJECTED, -2.0, "fold")


def test_options_that_mean_nothing_are_refused_at_once() -> None:
    for options in ({"retries": -1}, {"speed": -0.1}, {"strictness": "loose"}):
        with pytest.raises(ValueError, match=r"retries|loose"):
            GuessNumber(**options)  # type: ignore[arg-type]
    spelled: Strictness = "last"  # type: ignore[assignment]
    task, episode = opened(GuessNumber(strictness=spelled))
    assert verdict_of(episode.step(f"{said(21)} {said(task.answer)}")).correct


# Payment


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_speed_is_paid_under_success_alone_and_falls_to_nothing(turns: int) -> None:
    env = GuessNumber(largest=1000, guesses=2, speed=0.5)
    task, episode = opened(env)
    wrong = said(task.answer % 1000 + 1)
    replies = [*[wrong, ""][: turns - 1], said(task.answer)]
    verdict = verdict_of([episode.step(reply) for reply in replies][-1])
    assert verdict.correct and verdict.reward == 1 + 0.5 * (3 - turns) / 2
    assert [(part.name, part.gate) for part in verdict.parts] == [("solved", None), ("speed", "solved")]
    assert env.reward_range == (0.0, 1.5)
    _, other = opened(env)
    other.step(wrong)
    assert verdict_of(other.step(wrong)).reward == 0, "failing fast earns nothing"


@dataclass(frozen=True, kw_only=True)
class Odd(MultiTurn):
    """A play that does what it is told to."""

    how: str

    def make(self, rng: random.Random) -> Task:
        return Task(id=identity(rng.random()), messages=user(f"Go. {SLOT}"), answer=rng.random())

    def play(self, task: Task, rng: random.Random) -> Play:
        if self.how == "second first":
            yield Ask(player=1)
        text = yield Ask(text=f"{rng.random()}")
        if self.how == "two payoffs":
            return [1.0, 0.0]
        if self.how in ("a number", "nothing"):
            return 0.7 if self.how == "a number" else None  # type: ignore[return-value]
        return [Verdict(status=Status.CORRECT, parts=(Part(name=text or "nothing", value=0.25),))]

    @property
    def moves(self) -> int:
        return 1


def test_a_play_may_give_a_verdict_of_its_own_and_take_any_reply() -> None:
    for reply, name in ((said("Any Text"), "Any Text"), ("no slot", "nothing")):
        _, episode = opened(Odd(how=""))
        verdict = verdict_of(episode.step(reply))
        assert verdict.reward == 0.25 and verdict.parts[0].name == name


def test_mistakes_of_an_author_are_errors() -> None:
    with pytest.raises(ValueError, match="player 1 first"):
        opened(Odd(how="second first"))
    _, episode = opened(Odd(how="two payoffs"))
    with pytest.raises(ValueError, match=r"2 payoffs for 1 player"):
        episode.step(said(1))
    for how, said_of_it in (("a number", "returned 0.7; .* in a list"), ("nothing", "returned None; .* `return`")):
        _, episode = opened(Odd(how=how))
        with pytest.raises(TypeError, match=said_of_it):
            episode.step(said(1))
    with pytest.raises(NotImplementedError, match="does not define `best`"):
        Odd(how="").expert(*opened(Odd(how="")))


# Replay

SEVERAL: dict[str, Any] = {name: kind for name, kind in ENVS.items() if issubclass(kind, MultiTurn)}


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_an_episode_is_played_again_from_what_was_said_beside_others(name: str) -> None:
    """Two episodes of one task, their replies interleaved, go as each does alone."""
    env = SEVERAL[name]()
    task, alone = opened(env)
    replies, steps = [], []
    while not steps or not steps[-1].done:
        replies.append(env.expert(task, alone))
        steps.append(alone.step(replies[-1]))
    one, two = env.start(task, KEY), env.start(task, KEY)
    assert one.messages == two.messages == alone.messages
    for reply, step in zip(replies, steps, strict=True):
        assert one.step(reply) == two.step(reply) == step
    half = env.start(task, KEY)
    half.step(replies[0])
    half.close()
    half.close()


def test_the_draws_of_an_episode_come_from_its_key() -> None:
    task = Odd(how="").tasks("train")[0]
    texts = [Odd(how="").start(task, key).messages[-1].content for key in (KEY, KEY, Key(4))]
    assert texts[0] == texts[1] != texts[2]


def test_a_player_hears_all_that_it_has_not_been_told_and_nothing_twice() -> None:
    _, episode = opened(Nim(heaps=(2,)))
    told: dict[int, list[str]] = {0: [m.content for m in episode.messages], 1: []}
    player, done = 0, False
    while not done:
        step = episode.step(said(f"{max(episode.ask.state)} 1"))
        player, done = step.player, step.done
        told[player] += [m.content for m in step.messages]
    for said_to in told.values():
        assert said_to and len(said_to) == len(set(said_to)), "every position comes once, and is told"
