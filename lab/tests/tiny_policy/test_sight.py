"""What a small policy that sees is taught: whole episodes, of which the replies alone are learned."""

from pathlib import Path

import pytest

from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon_lab.tiny_policy.sight import LESSONS, Teacher, write_folder

pytestmark = pytest.mark.needs("PIL")


@pytest.mark.parametrize("name", LESSONS)
def test_the_replies_of_an_episode_are_learned_and_every_drawing_is_seen(name: str, tmp_path: Path) -> None:
    env = LESSONS[name].env
    tasks = [env.tasks("train")[index] for index in range(8)]
    size = tasks[0].messages[-1].images[0].pixels().width
    write_folder(tmp_path, size)
    teacher, rng = Teacher(tmp_path, env, tasks), Key(0).random()
    for place, task in enumerate(tasks):
        ids, wanted, pixels = teacher.lesson(place, rng, 0.0)
        episode, code, replies = env.start(task, Key(0)), Tokenizer(tmp_path), []
        done = False
        while not done:
            replies.append(env.framed(env.solution(task)) if name != "maze" else env.expert(task, episode))
            step = episode.step(replies[-1])
            done = step.done
        learned = wanted[wanted >= 0]
        assert step.verdict and step.verdict.status == "correct"
        assert code.decode(learned.tolist()) == code.decode(code.encode("<eos>".join([*replies, ""])))
        assert bool((wanted[wanted >= 0] == ids[wanted >= 0]).all())
        assert pixels.shape == (len(replies), 3, size, size)
    guessed = [teacher.lesson(place, rng, 1.0) for place in range(8)]
    assert any(other[0].tolist() != teacher.lesson(place, rng, 0.0)[0].tolist() for place, other in enumerate(guessed))
