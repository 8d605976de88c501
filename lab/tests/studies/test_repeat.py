"""Studies repeated by their command from fresh clones: the same bytes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "repeat_studies.py"
TRAINED = """
from gnomon_lab.studies import Claim, Study, final, last_steps

study = Study(
    question="Does training at a rate of nearly zero gain less?",
    why="Two arms that train, two seeds, two steps each.",
    base="char_count",
    settings={"steps": 2, "prompts": 2, "group": 2, "eval.tasks": 4, "workers.count": 1},
    arms={"still": {"lr": 1e-9}, "moving": {"lr": 1e-3}},
    seeds=(0, 1),
    measures={"final": final, "entropy": last_steps("entropy", 1)},
    claims=[Claim(measure="entropy", arm="moving", than="still")],
    prediction={"PASS": 0.1, "FAIL": 0.1, "INCONCLUSIVE": 0.8},
)
"""
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def repeat() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repeat_studies", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["update-scale", "difficulty-bias"])
def test_an_exact_study_from_a_fresh_clone_gives_the_shipped_bytes(
    repeat: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert repeat.compared(name, [repeat.clone(tmp_path / "clone")], 2)
    assert "2 files equal to the shipped files" in capsys.readouterr().out


def test_a_study_that_trains_gives_the_same_bytes_in_two_clones(
    repeat: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rates.py").write_text(TRAINED)
    clones = [repeat.clone(tmp_path / name) for name in "ab"]
    assert repeat.compared(str(tmp_path / "rates.py"), clones, 2)
    assert "clone 2" in (out := capsys.readouterr().out) and "3 files equal to clone 1" in out
    assert (clones[1] / "studies/rates/runs/moving/1/journal.db").exists()


def test_files_that_differ_or_are_missing_are_named(repeat: ModuleType) -> None:
    assert repeat.different({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"3", "c": b""}) == ["b", "c"]
