"""Every environment can leave out the hint and put its question into a template, and asks the same tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gnomon.envs import ENVS, Countdown, MultiTurn
from gnomon.envs.base import SLOT, SingleTurn
from gnomon.envs.dataset import Dataset
from gnomon.envs.episodes import well
from gnomon.keys import Key
from gnomon.types import Message

SINGLE = sorted(name for name, kind in ENVS.items() if issubclass(kind, SingleTurn))
TURNS = sorted(name for name, kind in ENVS.items() if issubclass(kind, MultiTurn))
AROUND = "Question: {prompt} Answer:"


def texts(messages):
    return [message.content for message in messages]


def around(text):
    return AROUND.replace("{prompt}", text)


def bare(text):
    return text.replace(f" {SLOT}", "").replace(SLOT, "").strip()


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", SINGLE)
def test_one_turn(name, split):
    kind = ENVS[name]
    rows = issubclass(kind, Dataset)
    plain, silent = kind().tasks(split), kind(hint=False).tasks(split)
    framed = None if rows else kind(template=AROUND).tasks(split)
    both = None if rows else kind(template=AROUND, hint=False).tasks(split)
    for place in range(8):
        task, without = plain[place], silent[place]
        assert (without.id, without.answer, without.info) == (task.id, task.answer, task.info)
        assert texts(without.messages) == [bare(text) for text in texts(task.messages)]
        reply = kind().framed(kind().solution(task))
        assert kind(hint=False).verify(without, reply) == kind().verify(task, reply)
        if framed is not None and both is not None:
            assert texts(framed[place].messages) == [around(text) for text in texts(task.messages)]
            assert texts(both[place].messages) == [around(bare(text)) for text in texts(task.messages)]


@pytest.mark.parametrize("name", [name for name in SINGLE if not issubclass(ENVS[name], Dataset)])
def test_solved_examples_are_worded_like_the_question(name):
    kind = ENVS[name]
    plain, both = kind(shots=2).tasks("test")[0], kind(shots=2, template=AROUND, hint=False).tasks("test")[0]
    worded = [around(bare(m.content)) if m.role == "user" else m.content for m in plain.messages]
    assert texts(both.messages) == worded
    assert [m.role for m in both.messages] == ["user", "assistant"] * 2 + ["user"]


def test_examples_of_a_data_set_have_no_hint():
    plain, silent = (Dataset(shots=2, hint=hint).tasks("test")[0] for hint in (True, False))
    assert texts(silent.messages) == [bare(m.content) if m.role == "user" else m.content for m in plain.messages]


@pytest.mark.parametrize("shots", [0, 1])
def test_mutations_are_worded_once(shots):
    kind = ENVS["char_count"]
    plain = kind(mutations=3, shots=shots).tasks("train")
    both = kind(mutations=3, shots=shots, template=AROUND, hint=False).tasks("train")
    for place in range(8):
        assert both[place].id == plain[place].id
        assert both[place].messages[-1].content == around(bare(plain[place].messages[-1].content))


@pytest.mark.parametrize("name", TURNS)
def test_several_turns_and_players(name):
    """Only the first observation of a player is put into the template; no observation has the hint."""
    kind = ENVS[name]
    plain, both = kind(), kind(template=AROUND, hint=False)
    for place in range(4):
        task, other = plain.tasks("train")[place], both.tasks("train")[place]
        assert (other.id, other.answer) == (task.id, task.answer)
        before, after = well(plain, task), well(both, other)
        assert after.replies == before.replies and after.verdicts == before.verdicts
        assert texts(after.opening) == [
            around(bare(text)) if at < len(task.messages) else bare(text)
            for at, text in enumerate(texts(before.opening))
        ]
        met = {0}
        for old, new in zip(before.steps, after.steps, strict=True):
            word = bare if old.player in met else lambda text: around(bare(text))
            assert texts(new.messages) == [word(text) for text in texts(old.messages)]
            met.add(old.player)


@pytest.mark.parametrize("name", ["char_count", "kuhn_poker", "dataset"])
def test_a_template_without_the_question_is_refused(name):
    with pytest.raises(ValueError, match="it must contain"):
        ENVS[name](template="Answer:")


def test_an_illegal_action_is_answered_without_the_hint():
    env = ENVS["tic_tac_toe"](hint=False)
    episode = env.start(env.tasks("train")[0], Key(0))
    step = episode.step("no action")
    assert not step.done and SLOT not in step.messages[0].content


class Instructed(Countdown):
    """With a system message before every question."""

    def make(self, rng):
        task = super().make(rng)
        return replace(task, messages=(Message(role="system", content="Count."), *task.messages))


@pytest.mark.parametrize("shots", [0, 2])
def test_a_mutation_keeps_the_examples_and_the_system_message(shots):
    tasks = Instructed(shots=shots, mutations=1).tasks("train")
    for task in (tasks[0], tasks[1]):
        assert [m.role for m in task.messages] == ["system", *["user", "assistant"] * shots, "user"]
    assert tasks[0].messages[:-1] == tasks[1].messages[:-1] and tasks[0].id != tasks[1].id
