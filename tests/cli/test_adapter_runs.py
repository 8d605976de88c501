"""A run that trained an adapter is taken wherever a run is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from fixes import pasted, printed
from gnomon.comparison.transfer import transfer
from gnomon.config import resolve
from gnomon.errors import ConfigErrors
from gnomon.run.find import check_policy_config
from gnomon.run.subject import layers, with_checkpoints

SMALL: dict[str, Any] = {
    "steps": 1, "prompts": 4, "group": 2, "max_tokens": 8, "quiet": True, "workers": {"count": 1},
    "eval": {"tasks": 2}, "lr": 1e-2,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an adapter, and a run of every weight."""
    folder = tmp_path_factory.mktemp("runs")
    gnomon.train("char_count", run=folder / "adapter", lora=4, **SMALL)
    gnomon.train("char_count", run=folder / "full", **SMALL)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "eval char_count policy={} eval.tasks=2 rollout.max_tokens=8",
        "env prompt char_count policy={}",
        "audit char_count --tasks 4 --policy {} --json",
    ],
)
@pytest.mark.parametrize("name", ["{}", "{}:1", "{}/checkpoints/000001"])
def test_a_command_that_measures_takes_a_run(runs: Path, words: str, name: str) -> None:
    done = command(*words.format(name.format(runs / "adapter")).split())
    assert done.stdout and "error[" not in done.stderr, done.stderr


@pytest.mark.parametrize("run", ["adapter", "full"])
@pytest.mark.parametrize("name", ["{}", "{}:1", "{}/checkpoints/000001"])
def test_the_policy_is_that_of_the_checkpoint(runs: Path, run: str, name: str) -> None:
    words = [f"policy={name.format(runs / run)}"]
    config, _ = resolve(with_checkpoints(layers("char_count", words)), [check_policy_config])
    model = gnomon.loop.Policy.load(Path(config.policy.path))
    folder = runs / f"{run}-{len(name)}"
    gnomon.RunReader(runs / run).export(folder, step=1, merged=run == "adapter")
    wanted = gnomon.loop.Policy.load(folder)
    for (key, value), (_, other) in zip(model.model.named_parameters(), wanted.model.named_parameters(), strict=True):
        assert value.equal(other), key


@pytest.mark.parametrize("run", ["adapter", "full", "adapter/checkpoints/000001"])
def test_training_from_a_run_names_the_command_that_works(runs: Path, run: str) -> None:
    words = ["train", "char_count", f"policy={runs / run}", f"run={runs}/never"]
    done = command(*words)
    (error,) = printed(done.stderr)
    assert done.returncode == 2 and error.code in ("E301", "E321")
    now = pasted(words, error, runs)
    assert now is not None
    if now[0] == "export":
        assert command(*now).returncode == 0
        now = [*words[:2], f"policy={now[2]}"]
    resolve(layers(now[1], [word for word in now[2:] if not word.startswith("run=")]), [check_policy_config])


@pytest.mark.long
def test_a_run_that_begins_with_a_merged_adapter_is_put_behind_its_run(runs: Path) -> None:
    """Also where rounding makes other weights of them; not where the folder has changed since."""
    gnomon.RunReader(runs / "adapter").export(runs / "model", merged=True, dtype="bfloat16")
    gnomon.train("arithmetic", run=runs / "second", policy=str(runs / "model"), lora=2, **SMALL)
    folders = [runs / "second", runs / "adapter"]
    second, first = transfer(folders).rows
    assert (second.name, second.follows) == ("char_count, then arithmetic", "char_count") and first.follows == ""
    facts = json.loads(command("transfer", *map(str, folders), "--json").stdout)
    assert {each["row"] for each in facts["forgetting"]} == {"char_count, then arithmetic"} or not facts["forgetting"]
    weights = runs / "model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    assert [row.follows for row in transfer(folders).rows] == ["", ""]


def test_a_step_without_a_checkpoint_is_named(runs: Path) -> None:
    done = command("eval", "char_count", f"policy={runs}/adapter:7")
    assert done.returncode == 1 and "error[E185]" in done.stderr
    with pytest.raises(ConfigErrors, match="E301"):
        resolve(layers("char_count", [f"policy={runs}/adapter:7"]), [check_policy_config])
