"""Every decoder that transformers ships, as a small random model: it has transformers' own log-probabilities and
trains, by the forward pass that the page names, or it is refused with a code when it is read. Tokens that are sampled
together are scored alike, where the page says `exact` with the same bits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.errors import ModelError
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.models.scoring import Completed, text_logp
from gnomon.objectives import objective
from learners.sequences import batch_of_four, credited
from models.characters import tokenizer
from models.small import NAMES, PROMPTS, TEXTS, alone, small

PAGE = (Path(__file__).parents[2] / "docs/models.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([\w.-]+)` \| ([\w ]+) \| (\w*)", PAGE, re.MULTILINE)
PASSES = {name: each for name, each, _ in ROWS}
"""The forward pass of every family, by the page."""
EXACT = {name for name, _, tier in ROWS if tier == "exact"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_decoder_agrees_with_transformers_and_trains_or_is_refused(name: str, tmp_path: Path) -> None:
    model = small(name)
    if PASSES[name] in ("not tested", "fails"):
        pytest.skip("the page says why this family is not tested")
    assert model is not None
    with torch.no_grad():
        wanted = torch.cat([alone(model, text) for text in TEXTS])
    model.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    if PASSES[name] == "refused":
        with pytest.raises(ModelError, match=r"E(303|308)"):
            Policy.load(tmp_path)
        return
    policy = Policy.load(tmp_path)
    assert policy.packs == (PASSES[name] == "packed")
    found = text_logp(policy, [Completed(text, torch.arange(len(text)) > 0) for text in TEXTS])
    assert float((found - wanted).abs().max()) < 1e-5  # Norms round in float32; a bound that is not read moves 3e-4.
    assert Embedded(policy).measure(PROMPTS, rows=3, tokens=48, reach=250) <= (0.0 if name in EXACT else 1e-4)
    learner, row = LocalLearner(policy), objective("rloo")
    learner.forward_backward(credited(learner, batch_of_four(), row), row)
    stats = learner.optim_step(1e-3)
    assert stats["grad_norm"].value > 0


def test_the_page_names_families_that_transformers_ships() -> None:
    assert set(PASSES) == set(NAMES)
    assert sum(each == "packed" for each in PASSES.values()) > 60
    assert {name for name, each in PASSES.items() if each == "packed"} == EXACT
