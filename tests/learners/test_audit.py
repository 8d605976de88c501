"""On the policy that ships, rows give on average what they declare: sampled by the engine, enumerated over all answers.

300 groups of 4; along the gradient of the success rate the standard error is then about a twentieth of the expectation.
Each of 33 rows and 4 directions must lie within 4 standard errors, which at a fixed seed is no lottery: rows share the
rollouts, so that about one honest seed in a thousand would fail.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from gnomon.objectives import TABLE, objective


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "benchmark_audit", Path(__file__).parents[2] / "benchmarks" / "audit.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses look their module up.
    spec.loader.exec_module(module)
    return module


def test_every_row_gives_on_average_what_it_declares(bench: ModuleType) -> None:
    found = bench.audit(bench.audited(), groups=300)
    assert {finding.name for finding in found} == set(bench.audited()) <= set(TABLE)
    assert sum(finding.counts for finding in found) >= 20
    assert {finding.name: finding.off for finding in found if finding.off >= 4} == {}
    # The learner works in float32, the table of scores in double precision; rounding leaves about 1e-6.
    assert {finding.name: finding.gap for finding in found if finding.gap >= 1e-4} == {}


@pytest.mark.parametrize(("name", "other"), [("maxrl", "reinforce"), ("reinforce_centred", "rloo")])
def test_a_row_held_to_the_expectation_of_another_is_found_out(bench: ModuleType, name: str, other: str) -> None:
    """Another weight of hard prompts, or the same one a quarter too small."""
    wrong = replace(objective(name), target=objective(other).target)
    (finding,) = bench.audit({name: wrong}, groups=300, backward=False)
    assert finding.off > 4


def test_the_enumerated_answers_are_all_there_are(bench: ModuleType) -> None:
    _, answers = bench.prepared(0)
    assert float(answers.chance.sum()) == pytest.approx(1, abs=1e-12)
    short = int((answers.length == 1).sum())
    assert len(answers.chance) == short + (102 - short) * 102
    # Both lengths are common and so are both rewards, or the rows could not be told apart.
    assert 0.2 < float(answers.chance[answers.length == 1].sum()) < 0.8
    assert 0.2 < float(answers.chance @ answers.reward) < 0.8
    # Scores have mean zero, up to the third derivative that a central difference of 1e-4 leaves.
    assert float((answers.chance @ answers.score).abs().max()) < 1e-5
    slopes = (answers.chance * answers.reward) @ answers.score
    assert float(slopes[0]) > 3 * float(slopes[1:].abs().max()), "no direction is steeper than the gradient"
