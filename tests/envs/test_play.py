"""A person in the place of the policy."""

import re
from pathlib import Path

import pytest

from gnomon.envs import Arithmetic, Countdown, Env, GuessNumber, KuhnPoker, Maze
from gnomon.envs.play import play
from gnomon.images import Image
from gnomon.types import Status, Verdict


def played(env: Env, *replies: str, index: int = 3) -> tuple[Verdict, str]:
    verdicts, text = seated(env, *replies, index=index)
    (verdict,) = verdicts
    return verdict, text


def seated(env: Env, *replies: str, index: int = 3) -> tuple[tuple[Verdict, ...], str]:
    left, written = list(replies), list[str]()

    def read(prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    verdicts = play(env, index, "test", read, written.append)
    return verdicts, "\n".join(written)


def test_an_answer_alone_is_put_into_a_slot() -> None:
    env = Arithmetic()
    task = env.tasks("test")[3]
    verdict, text = played(env, str(task.answer))
    assert verdict.status is Status.CORRECT and verdict.reward == 1.1
    assert task.messages[0].content in text and task.id in text
    assert f"judged as '<answer>{task.answer}</answer>'" in text
    assert "correct, reward 1.1" in text and "1 x 0.1 = 0.1" in text and f"judged '{task.answer}'" in text


def test_a_whole_reply_is_judged_as_it_stands() -> None:
    verdict, text = played(Arithmetic(), "I think <answer>4 apples</answer>")
    assert verdict.status is Status.MALFORMED
    assert "no answer slot" not in text
    assert "malformed, reward 0" in text and "not an integer" in text


def test_an_image_is_a_file_while_its_message_is_answered() -> None:
    written, images = list[str](), list[Path]()

    def read(prompt: str) -> str:
        assert "user: " not in written  # A message of an image alone.
        match = next(found for line in reversed(written) if (found := re.fullmatch(r"\[image (.*)\]", line)))
        images.append(Path(match[1]))
        assert Image.read(images[-1]).sha256.startswith(images[-1].stem)
        return "up"

    play(Maze(), 3, "test", read, written.append)
    assert len(images) > 1 and not any(image.exists() for image in images)


def test_a_shut_gate_is_shown() -> None:
    verdict, text = played(Countdown(gate="correct"), "1+1")
    assert verdict.status is Status.WRONG and verdict.reward == 0
    assert "format   1 x 0.1 = 0 (shut by correct)" in text


def test_a_hostile_answer_is_shown_harmlessly() -> None:
    _, text = played(Arithmetic(), "\x1b[2J\ud800")
    assert "\x1b" not in text and text.encode()


def test_shots_are_shown_in_their_roles() -> None:
    _, text = played(Arithmetic(shots=1), "4")
    assert text.count("user: ") == 2 and text.count("assistant: <answer>") == 1


def test_what_cannot_be_played_says_so() -> None:
    with pytest.raises(EOFError):
        played(Arithmetic())
    with pytest.raises(IndexError):
        played(Arithmetic(), "4", index=-1)
    with pytest.raises(ValueError, match="split"):
        play(Arithmetic(), 0, "validation", lambda _: "4", lambda _: None)


def test_several_turns_are_played_to_their_end() -> None:
    env = GuessNumber()
    number = env.tasks("test")[3].answer
    verdict, text = played(env, str(number - 1 or 20), "<answer>nothing</answer>", str(number))
    assert verdict.correct and "user: No legal move." in text
    assert ("user: higher" in text) == (number > 1)


def test_every_player_is_asked_and_told_what_it_earned() -> None:
    verdicts, text = seated(KuhnPoker(), "bet", "pass")
    assert [verdict.reward for verdict in verdicts] == [1.0, -1.0]
    assert text.index("player 0\nuser: Kuhn") < text.index("player 1\nuser: Kuhn")
    assert "player 0: correct, reward 1" in text and "player 1: wrong, reward -1" in text
    assert "They bet." in text
