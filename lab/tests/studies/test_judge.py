"""A local model judges by the odds of two words, whatever its batch, and its score is paid beside the truth."""

from __future__ import annotations

from math import exp

import pytest
import torch
from transformers import AutoModelForCausalLM

from gnomon.envs import CharCount
from gnomon.models.folder import TINY
from gnomon.models.tokenizer import Tokenizer
from gnomon_lab.judge import Judging, YesNo

JUDGE = YesNo(model=str(TINY), question="{prompt} {reply}?", options=("1", "2"))
REPLIES = [("3 + 4", "7"), ("3 + 4", "a longer reply {prompt}"), ("9", "9")]


def test_a_score_is_the_share_of_yes_in_transformers_too() -> None:
    tokenizer, model = Tokenizer(TINY), AutoModelForCausalLM.from_pretrained(TINY, dtype="float32").eval()
    from gnomon.rendering import choose, joined
    from gnomon.types import Message

    text = JUDGE.question.format(prompt="3 + 4", reply="7")
    ids = joined(choose(tokenizer, "auto").start([Message(role="user", content=text)]))
    with torch.inference_mode():
        last = model(torch.tensor([ids])).logits[0, -1].double()
    yes, no = (float(last[tokenizer.encode(word)[0]]) for word in JUDGE.options)
    assert all(len(tokenizer.encode(word)) == 1 for word in JUDGE.options)
    assert JUDGE.scores(REPLIES[:1])[0] == pytest.approx(1 / (1 + exp(no - yes)), abs=1e-5)


def test_a_score_does_not_depend_on_its_batch() -> None:
    together = JUDGE.scores(REPLIES)
    assert together == [JUDGE.scores([reply])[0] for reply in REPLIES] and len(set(together)) == 3


def test_an_environment_pays_the_score_and_keeps_the_truth() -> None:
    env, truth = Judging(model=str(TINY)), CharCount()
    task = truth.tasks("train")[0]
    for reply in (truth.framed(truth.solution(task)), "<answer>99</answer>"):
        verdict = env.verify(task, reply)
        assert verdict.status is truth.verify(task, reply).status
        assert verdict.reward == YesNo(model=str(TINY)).scores([(task.messages[-1].content, reply)])[0]
