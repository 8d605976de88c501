"""Evaluation sets beside the main evaluation: what they measure, what they leave alone, and how they are read."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from gnomon.comparison.measures import final_of, gain_of
from gnomon.comparison.runs import group_runs
from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.envs import Arithmetic, CharCount
from gnomon.errors import ConfigErrors, RunError
from gnomon.export.rollouts import export_rollouts
from gnomon.reading.address import parse_address
from gnomon.rejudge.replay import replay, replay_text
from gnomon.run.find import check_env_config
from gnomon.run.manifest import opening
from gnomon.store import RunReader, verify
from gnomon.store.frame import evaluations

SMALL: dict[str, Any] = {
    "steps": 2, "prompts": 2, "group": 2, "quiet": True, "rollout": {"max_tokens": 12}, "save": {"every": 1},
    "workers": {"count": 1},
}  # fmt: skip
SETS: dict[str, Any] = {
    "greedy": {"temperature": 0.0, "samples": 2},
    "sums": {"env": "arithmetic", "every": 2, "tasks": 3},
    "longer": {"env": {"length": [8, 12], "shots": 1}},
    "poker": {"env": "kuhn_poker", "tasks": 1},
}
"""A temperature; other tasks; other options, among them a longer prompt; several turns of two players."""
EVAL = {"every": 1, "tasks": 2}


def trained(folder: Path, sets: dict[str, Any], **more: Any) -> RunReader:
    return gnomon.train("char_count", run=folder, eval={**EVAL, "sets": sets}, **{**SMALL, **more})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    return trained(tmp_path_factory.mktemp("plain") / "r", {})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    return trained(tmp_path_factory.mktemp("sets") / "r", SETS)


def config(*words: str) -> RunConfig:
    return resolve([overrides(["env=char_count", *words])], [check_env_config])[0]


def test_a_set_takes_the_rest_from_the_main_evaluation() -> None:
    found = config(
        "eval.tasks=7", "eval.every=3", "eval.sets.a.temperature=0.5", "env.length=[4,5]", "eval.sets.b.env=nim"
    )
    assert found.eval.sets["a"].model_dump() == {"env": {}, "temperature": 0.5, "every": 3, "tasks": 7, "samples": 1}
    assert found.env_of("a") == found.env and found.env_of("b").model_dump() == {"type": "nim"}
    changed = config("env.most=2", "eval.sets.a.env.length=[8,9]").env_of("a")
    assert changed.model_dump() == {"type": "char_count", "most": 2, "length": [8, 9]}


def test_pass_at_k_is_estimated_where_a_set_has_the_samples() -> None:
    found = config("eval.samples=4", "eval.pass_at=[1,4]", "eval.sets.few.samples=1", "eval.sets.all.tasks=1").eval
    assert found.of("few").pass_at == [1] and found.of("all").pass_at == [1, 4]


def test_every_mistake_in_a_set_is_reported_with_its_place() -> None:
    words = ["eval.sets.a.temperature=-1", "eval.sets.a.tasks=0", "eval.sets.b.env=cuontdown", "eval.sets.c.samplse=2",
             "eval.sets.d.env.lenght=[8,9]", "eval.sets.e.env.most=-4"]  # fmt: skip
    with pytest.raises(ConfigErrors) as raised:
        config(*words)
    text = str(raised.value)
    for number, word in enumerate(words, 2):
        assert f"argument {number}: {word}" in text, word
    assert {error.code for error in raised.value.errors} == {"E011", "E012", "E021", "E024"}
    with pytest.raises(ConfigErrors, match=r"eval\.sets"):
        resolve([Source({"eval": {"sets": {"a b": {}}}}, {})])


def test_the_first_record_of_a_run_without_sets_is_what_it_was() -> None:
    body = opening(config(), CharCount())["config"]
    assert "sets" not in body["eval"]
    with_set = opening(config("eval.sets.a.temperature=0"), CharCount())["config"]
    assert with_set["eval"].pop("sets") == {
        "a": {"env": {}, "temperature": 0.0, "every": 20, "tasks": 256, "samples": 1}
    }
    assert with_set == body


def test_sets_do_not_change_the_training(plain: RunReader, measured: RunReader) -> None:
    assert [body["metrics"] for body in plain.metrics()] == [body["metrics"] for body in measured.metrics()]
    assert plain.held_out == measured.held_out and plain.sets == []
    weights = [next((run.folder / "checkpoints").glob("*2/*.safetensors")).read_bytes() for run in (plain, measured)]
    assert weights[0] == weights[1]


def test_every_set_has_a_baseline_its_cadence_and_an_end(measured: RunReader) -> None:
    assert measured.sets == list(SETS)
    steps = {name: [record.step for record in measured.evaluations(name)] for name in SETS}
    assert steps == {name: [0, 2] if name == "sums" else [0, 1, 2] for name in SETS}
    assert verify(measured.folder)


def test_a_set_plays_the_first_test_tasks_of_its_environment(measured: RunReader) -> None:
    for name, env, count in (
        ("sums", Arithmetic(), 3),
        ("longer", CharCount(length=(8, 12), shots=1), 2),
        ("greedy", CharCount(), 2),
    ):
        groups = list(measured.groups(0, f"held_out.{name}"))
        assert [group.task.id for group in groups] == [env.tasks("test")[index].id for index in range(count)]
    assert len(next(measured.groups(0, "held_out.longer")).task.messages) == 3
    assert len({rollout.player for group in measured.groups(0, "held_out.poker") for rollout in group.rollouts}) == 2


def test_greedy_replies_are_alike(measured: RunReader) -> None:
    for group in measured.groups(1, "held_out.greedy"):
        first, second = (rollout.turns[0].completion.token_ids for rollout in group.rollouts)
        assert first == second


def test_a_set_does_not_depend_on_the_temperature_of_training(measured: RunReader, tmp_path: Path) -> None:
    with trained(tmp_path / "r", {"sums": SETS["sums"]}, rollout={"max_tokens": 12, "temperature": 0.5}) as cold:
        ours, theirs = (list(run.records("held_out.sums", 0)) for run in (measured, cold))
        assert [record.body for record in ours] == [record.body for record in theirs]
        assert list(cold.records("held_out", 0)) != list(measured.records("held_out", 0))


def bodies(run: RunReader, kind: str) -> list[Any]:
    return [record.body for record in run.records(kind)]


@pytest.mark.parametrize("more", [
    pytest.param({"rollout": {"max_tokens": 12, "lag": 1}}, id="lag"),
    pytest.param({"objective": "grpo", "optim": {"epochs": 2}}, id="updates"),
    pytest.param({"policy": {"lora": {"rank": 2}}}, id="lora"),
    pytest.param({"engine": {"round_weights": "bfloat16"}}, id="rounded"),
])  # fmt: skip
def test_sets_go_with_other_engines_schedules_and_objectives(more: dict[str, Any], tmp_path: Path) -> None:
    with trained(tmp_path / "r", {"sums": SETS["sums"], "poker": SETS["poker"]}, **more) as run:
        assert run.sets == ["sums", "poker"] and verify(run.folder)
        version = [record.body["version"] for record in run.evaluations("sums")]
        assert version[0] == 0 and version[-1] == (run.held_out or {})["version"] > 0


@pytest.mark.long
@pytest.mark.parametrize("place", [3, 6])
def test_a_run_killed_between_two_sets_resumes_to_the_same_bytes(measured, tmp_path, place, monkeypatch) -> None:
    monkeypatch.setenv("GNOMON_FAILPOINT", f"evaluation:{place}")
    recipe = measured.folder / "recipe.toml"
    killed = command("train", str(recipe), f"run={tmp_path / 'r'}")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    monkeypatch.delenv("GNOMON_FAILPOINT")
    assert command("resume", str(tmp_path / "r")).returncode == 0
    with RunReader(tmp_path / "r") as run:
        assert run.fingerprint == measured.fingerprint


def test_an_environment_that_is_an_object_is_played_with_other_options(tmp_path: Path) -> None:
    class Own(CharCount):
        pass

    sets = {"same": {"temperature": 0.0, "tasks": 1}, "longer": {"env": {"most": 1}, "tasks": 2}}
    with gnomon.train(Own(), run=tmp_path / "r", eval={**EVAL, "sets": sets}, **SMALL) as run:
        answers = {group.task.id for group in run.groups(0, "held_out.longer")}
        assert answers == {CharCount(most=1).tasks("test")[index].id for index in range(2)}


def test_sets_are_shown_framed_exported_and_compared(measured: RunReader, plain: RunReader, tmp_path: Path) -> None:
    folder = str(measured.folder)
    shown = command("show", folder).stdout
    assert "set sums, baseline" in shown and "set sums, step 2" in shown
    assert "held-out.sums:0:1:0" in command("show", folder, "held-out.sums:0").stdout
    assert command("show", folder, "held-out.sums:0:1:0").returncode == 0
    assert "held-out.sums:" in command("show", folder, "held-out.sums:1").stderr, "the error names a step that there is"
    assert str(parse_address("held-out.sums:0:1")) == "held-out.sums:0:1"
    assert command("doctor", folder).returncode in (0, 1) and command("replay", folder).returncode == 0
    columns, rows = evaluations(measured)
    assert [row["step"] for row in rows if row["set"] == "sums"] == [0, 2] and columns[0].name == "set"
    count = sum(export_rollouts(measured.folder, tmp_path / "r.jsonl").values())
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len(lines) == count and {json.loads(line)["set"] for line in lines} == {"", *SETS}
    value = measured.evaluations("sums")[-1].body["pass_at"]["1"]["value"]
    assert final_of("sums")(measured) == value
    assert gain_of("sums")(measured) == value - measured.evaluations("sums")[0].body["pass_at"]["1"]["value"]
    assert group_runs([measured.folder], "sums")[0].finals == {0: value}
    with pytest.raises(RunError, match="no evaluation set"):
        group_runs([plain.folder], "sums")


def test_a_policy_is_evaluated_on_the_sets_as_before_a_run(measured: RunReader) -> None:
    words = ["char_count", "eval.tasks=2", "rollout.max_tokens=12", "workers.count=1", "group=2",
             "eval.sets.greedy.temperature=0", "eval.sets.greedy.samples=2", "eval.sets.sums.env=arithmetic",
             "eval.sets.sums.tasks=3"]  # fmt: skip
    found = json.loads(command("eval", *words, "--json").stdout)
    assert list(found["sets"]) == ["greedy", "sums"]
    for name in ("greedy", "sums"):
        before = measured.evaluations(name)[0].body
        assert found["sets"][name]["pass_at"] == before["pass_at"] and found["sets"][name]["length"] == before["length"]
    shown = command("eval", *words).stdout
    assert shown.count("pass@1") == 3 and "\nset greedy\n" in shown and "\nset sums\n" in shown
    assert "sets" not in json.loads(command("eval", *words[:5], "--json").stdout)


def test_a_replay_judges_every_set_with_its_own_environment(measured: RunReader) -> None:
    counts = {name: measured.count(f"held_out.{name}") for name in SETS}
    main = measured.count("rollout") + measured.count("held_out")
    assert all(counts.values())
    found = replay(measured.folder)
    assert (found.judged, found.unjudged, found.flips) == (main + sum(counts.values()), 0, ())


def test_options_and_a_named_verifier_are_for_the_sets_in_the_environment_of_the_run(measured: RunReader) -> None:
    counts = {name: measured.count(f"held_out.{name}") for name in SETS}
    main = measured.count("rollout") + measured.count("held_out")
    others = counts["sums"] + counts["poker"]
    found = replay(measured.folder, options={"format": 7.0, "correct": 9.0})
    assert found.judged == main + sum(counts.values())
    kinds = {flip.address.split(":")[0] for flip in found.flips if "held-out." in flip.address}
    assert kinds <= {"held-out.greedy", "held-out.longer"} and found.flips
    named = replay(measured.folder, "char_count", {"format": 7.0, "correct": 9.0})
    assert (named.judged, named.unjudged) == (main + counts["greedy"] + counts["longer"], others)
    assert f"left out     {others} rollouts of evaluation sets" in replay_text(named.body(), measured.folder)


def test_a_task_of_a_set_that_changed_is_found(measured: RunReader, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    shutil.copytree(measured.folder, folder)
    recipe = folder / "recipe.toml"
    changed, count = re.subn(r"length = \[\s*8,", "length = [9,", recipe.read_text())
    assert count == 1
    recipe.write_text(changed)
    with pytest.raises(RunError, match="E142"):
        replay(folder, trust=True)
