"""A reward model of transformers scores replies, pays for them in an environment, and says what a bad folder lacks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from gnomon.envs import CharCount
from gnomon.errors import VerifierError
from gnomon.models.folder import TINY
from gnomon_lab.reward_model import RewardModel, Scoring, fit, pairwise

PROMPT = [("user", "How many?")]


def folder(path: Path, labels: int, template: str = "") -> str:
    """The tiny policy with a head of random weights."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.chat_template = template or None
    model = AutoModelForSequenceClassification.from_pretrained(TINY, num_labels=labels, dtype="float32")
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.mark.parametrize("labels", [1, 2])
def test_a_score_is_the_probability_of_the_last_label(tmp_path: Path, labels: int) -> None:
    at = folder(tmp_path, labels)
    model = AutoModelForSequenceClassification.from_pretrained(at, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(at)
    with torch.inference_mode():
        logits = model(tokenizer("How many?", "2", return_tensors="pt")["input_ids"]).logits[0].tolist()
    odds = logits[0] if labels == 1 else logits[1] - logits[0]
    assert RewardModel(folder=at).score(PROMPT, "2") == pytest.approx(1 / (1 + math.exp(-odds)), abs=1e-6)


def test_a_chat_template_is_used(tmp_path: Path) -> None:
    own = "{% for m in messages %}{{ m.role[0] }}{{ m.content }} {% endfor %}"
    chat, plain = folder(tmp_path / "chat", 1, own), folder(tmp_path / "plain", 1)
    assert RewardModel(folder=chat).score(PROMPT, "2") == pytest.approx(
        RewardModel(folder=plain).score([("user", "uHow many? a")], "2 "), abs=1e-6
    )


def test_an_environment_pays_the_score_and_keeps_the_truth(tmp_path: Path) -> None:
    env, truth = Scoring(model=folder(tmp_path, 1)), CharCount()
    task = truth.tasks("train")[0]
    right = truth.framed(truth.solution(task))
    for reply in (right, "<answer>99</answer>"):
        verdict = env.verify(task, reply)
        assert verdict.status is truth.verify(task, reply).status
        assert verdict.reward == pytest.approx(RewardModel(folder=env.model)(task, reply))


def test_a_folder_without_a_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="sequence classification") as caught:
        RewardModel(folder=str(TINY)).score(PROMPT, "2")
    assert caught.value.code == "E112" and caught.value.where == str(TINY)
    with pytest.raises(VerifierError, match="cannot be read"):
        RewardModel(folder=str(tmp_path)).score(PROMPT, "2")


def test_a_fitted_head_tells_right_replies_from_wrong_ones(tmp_path: Path) -> None:
    rows = [(f"{n} + 0", str(n) if right else "x", right) for n in range(16) for right in (True, False)]
    fit(rows, tmp_path, epochs=8, batch=8)
    score = RewardModel(folder=str(tmp_path))
    scores = [score.score([("user", prompt)], reply) for prompt, reply, _ in rows]
    assert pairwise(scores, [right for *_, right in rows]) > 0.9  # One token tells them apart; .5 is chance.


def test_pairs_count_ties_half_and_need_both_kinds() -> None:
    assert pairwise([0.9, 0.2, 0.2], [True, True, False]) == 0.75
    with pytest.raises(ValueError, match="0 wrong"):
        pairwise([0.5], [True])
