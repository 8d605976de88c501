"""The twelve pairs of `benchmarks/divergence.py`, and a pair of TRL and Gnomon that agree."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("datasets")
if not __import__("trl").__version__.startswith("1.16."):
    pytest.skip("needs trl 1.16", allow_module_level=True)

from gnomon.comparison.diverge import diverge

spec = importlib.util.spec_from_file_location("divergence", Path(__file__).parents[2] / "benchmarks" / "divergence.py")
assert spec and spec.loader
pairs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pairs)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run: Path = pairs.run_of_trl(tmp_path_factory.mktemp("trl"))
    return run


@pytest.mark.every
@pytest.mark.parametrize("name", pairs.STAGES)
def test_a_planted_difference_is_found_in_its_stage(name: str, base: Path, tmp_path: Path) -> None:
    found = pairs.parted(name, base, tmp_path)
    assert (found.stage, found.step, found.unknown) == (pairs.STAGES[name], 0, ())


def test_trl_and_gnomon_agree_where_they_mean_the_same(tmp_path: Path) -> None:
    run = pairs.run_of_trl(tmp_path, loss_type="dr_grpo", scale_rewards="none")
    found = diverge(run, pairs.again_by_gnomon(run, tmp_path / "gnomon", type="dr_grpo"), 1e-4)
    assert not found and found.steps == 1 and found.unknown == ()
