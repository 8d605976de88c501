"""The laws of the house: floors, light imports, public names, settings that agree with what they set."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gnomon
from gnomon import config
from gnomon.envs import ENVS
from gnomon.objectives import TABLE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gnomon"
LIGHT = [
    "types",
    "keys",
    "stats",
    "errors",
    "config",
    "objectives.options",
    "sandbox",
    "workers",
    "verifiers",
    "envs",
    "envs.check",
    "audit",
    "store",
    "cli",
    "run.find",
    "reading.rollouts",
    "reading.summary",
    "reading.folders",
    "reading.tail",
    "export.rollouts",
    "comparison.bits",
    "viewer",
]
HEAVY = {"torch", "transformers", "vllm", "ray", "numpy", "tokenizers"}


def test_the_floors_stand():
    pytest.importorskip("gnomon_lab")  # A contract names it.
    done = subprocess.run([Path(sys.executable).parent / "lint-imports"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["gnomon", *(f"gnomon.{name}" for name in LIGHT)])
def test_light_modules_import_nothing_heavy(name):
    code = f"import sys, {name}; print(sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_help_is_light():
    code = (
        "import sys\nsys.argv = ['gnomon', '--help']\nfrom gnomon.cli import main\n"
        f"try:\n main()\nexcept SystemExit:\n pass\nassert not {HEAVY!r} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "train" in done.stdout, done.stderr


@pytest.mark.parametrize("words", [["char_count", "lrr=3"], ["char_count", "optim.lr=abc"], ["char_counts"]])
def test_a_mistake_in_a_setting_is_found_with_few_imports(words):
    code = (
        f"import sys\nsys.argv = ['gnomon', 'train', *{words}]\nfrom gnomon.cli import main\n"
        "try:\n main()\nexcept SystemExit:\n pass\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    others = {f"gnomon.envs.{name}" for name in ENVS if name != "char_count"}
    late = {
        "gnomon.store",
        "gnomon.audit",
        "gnomon.training",
        "gnomon.run.parts",
        "gnomon.integrations.environments.hosted",
    }
    assert "error[E0" in done.stderr
    assert not (HEAVY | {"scipy", "sympy", "http.client"} | others | late) & loaded
    assert len(loaded) < 500, "481 were needed when this was written, and torch alone brings a thousand"


@pytest.mark.parametrize(("given", "spins"), [({}, False), ({"OMP_WAIT_POLICY": "active"}, True)])
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(given, spins):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", "import gnomon, torch"],
        capture_output=True, text=True, env={**environment, "OMP_DISPLAY_ENV": "verbose", **given},
    )  # fmt: skip
    if "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip("this torch has an OpenMP that does not show its settings")
    assert ("OMP_WAIT_POLICY = 'ACTIVE'" in done.stderr) == spins, done.stderr


def test_public_names_are_sorted_complete_and_there():
    assert gnomon.__all__ == sorted(gnomon.__all__) and set(gnomon.HOME) == set(gnomon.__all__) - {
        "__version__",
        "loop",
    }
    for name in gnomon.__all__:
        assert getattr(gnomon, name) is not None


MODULES = [info.name for info in pkgutil.walk_packages(gnomon.__path__, "gnomon.")]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_names_what_it_offers(name):
    if name.endswith("_kernel"):
        pytest.importorskip("triton")  # A part of torch's builds for CUDA alone.
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.{public} is promised and not there"


def test_the_page_is_a_page():
    lines = (ROOT / "src/gnomon/training/loop.py").read_text().splitlines()
    assert len(lines) <= 110


def test_environments_are_short():
    for path in (ROOT / "src/gnomon/envs").glob("*.py"):
        if path.stem in ("countdown", "char_count", "scramble", "arithmetic"):
            assert len(path.read_text().splitlines()) <= 60, path


def test_few_settings():
    leaves = [key for key in config.leaves(config.DEFAULTS) if not key.startswith("objective.")]
    assert len(leaves) <= 101


def test_the_default_recipe_repeats_itself():
    import tomllib

    text = config.to_toml(config.RunConfig())
    again, _ = config.resolve([config.Source(tomllib.loads(text), {})])
    assert again == config.RunConfig()


def test_recipes_that_ship_are_sound():
    for path in (ROOT / "src/gnomon/recipes").glob("*.toml"):
        config.resolve([config.load(path)])


def test_what_make_quick_runs_exists():
    for line in (ROOT / "tests/quick.txt").read_text().splitlines():
        file, _, name = line.partition("::")
        assert (ROOT / file).exists() and (not name or f"def {name}(" in (ROOT / file).read_text()), line


def test_where_a_run_samples_and_learns_is_decided_in_one_place() -> None:
    """Its makers may know concrete engines and learners; everybody else asks `RunConfig.placement`."""
    setting = r"\b(?:config|self)\.(?:learner|engine\.type|launch\.type)"
    text = re.compile(setting + r"(?: ==| !=| in | not in |\.startswith)")
    known = {"config/sections.py", "config/placement.py"}
    found = {
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for file in SOURCE.rglob("*.py")
        if str(file.relative_to(SOURCE)) not in known
        for line in file.read_text("utf-8").splitlines()
        if text.search(line)
    }
    assert found == set()


def test_readme_is_short_and_counts_right_and_the_weights_are_small():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 80 and f"lists the {len(TABLE)} objectives" in readme
    weights = ROOT / "src/gnomon/models/tiny/model.safetensors"
    assert weights.stat().st_size <= 2 * 2**20


TEXT = {"r", "w", "a", "x", "r+", "w+", "a+"}


def unencoded(call: ast.Call) -> bool:
    """Whether a call reads or writes text in the encoding of the user's locale, which may have ASCII alone."""
    if {"encoding", "errors"} & {keyword.arg for keyword in call.keywords}:
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first, *rest = [*(getattr(each, "value", "") for each in call.args), "", ""]
    if name in ("read_text", "write_text"):
        return len(call.args) < 1 + (name == "write_text")
    if name == "open":
        return first in TEXT if isinstance(call.func, ast.Attribute) else (rest[0] or "r") in TEXT
    pipes = [keyword for keyword in call.keywords if keyword.arg in ("text", "universal_newlines")]
    return name in ("run", "Popen", "check_output") and bool(pipes)


@pytest.mark.parametrize("folder", sorted(path for path in (ROOT / "src/gnomon").iterdir() if path.is_dir()))
def test_no_file_is_read_or_written_in_the_encoding_of_the_locale(folder):
    library = ROOT / "lab/src/gnomon_lab/studies/library"  # Registered by hash.
    for path in folder.rglob("*.py"):
        if library not in path.parents:
            calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
            assert not [f"{path}:{call.lineno}" for call in calls if unencoded(call)]
