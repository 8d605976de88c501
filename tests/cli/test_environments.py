"""`gnomon env list`, `gnomon new env`, `gnomon rank`: from a name to a checked file, from a run to a subset."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gnomon
from gnomon.cli import app
from gnomon.envs import ENVS, Dataset
from gnomon.envs.check import check_env
from gnomon.errors import ConfigError, RunError
from gnomon.run.find import env_class
from gnomon.store import RunReader


def told(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_list_names_every_environment_and_what_it_asks() -> None:
    facts = {fact["name"]: fact for fact in json.loads(told("env", "list", "--json"))}
    assert set(facts) == set(ENVS)
    assert facts["kuhn_poker"]["players"] == 2 and facts["kuhn_poker"]["reward_range"] == [-2, 2]
    assert facts["arithmetic"]["turns"] == 1 and facts["guess_number"]["options"] == {"largest": 20, "guesses": 5}
    slots = {"code": "One ```python block.", "repair": "has one fault"}
    assert all(slots.get(name, "<answer>...</answer>") in fact["prompt"] for name, fact in facts.items())
    assert [line.split()[0] for line in told("env", "list").splitlines()] == sorted(ENVS)


@pytest.mark.parametrize("turns", [False, True])
def test_a_new_environment_passes_the_check_as_it_stands(
    turns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = told("new", "env", "my_task", *["--turns"] * turns)
    assert output.splitlines()[-1] == "next: gnomon check my_task.py:MyTask"
    assert len((tmp_path / "my_task.py").read_text().splitlines()) <= 60
    report = check_env(env_class("my_task.py:MyTask")(), tasks=60)
    assert report.passed, str(report)
    before = (tmp_path / "my_task.py").read_bytes()
    with pytest.raises(ConfigError, match="E158"):
        CliRunner().invoke(app, ["new", "env", "my_task"], catch_exceptions=False)
    assert (tmp_path / "my_task.py").read_bytes() == before, "nothing is written over"


@pytest.mark.parametrize("name", ["My task", "9lives", "class", "MyTask", "../up", "naïve", ""])
def test_a_name_that_python_cannot_import_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="E157"):
        CliRunner().invoke(app, ["new", "env", name, "--folder", str(tmp_path)], catch_exceptions=False)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on the data set that ships: six rows of it, so that they are met again."""
    folder = tmp_path_factory.mktemp("rank") / "run"
    rows = tuple(task.info["row"] for task in list(Dataset().tasks("train"))[:6])
    with gnomon.train(
        Dataset(rows=rows, format=0.5), run=folder, quiet=True, steps=3, objective="rloo",
        rollout={"prompts": 4, "group": 2, "max_tokens": 12}, eval={"tasks": 2, "samples": 1},
    ):  # fmt: skip
        return folder


def test_a_run_ranks_its_tasks_and_a_data_set_keeps_the_first(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranked.json"
    facts = json.loads(told("rank", str(run), "--out", str(out), "--json"))
    assert json.loads(out.read_text()) == facts
    tasks = facts["tasks"]
    earned: dict[int, list[float]] = {}
    with RunReader(run) as reader:
        for row in reader.rollout_rows():
            assert row.task is not None and row.reward is not None
            earned.setdefault(row.task, []).append(row.reward)
    assert {task["index"] for task in tasks} == set(earned) and len(tasks) <= 6
    for task in tasks:
        rewards = earned[task["index"]]
        mean = sum(rewards) / len(rewards)
        assert task["mean"] == pytest.approx(mean) and task["visits"] * 2 == len(rewards)
        assert task["variance"] == pytest.approx(sum((r - mean) ** 2 for r in rewards) / len(rewards))
        assert task["drift"] <= task["variance"] + 1e-12, "the spread of means is part of the whole spread"
    assert [task["variance"] for task in tasks] == sorted((task["variance"] for task in tasks), reverse=True)
    env = Dataset(ranked=str(out), first=3)
    assert [task.id for task in env.tasks("train")] == [task["id"] for task in tasks[:3]]
    by_drift = json.loads(told("rank", str(run), "--by", "drift", "--json"))["tasks"]
    assert [task["drift"] for task in by_drift] == sorted((task["drift"] for task in tasks), reverse=True)
    assert f"{len(tasks)} tasks" in told("rank", str(run))


def test_indices_of_one_id_are_ranked_as_one_task(tmp_path: Path) -> None:
    """Three rows, each of them four times in the split: the run meets a row under several indices."""
    rows = tmp_path / "rows.jsonl"
    lines = [{"prompt": f"What is {n}+{n}?", "answer": str(2 * n), "split": "train"} for n in range(3)]
    lines.append({"prompt": "What is 9+9?", "answer": "18", "split": "test"})
    rows.write_text("\n".join(json.dumps(line) for line in lines))
    env = Dataset(path=str(rows), split="split", repeat=4)
    small = {"threads": 1, "steps": 2, "prompts": 12, "group": 2, "max_tokens": 4, "eval": {"tasks": 1}}
    gnomon.train(env, run=tmp_path / "run", quiet=True, **small).close()
    facts = json.loads(told("rank", str(tmp_path / "run"), "--json"))["tasks"]
    assert len(facts) == 3 and len({fact["id"] for fact in facts}) == 3
    assert all(fact["visits"] == 2 and fact["index"] < 3 for fact in facts)


def test_what_cannot_be_ranked_says_so(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--by variance"):
        CliRunner().invoke(app, ["rank", str(run), "--by", "luck"], catch_exceptions=False)
    with pytest.raises(RunError):
        CliRunner().invoke(app, ["rank", str(tmp_path)], catch_exceptions=False)
