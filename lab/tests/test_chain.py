"""Questions in a row: the next one comes whatever was answered, and one of two parts is paid."""

from __future__ import annotations

import pytest

from gnomon.envs.check import check_env
from gnomon.keys import Key
from gnomon_lab.chain import Chain


@pytest.mark.parametrize("by_share", [False, True])
def test_the_answers_of_a_row_are_counted(by_share: bool) -> None:
    env = Chain(by_share=by_share)
    task = env.tasks("train")[0]
    for wrong in range(3):
        episode = env.start(task, Key(0))
        asked = [episode.messages[-1].content]
        for n, answer in enumerate(task.answer):
            step = episode.step(f"<answer>{answer + 1 if n < wrong else answer}</answer>")
            asked += [message.content for message in step.messages]
        assert len(set(asked)) == 4 and step.done and step.verdict is not None
        assert step.verdict.reward == ((4 - wrong) / 4 if by_share else float(not wrong))
        assert step.verdict.correct == (not wrong)


def test_it_passes_the_check() -> None:
    assert check_env(Chain(), tasks=20).passed
