"""`gnomon eval suite`: benchmarks of a hub on this machine, in small, with their columns, types and splits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import python
from gnomon.envs import Dataset
from gnomon.envs.choice_rows import ChoiceRows
from gnomon.errors import ConfigError
from gnomon.run.suite import SUITE
from models.hub_cache import ONE, Stored, serving

pytest.importorskip("datasets")
from envs.hub_rows import DATA  # It needs pyarrow.

NAMES = {name: of["env"]["path"] for name, of in SUITE.items()}
AS_AN_INTERPRETER = (
    "import importlib, huggingface_hub.constants; importlib.reload(huggingface_hub.constants)\n"
    "from gnomon.cli import main; main()"
)
"""The fork has read the hub's variables before they were set."""
SMALL = ("policy=tiny", "eval.tasks=2", "eval.samples=2", "rollout.max_tokens=4", "workers.count=1")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A hub with every set but GPQA, whose data is gated, and an empty cache."""
    repos = {f"datasets/{name}": Stored({ONE: DATA[name]()}, {"main": ONE}) for name in set(NAMES.values())}
    del repos["datasets/Idavidrein/gpqa"]
    with serving(repos) as (url, _):
        yield {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path_factory.mktemp("home")), "OMP_NUM_THREADS": "1"}


@pytest.mark.needs("bwrap")
def test_every_set_is_measured_and_one_that_is_missing_is_named(home: dict[str, str], tmp_path: Path) -> None:
    words = ("eval", "suite", *SMALL, "--pins", "pins.json", "--json")
    done = python("-c", AS_AN_INTERPRETER, *words, env=home, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert list(found) == list(SUITE) and "E150" in found.pop("gpqa")["error"]
    for name, of in found.items():
        assert of["pass_at"]["1"]["n"] == 2 and of["samples"] == 2 and of["max_tokens"] == 4, name
        assert of["temperature"] == SUITE[name]["rollout"]["temperature"]
    assert json.loads((tmp_path / "pins.json").read_text()) == {name: of["sha256"] for name, of in found.items()}


def test_other_rows_than_the_pinned_ones_are_refused(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pins.json").write_text(json.dumps({"aime24": "0" * 64}))
    done = python("-c", AS_AN_INTERPRETER, "eval", "aime24", *SMALL, "--pins", "pins.json", env=home, cwd=tmp_path)
    assert done.returncode == 2 and "E164" in done.stderr and "gnomon eval aime24 env.revision=COMMIT" in done.stderr
    assert json.loads((tmp_path / "pins.json").read_text()) == {"aime24": "0" * 64}


def test_a_folder_of_the_same_shape_is_read(tmp_path: Path) -> None:
    for path, body in DATA["Idavidrein/gpqa"]().items():
        (tmp_path / path).write_bytes(body)
    options = {key: value for key, value in SUITE["gpqa"]["env"].items() if key != "type"}
    env = ChoiceRows(**options | {"path": str(tmp_path)})
    tasks = env.tasks("test")
    assert len(tasks) == 19
    letters = {task.answer for task in (tasks[place] for place in range(19))}
    assert len(letters) > 2, "the right option is not always the first"
    task = next(task for task in tasks if " 7," in task.messages[-1].content)
    assert set(task.info["options"]) == {"7", "8", "9", "10"}
    assert task.info["options"]["ABCD".index(str(task.answer))] == "7"
    assert env.verify(task, f"<answer>{env.solution(task)}</answer>").correct


def test_a_data_set_that_is_all_held_out_is_not_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{n} + 1?", "answer": str(n + 1)}) + "\n" for n in range(9)))
    env = Dataset(path=str(path), test="*")
    assert {task.id for task in env.tasks("test")} == {task.id for task in env.tasks("train")}
    assert len(env.tasks("test")) == 9
    with pytest.raises(ConfigError) as caught:
        _ = env.remarks
    assert caught.value.code == "E151" and caught.value.fix == "env.test=''"
