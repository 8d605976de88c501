"""No output of a model breaks a renderer or a parser; 10 000 per renderer by `python tests/rendering/fuzz.py 10000`."""

from __future__ import annotations

import pytest

from rendering.fuzz import RENDERERS, play


@pytest.mark.parametrize("name", RENDERERS)
def test_hundreds_of_outputs_are_read_and_followed(name, tokenizers):
    """Seed 1: another stream than the full count's. Each way to be read must have been met, or nothing was tested."""
    seen = play(name, tokenizers, 400, seed=1)
    assert sum(seen[parsing] for parsing in ("ok", "malformed", "truncated")) == 400
    if name != "plain":
        assert seen["ok"] > 5 and seen["truncated"] > 5
    if name not in ("plain", "gemma"):
        assert seen["malformed"] > 5 and seen["good calls"] > 5
