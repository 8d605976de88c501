"""The games: their rules, their scripted players, and what is known of them exactly."""

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gnomon.envs import ENVS, Anytime, GuessNumber, KuhnPoker, Mastermind, MultiTurn, Nim, TicTacToe, Wordle
from gnomon.envs.episodes import legal, play, well
from gnomon.envs.kuhn_value import STATES, VALUE, equilibrium, exploitability, payoff, value
from gnomon.envs.mastermind import codes
from gnomon.envs.mastermind import marks as pegs
from gnomon.envs.nim import legal as takes
from gnomon.envs.tic_tac_toe_board import best, free, perfect_value, picture, put
from gnomon.envs.tic_tac_toe_board import value as won
from gnomon.envs.wire import read_step, step_json
from gnomon.envs.wordle import word_pool
from gnomon.envs.wordle_marks import marks
from gnomon.keys import Key
from gnomon.types import Status, Task

SEVERAL: dict[str, Any] = {name: kind for name, kind in ENVS.items() if issubclass(kind, MultiTurn)}


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_random_legal_players_end_every_game_without_breaking_a_rule(name: str) -> None:
    env, rng = SEVERAL[name](), Key(1).at(name).random()
    for index in range(60):
        whole = play(env, env.tasks("train")[index], lambda episode, turn: legal(episode, rng), Key(index))
        assert len(whole.replies) <= env.moves
        assert {verdict.status for verdict in whole.verdicts} <= {Status.CORRECT, Status.WRONG}
        if len(whole.verdicts) == 2:
            assert sum(verdict.reward for verdict in whole.verdicts) == 0


# Guess the number, Mastermind, Wordle: the scripted player finds every secret


@pytest.mark.parametrize(
    ("env", "secrets", "most"),
    [
        (GuessNumber(), range(1, 21), 5),
        (GuessNumber(largest=31), range(1, 32), 5),
        (Mastermind(), codes(3, 4), 6),
        (Wordle(), word_pool(0, 4, 64), 6),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MultiTurn) else "",
)
def test_the_scripted_player_finds_every_secret_in_time(env: MultiTurn, secrets: Any, most: int) -> None:
    task = env.tasks("train")[0]
    for secret in secrets:
        whole = well(env, replace(task, answer=secret))
        assert whole.verdicts[0].correct and len(whole.replies) <= most, secret


def test_more_numbers_than_halvings_reach_are_not_all_found() -> None:
    env = GuessNumber(largest=32, guesses=5)
    task = env.tasks("train")[0]
    assert sum(not well(env, replace(task, answer=n)).verdicts[0].correct for n in range(1, 33)) == 1


@pytest.mark.parametrize(
    ("guess", "code", "found"),
    [
        ("123", "123", (3, 0)),
        ("112", "211", (1, 2)),
        ("111", "122", (1, 0)),
        ("231", "123", (0, 3)),
        ("444", "123", (0, 0)),
    ],
)
def test_mastermind_counts_no_digit_twice(guess: str, code: str, found: tuple[int, int]) -> None:
    assert pegs(guess, code) == found == pegs(code, guess)


@pytest.mark.parametrize(
    ("guess", "word", "signs"),
    [
        ("pots", "pots", "gggg"),
        ("stop", "pots", "yyyy"),
        ("eels", "else", "gyyy"),
        ("seee", "else", "yy-g"),
        ("aaaa", "abba", "g--g"),
        ("baab", "abba", "yyyy"),
        ("zzzz", "pots", "----"),
    ],
)
def test_wordle_finds_no_letter_twice(guess: str, word: str, signs: str) -> None:
    assert marks(guess, word) == signs


def test_wordle_draws_its_words_by_its_seed() -> None:
    assert word_pool(0, 4, 64) == word_pool(0, 4, 64) != word_pool(1, 4, 64)
    assert len(set(word_pool(3, 5, 100))) == 100 and {len(word) for word in word_pool(3, 5, 100)} == {5}


# Tic-tac-toe


def test_tic_tac_toe_is_a_draw_between_faultless_players() -> None:
    assert perfect_value(" " * 9) == 0
    assert [verdict.reward for verdict in well(TicTacToe(), TicTacToe().tasks("train")[0]).verdicts] == [0.0, 0.0]


def test_the_faultless_player_never_loses_whatever_the_other_does() -> None:
    """Every line that the other side can choose, in both players; the least that was reached."""

    def worst(board: str, mine: str) -> float:
        if (end := won(board)) is not None:
            return end if mine == "x" else -end
        if "xo"[board.count("x") - board.count("o")] == mine:
            return worst(put(board, best(board)), mine)
        return min(worst(put(board, cell), mine) for cell in free(board))

    assert worst(" " * 9, "x") == worst(" " * 9, "o") == 0


@pytest.mark.parametrize(
    ("board", "found"),
    [("xxx oo   ", 1.0), ("ox oxxo  ", -1.0), ("xoxxoooxx", 0.0), ("xo       ", None), ("xoxoxoxox", 1.0)],
)
def test_who_has_won(board: str, found: float | None) -> None:
    assert won(board) == found


def test_an_opponent_moves_by_the_key_of_the_episode() -> None:
    env = TicTacToe(opponent="random")
    task = env.tasks("train")[0]
    assert env.players == 1 and env.reward_range == (0.0, 1.0)
    openings = set()
    for sample in range(20):
        episode = env.start(task, Key(0).at("episode", sample=sample))
        step = episode.step("<answer>5</answer>")
        assert step.player == 0 and step.messages[0].content.startswith("o at ")
        openings.add(step.messages[0].content)
    assert len(openings) > 3
    perfect = TicTacToe(opponent="perfect")
    assert {well(perfect, perfect.tasks("train")[i]).verdicts[0].reward for i in range(5)} == {0.5}


# Nim


def test_nim_is_won_by_the_first_player_where_the_exclusive_or_is_not_zero() -> None:
    env = Nim()
    task = env.tasks("train")[0]
    for heaps in itertools.combinations_with_replacement(range(1, 6), 3):
        a, b, c = heaps
        whole = well(env, replace(task, info={"heaps": list(heaps)}))
        assert whole.verdicts[0].correct == (a ^ b ^ c != 0), heaps


def test_nim_moves_are_all_there_are() -> None:
    assert takes([1, 3, 3]) == ["1 1", "3 1", "3 2", "3 3"]
    env = Nim(heaps=(3,), largest=3)
    task = replace(env.tasks("train")[0], info={"heaps": [1, 3, 3]})
    episode = env.start(task, Key(0))
    step = episode.step("<answer>3 2</answer>")
    assert step.player == 1 and step.messages[0].content.startswith("Nim 1 1 3.")


# Kuhn poker

# The lines of a hand and what the first player wins by them with the higher and with the lower card.
LINES = {"pp": (1, -1), "pbp": (-1, -1), "pbb": (2, -2), "bp": (1, 1), "bb": (2, -2)}


@pytest.mark.parametrize("line", LINES)
def test_kuhn_hands_pay_what_the_rules_say(line: str) -> None:
    env = KuhnPoker()
    for cards in map("".join, itertools.permutations("jqk", 2)):
        high = "jqk".index(cards[0]) > "jqk".index(cards[1])
        assert payoff(cards, line) == LINES[line][not high]
        episode = env.start(replace(env.tasks("train")[0], answer=cards), Key(0))
        for sign in line:
            step = episode.step(f"<answer>{'bet' if sign == 'b' else 'pass'}</answer>")
        assert step.done and [verdict.reward for verdict in step.verdicts] == [
            payoff(cards, line),
            -payoff(cards, line),
        ]


def test_a_player_sees_its_own_card_and_the_betting_alone() -> None:
    env = KuhnPoker()
    base = env.tasks("train")[0]
    heard = {}
    for cards in map("".join, itertools.permutations("jqk", 2)):
        task = Task(**{**{n: getattr(base, n) for n in ("id", "info", "messages")}, "answer": cards})
        episode = env.start(task, Key(0))
        step = episode.step("<answer>bet</answer>")
        heard[cards] = step.messages
    for one, other in itertools.combinations(heard, 2):
        assert (heard[one] == heard[other]) == (one[1] == other[1])
    for index in range(30):
        task = env.tasks("train")[index]
        assert f"Card {task.answer[0].upper()}." in task.messages[0].content


def test_deals_are_even() -> None:
    """Each of six deals on 1/6 of 1,200 tasks; the standard error is 0.0108, the bound four of them."""
    deals = Counter(KuhnPoker().tasks("train")[i].answer for i in range(1200))
    assert len(deals) == 6 and all(abs(count / 1200 - 1 / 6) < 0.043 for count in deals.values())


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2, 1 / 3])
def test_every_known_equilibrium_is_unbeatable_and_worth_what_is_known(alpha: float) -> None:
    strategy = equilibrium(alpha)
    assert exploitability(strategy) == pytest.approx(0, abs=1e-12)
    for other in (0.0, 1 / 3):
        assert value(strategy, equilibrium(other)) == pytest.approx(VALUE, abs=1e-12)


def test_a_strategy_off_the_family_can_be_beaten() -> None:
    for state in STATES:
        bent = equilibrium(0.2)
        bent[state] = min(1.0, bent[state] + 0.05) if bent[state] < 1 else 0.95
        assert exploitability(bent) > 1e-4, state
    with pytest.raises(ValueError, match="alpha"):
        equilibrium(0.4)


def test_the_uniform_strategy_is_exploited_by_what_is_published() -> None:
    """OpenSpiel gives 0.916667 as the NashConv of the uniform strategy, the sum over both players."""
    assert exploitability(dict.fromkeys(STATES, 0.5)) == pytest.approx(0.916667 / 2, abs=1e-6)


def test_exploitability_is_at_least_what_any_opponent_wins() -> None:
    rng = random.Random(0)
    for _ in range(30):
        mine, theirs = ({state: rng.random() for state in STATES} for _ in range(2))
        edge = (value(theirs, mine) - value(mine, theirs)) / 2
        assert exploitability(mine) >= edge - 1e-12
    with pytest.raises(ValueError, match="no probability"):
        exploitability({**mine, ("j", ""): 1.1})
    del mine["j", ""]
    with pytest.raises(ValueError, match="no probability"):
        exploitability(mine)


def test_the_value_is_what_hands_played_in_the_environment_come_to() -> None:
    """2,400 hands of one strategy with itself; a hand deviates by about 1.3, the bound is four errors of the mean."""
    env, strategy = KuhnPoker(), equilibrium(0.2)
    total = 0.0
    for index in range(2400):
        rng = Key(0).at("hand", index=index).random()

        def say(episode: Any, turn: int, rng: random.Random = rng) -> str:
            return f"<answer>{'bet' if rng.random() < strategy[episode.ask.state] else 'pass'}</answer>"

        total += play(env, env.tasks("train")[index], say).verdicts[0].reward
    assert abs(total / 2400 - VALUE) < 4 * 1.3 / 2400**0.5


# Anytime


def test_anytime_pays_at_every_budget() -> None:
    env = Anytime()
    for index in range(20):
        task = env.tasks("train")[index]
        budgets = task.info["budgets"]
        assert len(budgets) == 3 and list(budgets) == sorted(set(budgets)) and budgets[0] >= 1 and budgets[-1] <= 96
        right = f"<answer>{task.answer}</answer>"
        for replies in itertools.product((right, "no idea", "<answer>x</answer>"), repeat=3):
            episode = env.start(task, Key(0))
            step = [episode.step(reply) for reply in replies][-1]
            assert step.verdict is not None
            fine = [reply == right for reply in replies]
            assert step.verdict.reward == pytest.approx(sum(fine) / 3) and step.verdict.correct == fine[-1]
            assert [(part.name, part.value) for part in step.verdict.parts] == [
                (f"at_{place}", float(each)) for place, each in enumerate(fine)
            ]


def test_the_boards_of_tic_tac_toe_are_those_that_a_player_faced() -> None:
    """By the words of an episode alone, whoever the opponent is, and after actions that are illegal."""
    for opponent in ("random", "perfect"):
        env = ENVS["tic_tac_toe"](opponent=opponent)
        task = env.tasks("test")[3]
        episode = env.start(task, Key(5))
        messages, turns, faced = episode.messages, [], []
        reply = "<answer>0</answer>"  # Not a cell.
        while True:
            faced.append(picture(episode.ask.state))
            turns.append(("\n".join(message.content for message in messages), reply))
            step = episode.step(reply)
            if step.done:
                break
            messages, reply = step.messages, f"<answer>{best(episode.ask.state)}</answer>"
        boards = env.boards(turns)
        assert len(turns) > 2 and boards[:-1] == faced and len(boards) == len(turns) + 1
    assert faced[0].splitlines() == [" 1 │ 2 │ 3 ", "───┼───┼───", " 4 │ 5 │ 6 ", "───┼───┼───", " 7 │ 8 │ 9 "]


def test_replies_without_a_legal_action_are_marked() -> None:
    env = ENVS["tic_tac_toe"](opponent="self", retries=1)
    episode = env.start(env.tasks("test")[0], Key(0))
    steps = [episode.step(reply) for reply in ("no", "<answer>5</answer>", "<answer>5</answer>", "<answer>5</answer>")]
    assert [step.illegal for step in steps] == [True, False, True, True]
    assert [read_step(step_json(step)).illegal for step in steps] == [True, False, True, True]
