"""Two runs that differ in one stage are told apart at that stage: recorded runs, one setting changed in each."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from gnomon.comparison.diverge import ADVICE, STAGES, diverge, first
from gnomon.integrations.imports.rollout import Foreign, single_turn, task_of
from gnomon.integrations.imports.run import ImportedRun
from gnomon.types import Message

BASE: dict[str, Any] = {"steps": 2, "rollout": {"prompts": 4, "group": 4}, "eval": {"tasks": 1}, "quiet": True}
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    known: dict[str, Path] = {}

    def run(**settings: Any) -> Path:
        name = repr(settings)
        if name not in known:
            known[name] = tmp_path_factory.mktemp("run") / "run"
            rollout = BASE["rollout"] | settings.pop("rollout", {})
            gnomon.train("char_count", run=known[name], **{**BASE, **settings, "rollout": rollout}).close()
        return known[name]

    return run


@pytest.mark.parametrize(
    ("stage", "changed"),
    [
        ("tasks", {"seed": 1}),
        ("sampled tokens", {"rollout": {"temperature": 2.0}}),
        ("verdict", {"env": {"format": 0.5}}),
        ("advantage", {"objective": "grpo"}),
        ("gradient norm", {"objective": {"type": "dr_grpo", "clip_high": 0.2}, "regularize": {"entropy": 0.01}}),
        ("weights", {"optim": {"lr": 0.01}}),
    ],
)
def test_the_stage_that_was_changed_is_named(stage: str, changed: dict[str, Any], made: Made) -> None:
    base = made(objective="dr_grpo")
    found = diverge(base, made(**{"objective": "dr_grpo", **changed}))
    assert found.stage == stage and found.step == (1 if stage == "weights" else 0)
    assert found.values[0] != found.values[1] and ADVICE[stage] in str(found)
    assert not diverge(base, base) and diverge(base, base).steps == 2


def test_a_command_shows_both_values_and_exits_with_1(made: Made) -> None:
    one, other = made(objective="dr_grpo"), made(objective="grpo")
    done = command("diverge", str(one), str(other))
    assert done.returncode == 1 and "in step 0: advantage, group" in done.stdout and "unknown" not in done.stdout
    assert command("diverge", str(one), str(one)).returncode == 0


def conversation(folder: Path, *, first: int = 5, observed: int = 7, second: int = 8, turns: int = 2) -> Path:
    """A run of one rollout of two turns: the prompt 1 2, a token, an observation, a token."""
    asked = task_of((Message(role="user", content="a game"),))
    one = single_turn(asked.messages, "x", prompt_ids=[1, 2], token_ids=[first], logprobs=[-0.5])
    two = single_turn((), "y", prompt_ids=[1, 2, first, observed], token_ids=[second], logprobs=[-0.25])
    row = Foreign(task=asked, turns=(*one, *two)[:turns], source="", reward=1.0, coefficients=(0.5, 0.25))
    with ImportedRun(folder, format="ours") as run:
        run.step(0, [row], grad_norm=1.0, weights=[1.0])
    return folder


@pytest.mark.parametrize(("changed", "stage", "where"), [
    ({"first": 6}, "sampled tokens", "group 0, rollout 0, token 0"),
    ({"observed": 9}, "prompt tokens", "group 0, rollout 0, turn 1, token 3"),
    ({"second": 9}, "sampled tokens", "group 0, rollout 0, turn 1, token 0"),
    ({"turns": 1}, "prompt tokens", "group 0, rollout 0, turn 1"),
])  # fmt: skip
def test_every_turn_is_compared(changed: dict[str, int], stage: str, where: str, tmp_path: Path) -> None:
    base = conversation(tmp_path / "a")
    found = diverge(base, conversation(tmp_path / "b", **changed))
    assert (found.stage, found.where) == (stage, where) and ADVICE[stage] in str(found)
    assert not diverge(base, conversation(tmp_path / "c"))


@pytest.mark.parametrize(("old", "new", "stage"), [
    ('"completion": "4"', '"completion": "04"', "sampled tokens"), ("0.7}", "0.9}", "advantage"),
    ("2+2?", "2+3?", "tasks"),
])  # fmt: skip
def test_logs_of_trl_are_compared_by_their_texts(old: str, new: str, stage: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "integrations/logs/trl-1.16.0-completions.jsonl").read_text()
    assert old in text
    for name, log in (("a", text), ("b", text.replace(old, new))):
        (tmp_path / f"{name}.jsonl").write_text(log)
        words = (str(tmp_path / f"{name}.jsonl"), str(tmp_path / name), "--format", "trl", "--correct", "correct >= 1")
        assert command("import", *words, "--weight", "form=0.1").returncode == 0
    found = diverge(tmp_path / "a", tmp_path / "b")
    assert (found.step, found.stage) == (10, stage) and not diverge(tmp_path / "a", tmp_path / "a")


def test_groups_of_another_size_and_a_shorter_run_are_named(made: Made) -> None:
    base, larger = made(objective="dr_grpo"), made(objective="dr_grpo", rollout={"group": 8})
    found = diverge(base, larger)
    assert (found.stage, found.where, found.values) == ("tasks", "group 0, rollouts", ("4", "8"))
    shorter = diverge(base, made(objective="dr_grpo", steps=1))
    assert not shorter and "equal    in 1 steps; A has 2, B has 1" in str(shorter)


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_difference_in_recorded_values_is_placed(stage: str) -> None:
    a: dict[str, Any]
    if stage in ("log-probabilities", "advantage", "coefficient", "gradient norm"):
        a, b = {"x": [math.nan, 0.5, -2.0]}, {"x": [math.nan, 0.5, -2.0 + 1e-3]}
        assert first(stage, a, b, 1e-2) == (None, True)
    elif stage in ("prompt tokens", "sampled tokens"):
        a, b = {"x": [1, 2, 3]}, {"x": [1, 2]}
    else:
        a, b = {"x": {"reward": 1.0}}, {"x": {"reward": 0.0}}
    found, seen = first(stage, a, b, 1e-6)
    assert seen and found is not None and found[0].startswith("x")
    assert first(stage, a, a, 0.0) == (None, True)
    assert first(stage, a, {"x": {}}, 0.0) == (None, False), "one run does not record it"
