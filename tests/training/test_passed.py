"""Parts that are passed as Python objects give the same bytes as those that the settings name."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from gnomon.envs import CharCount
from gnomon.errors import ConfigErrors, RunError
from gnomon.store import RunReader

SMALL: dict[str, Any] = {
    "threads": 1,
    "steps": 3,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 16},
    "eval": {"every": 2, "tasks": 2},
}


class Wrapped(gnomon.loop.Embedded):
    """An engine of the user's own."""


def made() -> dict[str, Any]:
    """The parts that the settings would make, as objects."""
    config, _ = gnomon.loop.configure("char_count", SMALL)
    parts = gnomon.loop.build(config)
    engine = Wrapped(gnomon.loop.Policy.load("tiny"))
    return {"engine": engine, "learner": parts.learner, "objective": parts.objective}


def bodies(folder: Path) -> Iterator[Any]:
    """All that was recorded after the first record, which names the parts."""
    with RunReader(folder) as reader:
        assert reader.status == "finished"
        yield from ((r.kind, r.step, r.task, r.sample, r.body) for r in reader.records() if r.kind != "genesis")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "named"
    gnomon.train("char_count", run=folder, engine="embedded", learner="local", quiet=True, **SMALL).close()
    return folder


def test_objects_give_the_records_that_names_give(named, tmp_path):
    gnomon.train(CharCount(), run=tmp_path / "r", quiet=True, **SMALL, **made()).close()
    assert list(bodies(tmp_path / "r")) == list(bodies(named))
    recipe = tomllib.loads((tmp_path / "r" / "recipe.toml").read_text())
    assert recipe["env"]["type"] == "char_count"
    assert (recipe["engine"]["type"], recipe["learner"]) == ("object:Wrapped", "object:LocalLearner")
    assert recipe["objective"] == {"type": "object:dr_grpo"}
    with RunReader(tmp_path / "r") as reader:
        sources = reader.manifest["objects"]
        assert set(sources) == {"engine", "learner", "objective"}
        assert "class Wrapped" in sources["engine"]["source"]


def test_a_run_with_objects_says_that_no_command_can_resume_it(named, tmp_path):
    run, limited = tmp_path / "r", {**SMALL, "budget": {"seconds": 1e-3}}
    gnomon.train("char_count", run=run, quiet=True, **limited, **made()).close()
    for words in (("resume", str(run)), ("train", str(run / "recipe.toml"), f"run={tmp_path / 'other'}")):
        done = command(*words)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "passed as a Python object" in done.stderr
    assert not (tmp_path / "other").exists()
    with pytest.raises(RunError, match="engine is Wrapped"):
        gnomon.resume(run, quiet=True, **{**made(), "engine": None})
    with pytest.raises(RunError, match="engine is Wrapped in the recipe, and Embedded was passed"):
        gnomon.resume(run, quiet=True, **{**made(), "engine": gnomon.loop.Embedded(gnomon.loop.Policy.load("tiny"))})
    while RunReader(run).status != "finished":
        gnomon.resume(run, quiet=True, **made()).close()
    assert list(bodies(run)) == list(bodies(named))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"engine": object()}, "engine is a object, which has no close, load, sample"),
        ({"engine": gnomon.loop.Embedded}, "engine is the class Embedded"),
        ({"learner": 3}, "learner is a int, which has no"),
        ({"objective": 3}, "objective is a int, which is no objective"),
        ({"engine": "sglang"}, "engine.type is 'sglang'"),
        ({"engine": "vllm"}, "engine.type=vllm needs engine.python"),
        ({"engine": {"python": "/bin/python"}}, "engine.python cannot be used with engine.type=embedded"),
        ({"learner": "remote"}, "learner is 'remote'"),
    ],
)
def test_what_is_no_such_part_is_refused_before_the_run(tmp_path, parts, says):
    with pytest.raises(ConfigErrors) as caught:
        gnomon.train("char_count", run=tmp_path / "r", quiet=True, **SMALL, **parts)
    assert says in str(caught.value) and not (tmp_path / "r").exists()
