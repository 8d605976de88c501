"""Feedback in the environment's words: from the verdict to the tokens that the learner trains on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.api import configure
from gnomon.envs import CharCount
from gnomon.envs.wire import read_step, step_json
from gnomon.errors import VerifierError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout import pack
from gnomon.rollout.relabel import condition
from gnomon.run.parts import build
from gnomon.store import RunReader
from gnomon.types import Sampling, Status
from rollout.praised import ENVS, PRAISE, WORDLESS, OneTurn, Turns, words

TOKENIZER = Tokenizer(model_folder("tiny"))


def settings(**rollout: object) -> dict[str, Any]:
    return {
        "objective": "fcp", "threads": 1, "steps": 2, "rollout": {"prompts": 3, "group": 4, "max_tokens": 10, **rollout}
    }  # fmt: skip


def collected(name: str, env: Any, **rollout: object) -> list[Any]:
    parts = build(configure(name, settings(**rollout))[0], env)
    tasks = [(index, parts.env.tasks("train")[index]) for index in range(3)]
    try:
        return asyncio.run(parts.actor.collect(tasks, Key(0)))
    finally:
        parts.actor.workers.close()


@pytest.mark.parametrize("offline", [0.0, 1.0], ids=["asked for praise", "sampled plainly"])
@pytest.mark.parametrize("name", ENVS)
def test_the_words_reach_the_tokens_that_the_learner_reads(name: str, offline: float) -> None:
    """With one turn and several, one player and two; the praise that a prompt asked for is not among them."""
    groups = collected(name, ENVS[name], offline=offline)
    assert {rollout.player for group in groups for rollout in group.rollouts} == ({0, 1} if name == "nim" else {0})
    batch = pack(groups, sampling=Sampling(max_tokens=10), exact=False)
    rollouts, told = [rollout for group in groups for rollout in group.rollouts], set()
    for sequence in batch.sequences:
        rollout = rollouts[sequence.rollout]
        assert rollout.verdict.feedback == words(rollout.verdict, rollout.player)
        start = TOKENIZER.decode(sequence.token_ids[: int(sequence.trainable.nonzero()[0])].tolist())
        assert start.count("<EF>") == 1 and f"<EF>{rollout.verdict.feedback}</EF>" in start
        told.add(rollout.verdict.feedback)
    assert len(told) > 1
    assert {sequence.player for sequence in batch.sequences} == ({0, 1} if name == "nim" else {0})


@pytest.mark.parametrize("name", ENVS)
def test_an_environment_with_praise_that_gives_no_words_is_an_error(name: str) -> None:
    with pytest.raises(VerifierError, match=r"(?s)E690.*task .*exactly right.*remove `praise`"):
        collected(name, WORDLESS[name])


def test_an_episode_that_a_limit_ended_has_its_status_as_feedback() -> None:
    groups = collected("guess_number", Turns(), turns=1)
    cut = [r for group in groups for r in group.rollouts if r.verdict.status is Status.EXCEEDED]
    assert cut and all(rollout.turns[0].messages[0] == condition("exceeded") for rollout in cut)


def test_the_prompt_of_an_evaluation_asks_for_the_praise_of_the_environment_and_a_run_records_the_words(
    tmp_path: Path,
) -> None:
    small: Any = {**settings(), "eval": {"every": 2, "tasks": 4}}
    gnomon.train(OneTurn(), run=tmp_path / "run", quiet=True, **small).close()
    with RunReader(tmp_path / "run") as reader:
        assert reader.status == "finished"
        rows = [record.body for record in reader.records(kind="rollout")]
        assert len(rows) == 24 and all(row["feedback"] for row in rows)
    parts = build(configure("char_count", settings())[0], OneTurn())
    try:
        asked = asyncio.run(parts.actor.rollouts([(0, parts.env.tasks("train")[0])], Key(0), 1))
    finally:
        parts.actor.workers.close()
    assert asked[0].rollouts[0].turns[0].messages[0] == condition(PRAISE)


def test_words_pass_between_processes_and_without_praise_there_are_none() -> None:
    task = OneTurn().tasks("train")[0]
    step = OneTurn().start(task, Key(0)).step("no answer")
    assert step.verdict is not None and step.verdict.feedback == "player 0: no_answer, 0"
    assert read_step(step_json(step)) == step
    plain = CharCount().start(task, Key(0)).step("no answer")
    assert plain.verdict is not None and plain.verdict.feedback == ""
