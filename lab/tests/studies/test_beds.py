"""The beds of studies: simulated duels, and countdowns whose prompts show a solution."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from gnomon.envs import Countdown
from gnomon.keys import Key
from gnomon.types import Status, Task
from gnomon_lab.cut import AskedAgain
from gnomon_lab.duels import CHOICES, REPLIES, SIZE, fit_posterior, share_reached
from gnomon_lab.shown_answers import ShownAnswers, solutions
from gnomon_lab.turns import ShownCodes, ShownGames, ShownGuesses


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_the_posterior_is_at_its_mode_and_has_the_curvature_there() -> None:
    pairs = drawn(40, SIZE)

    def negative_log_posterior(weights: torch.Tensor) -> torch.Tensor:
        return -(pairs @ weights).sigmoid().log().sum() + weights.square().sum() / 2

    mode, spread = fit_posterior(pairs)
    slope = torch.autograd.functional.jacobian(negative_log_posterior, mode)
    curvature = torch.autograd.functional.hessian(negative_log_posterior, mode)
    assert float(slope.abs().max()) < 1e-9 and torch.allclose(curvature @ spread, torch.eye(SIZE, dtype=torch.float64))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_duel_has_two_replies_and_many_duels_teach(choice: str) -> None:
    replies, (mode, spread) = drawn(REPLIES, SIZE), fit_posterior(drawn(5, SIZE))
    first, second = CHOICES[choice](replies, mode, spread, torch.Generator().manual_seed(2))
    assert first != second and {first, second} <= set(range(REPLIES))
    assert share_reached(1000, choice, 0) < 0.5 < share_reached(1000, choice, 40)


def test_uncertain_duels_have_the_largest_variance() -> None:
    replies, (mode, spread) = drawn(REPLIES, SIZE), fit_posterior(drawn(5, SIZE))
    first, second = CHOICES["uncertain"](replies, mode, spread, torch.Generator())
    gaps = [a - b for a in replies for b in replies]
    most = max(float(gap @ spread @ gap) for gap in gaps)
    assert float((replies[first] - replies[second]) @ spread @ (replies[first] - replies[second])) == pytest.approx(
        most
    )


def test_a_shown_answer_changes_the_prompt_and_nothing_else() -> None:
    plain, half = Countdown(numbers=(2,)), ShownAnswers(shown=0.5)
    pairs = list(zip(map(plain.tasks("test").__getitem__, range(64)), half.tasks("test"), strict=False))
    assert all(one.id == other.id and one.answer == other.answer for one, other in pairs)
    shown = [other for one, other in pairs if one.messages != other.messages]
    assert 16 < len(shown) < 48
    assert all(half.framed(half.solution(task)) in task.messages[0].content for task in shown)


def test_solutions_are_right_replies_to_their_tasks() -> None:
    env = ShownAnswers()
    rows = [json.loads(line) for line in solutions(8).splitlines()]
    verdicts = [env.verify(env.tasks("train")[row["task"]], row["reply"]) for row in rows]
    assert len(rows) == 8 and all(verdict.status is Status.CORRECT for verdict in verdicts)


def test_a_sum_is_asked_again_after_its_first_budget() -> None:
    task = (env := AskedAgain()).tasks("train")[0]
    first = (episode := env.start(task, Key(0))).step("<answer>")
    assert (first.messages, first.tokens) == (task.messages, 24) and env.token_budgets == (2, 32)
    last = episode.step(f"<answer>{task.answer}</answer>")
    assert last.verdict is not None and last.verdict.correct and last.verdict.reward == 0.5


@pytest.mark.parametrize("env", [ShownGuesses(seed=3), ShownCodes(seed=3)])
def test_shown_games_are_won_and_stand_before_every_task(env: ShownGames) -> None:
    tasks = [env.tasks(split)[index] for split in ("train", "test") for index in range(8)]
    assert len({task.messages for task in tasks}) == 1 < len({str(task.answer) for task in tasks})
    *shown, own = tasks[0].messages
    starts = [place for place, message in enumerate(shown) if message == own]
    assert len(starts) == env.games and {message.role for message in shown[1::2]} == {"assistant"}
    without = replace(env, games=0)
    for start, end in zip(starts, [*starts[1:], len(shown)], strict=True):
        replies = [message.content for message in shown[start:end] if message.role == "assistant"]
        won = replace(tasks[0], answer=type(tasks[0].answer)(replies[-1]), messages=(own,))
        assert verdict(without, won, replies) is Status.CORRECT


@pytest.mark.parametrize("env", [ShownGuesses(), ShownCodes()])
def test_a_bare_reply_is_an_action_and_any_other_text_ends_the_game(env: ShownGames) -> None:
    task = env.tasks("train")[0]
    assert verdict(env, task, [f" {task.answer}\n"]) is Status.CORRECT
    assert verdict(env, task, [f"It is {task.answer}."]) is Status.REJECTED


def verdict(env: ShownGames, task: Task, replies: list[str]) -> Status | None:
    episode = env.start(task, Key(0))
    step = [episode.step(reply) for reply in replies][-1]
    return step.verdict.status if step.verdict else None
