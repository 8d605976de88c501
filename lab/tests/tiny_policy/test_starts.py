"""Policies that studies begin with, made from the shipped one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gnomon.envs.kuhn_value import CARDS
from gnomon.models.policy import Policy
from gnomon_lab.strategy import read
from gnomon_lab.tiny_policy import beginner, build
from gnomon_lab.tiny_policy.build import Recipe, loss_of
from gnomon_lab.tiny_policy.recipes import single
from gnomon_lab.tiny_policy.shallow import shallow


def nats(policy: Policy) -> float:
    """Per token of documents that no training here has seen."""
    recipe = Recipe(seed=9, tasks=8, courses=single(10, {"char_count": 1.0}, care=0.0))
    with torch.no_grad():
        loss, tokens = loss_of(policy, list(build.documents(recipe, 0, 0)))
    return float(loss) / tokens


def test_a_shallow_policy_has_fewer_layers_and_reads_the_corpus_again(tmp_path: Path) -> None:
    """After 10 steps a token has 1.13 nats, after 40 it has .87; `tiny` has .43. The seed fixes all three."""
    early = Policy.load(shallow(tmp_path / "early", "char_count", steps=10))
    fitted = Policy.load(shallow(tmp_path / "fitted", "char_count", steps=40))
    assert fitted.model.config.num_hidden_layers == 2 and len(fitted.state()) < len(Policy.load("tiny").state())
    assert nats(Policy.load("tiny")) < nats(fitted) < 0.8 * nats(early)


@pytest.mark.long
def test_a_beginner_bets_more_with_better_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the steps, the chances are within .15 of two, five and eight in ten."""
    monkeypatch.setattr(beginner, "WAYS", 1)
    monkeypatch.setattr(beginner, "LONG", 60)
    play = read(Policy.load(beginner.beginner(tmp_path / "base")))
    for (card, line), bet in play.bets.items():
        assert bet == pytest.approx(0.2 + 0.3 * CARDS.index(card), abs=0.15), (card, line)
    assert play.least_legal > 0.9
