"""The reference is what the source says now, and it leaves nothing out."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
import typer

import gnomon
from commands import command
from gnomon.cli import app
from gnomon.config import DEFAULTS, SHORT, RunConfig, leaves
from gnomon.metrics import EVALUATION, METRICS, TIMINGS, meaning
from gnomon.objectives.options import OPTIONS
from gnomon.reference import explain, faults, settings

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_page_is_what_the_source_says():
    spec = importlib.util.spec_from_file_location("reference_page", DOCS / "reference.py")
    assert spec and spec.loader
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert (DOCS / "reference.md").read_text() == writer.page(), "out of date: python docs/reference.py"


def test_every_setting_is_there_with_its_meaning_and_its_default():
    defaults = {
        key: value
        for key, value in leaves(RunConfig().model_dump()).items()
        if key[:10] != "objective." or key == "objective.type"
    }
    assert {setting.key for setting in settings()} == set(defaults)
    assert not [setting.key for setting in settings() if not setting.text.endswith(".") or not setting.values]


def test_every_error_of_the_package_is_there():
    root = Path(gnomon.__file__).parent
    raised = {code for path in root.rglob("*.py") for code in re.findall(r'Error\(\s*"(E\d{3})"', path.read_text())}
    assert {fault.code for fault in faults()} == raised
    assert not [fault.code for fault in faults() if not fault.what]


COMMAND = re.compile(r"(?:gnomon|pip|hf|export) ")


def test_a_fix_that_is_a_command_can_be_pasted_into_a_shell():
    """A remark after it stands behind `#`: a bracket is a syntax error of bash."""
    parts = [part for fault in faults() for part in fault.fix.split(" / ") if COMMAND.match(part)]
    lines = "\n".join(part.replace("…", "x") for part in parts)
    parsed = subprocess.run(["bash", "-n"], input=lines, capture_output=True, text=True)
    assert len(parts) > 50 and not parsed.returncode, parsed.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What runs record that differ in everything that brings metrics of its own."""
    small = {"rollout": {"prompts": 4, "group": 4, "max_tokens": 24}, "eval": {"tasks": 4}, "steps": 2, "threads": 1}
    refilled = {**small, "rollout": {**small["rollout"], "refill": 1}}
    kinds = (
        {**small, "objective": "ppo", "optim": {"epochs": 2}, "regularize": {"kl": 0.01, "estimator": "full"}},
        {**refilled, "objective": "maxrl", "env": {"format": 0.0}},
        {**small, "rollout": small["rollout"] | {"lag": 1}, "policy": {"dtype": "float16"}},
        {**small, "objective": "echo", "env": {"type": "guess_number"}},
        {**small, "objective": "topr", "rollout": small["rollout"] | {"replay": 0.25, "failure_prefix": 0.5}},
    )
    found: dict[str, set[str]] = {"metrics": set(), "evaluation": set(), "timings": set()}
    for place, settings_ in enumerate(kinds):
        folder = tmp_path_factory.mktemp("reference") / str(place)
        settings = {key: _written(value) for key, value in leaves(settings_).items()}
        env = settings.pop("env.type", "char_count").strip('"')
        done = command("train", env, f"run={folder}", *(f"{key}={value}" for key, value in settings.items()))
        assert done.returncode == 0, done.stderr
        with gnomon.RunReader(folder) as reader:
            found["metrics"] |= {name for step in reader.metrics() for name in step["metrics"]}
            found["evaluation"] |= set(reader.held_out or ())
            found["timings"] |= {name for timing in reader.timings() for name in timing} - {"step", "at"}
    return found


def _written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.long
def test_every_metric_that_is_recorded_is_explained(recorded):
    assert not [name for name in recorded["metrics"] if not meaning(name)]
    assert recorded["evaluation"] == set(EVALUATION) and recorded["timings"] == set(TIMINGS)


@pytest.mark.long
def test_every_metric_that_is_explained_is_recorded(recorded):
    """Those of an engine with its own worker are in `training/test_engine_worker.py`, those of programs in
    `endpoint/test_programs.py`, and those of calls in `tools/test_lend.py`."""
    elsewhere = ("mismatch/", "engine/", "weights/", "program/", "malformed_calls", "illegal")
    measured = {name for name in METRICS if name.startswith(elsewhere)}
    patterns = {name for name in METRICS if "NAME" in name} - measured
    assert set(METRICS) - patterns - measured <= recorded["metrics"]
    assert {meaning(name) for name in recorded["metrics"]} >= {METRICS[name] for name in patterns}


def test_one_entry_is_explained_by_its_name():
    assert "Peak learning rate" in command("explain", "lr").stdout
    assert "mean over the updates" in command("explain", "grad_norm").stdout
    assert "at least one of k" in command("explain", "pass@1").stdout
    assert "fix: " in command("explain", "e032").stdout
    wrong = command("explain", "grop")
    assert wrong.returncode == 2 and "gnomon explain rollout.group" in wrong.stderr


@pytest.mark.parametrize("code", sorted({fault.code for fault in faults()}))
@pytest.mark.every
def test_what_is_explained_of_an_error_is_known_before_it_is_raised(code):
    for line in explain(code).splitlines():
        assert any(map(str.isalpha, line.replace("fix:", "").replace(code, ""))), line


def test_a_fix_names_settings_and_commands_that_exist():
    known = {
        *leaves(DEFAULTS),
        *SHORT,
        "run",
        *(f"objective.{name}" for row in OPTIONS.values() for name in row.options),
    }
    commands = typer.main.get_command(app)
    for fault in faults():
        for key in re.findall(
            r"(?<![\w.-])((?:rollout|optim|policy|engine|launch|eval|budget|save)\.[a-z_.]+)=", fault.fix
        ):
            assert key in known or key.startswith(("policy.lora", "eval.sets", "engine.arguments", "launch.")), fault
        for name in re.findall(r"(?:^|: |, or )gnomon ([a-z-]+)", fault.fix):
            assert name in commands.commands, fault
