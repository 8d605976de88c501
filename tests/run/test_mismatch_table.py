"""`gnomon mismatch`: every dtype of the learner beside every dtype of the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gnomon.api import configure
from gnomon.run.mismatch import Line, lines, lines_text
from models.kinds import save

SMALL: dict[str, Any] = {"prompts": 2, "group": 2, "max_tokens": 8, "threads": 1}
DTYPES = ("float32", "bfloat16", "float16")


def table(**settings: Any) -> dict[tuple[str, str], Line]:
    config, _ = configure("char_count", {**SMALL, **settings})
    return {(line.dtype, line.engine_dtype): line for line in lines(config, lambda what: None)}


def test_only_an_engine_that_computes_as_the_learner_does_has_no_difference() -> None:
    found = table()
    assert set(found) == {(one, other) for one in DTYPES for other in DTYPES}
    assert found["float32", "float32"].metrics["logp_mismatch"] == 0
    for one, other in found:
        if one != other:
            assert found[one, other].metrics["logp_mismatch"] > 0
    coarse, fine = (found["float32", name].metrics["mismatch/mean"] for name in ("bfloat16", "float16"))
    assert fine < coarse / 2, "8 times finer by its bits; the tokens that are sampled differ, so half is asked for"
    text = lines_text(list(found.values()))
    assert len(text.splitlines()) == 10 + len({line.finer for line in found.values()} - {""})


def test_an_engine_dtype_that_is_set_is_the_only_one() -> None:
    assert set(table(engine={"dtype": "bfloat16"})) == {(name, "bfloat16") for name in DTYPES}


def test_a_model_that_overflows_has_no_float16(tmp_path: Any) -> None:
    found = table(policy={"path": str(save("gemma3", tmp_path))})
    for pair, line in found.items():
        assert bool(line.failed) == ("float16" in pair) and not line.finer
        assert not line.failed or "overflow" in line.failed


def test_what_float16_would_do_is_below_the_table_where_a_correction_is_advised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The built-in policy is so small that its difference is far below every bound."""
    monkeypatch.setattr("gnomon.monitoring.mismatch.DIVERGENCE", 0.0)
    config, _ = configure("char_count", {**SMALL, "engine": {"dtype": "bfloat16"}})
    line = next(lines(config, lambda what: None))
    assert line.advice == "tis" and "engine.dtype=float16" in line.finer
    assert lines_text([line, line]).splitlines()[-1] == line.finer
    assert torch.get_num_threads() == 1
