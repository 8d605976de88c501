"""Why a reply is wrong and an advantage is 0, in a sentence, from what a run recorded."""

from __future__ import annotations

import pytest

from gnomon.reading.reasons import advantage_reason, verdict_reason
from gnomon.types import Status


def judged(status: str, **more: object) -> dict[str, object]:
    return {"status": status, "detail": "", "extracted": None, **more}


@pytest.mark.parametrize(("body", "answer", "says"), [
    (judged("correct", extracted="7"), 7, ""),
    (judged("wrong", extracted="(7−6)+6"), 13, "(7−6)+6 = 7, not 13"),
    (judged("wrong", extracted="10/4"), "3", "10/4 = 5/2, not 3"),
    (judged("wrong", extracted="(10/2)+8"), 13, "(10/2)+8 = 13, which is the value asked for, but it breaks another"),
    (judged("wrong", extracted="5"), 7, "5 is not 7"),
    (judged("wrong", extracted="-5"), 7, "-5 is not 7"),
    (judged("wrong", extracted="1/0"), 7, "1/0 is not 7"),
    (judged("wrong", extracted="Paris"), "Rome", "Paris is not Rome"),
    (judged("wrong", extracted="2+2"), None, "2+2 = 4"),
    (judged("wrong", extracted="cat"), None, ""),
    (judged("wrong", extracted="cat"), ["dog"], ""),
    (judged("wrong", extracted="x" * 500), "y", "x" * 200 + " … is not y"),
    (judged("wrong", extracted="3", detail="2 of 5 tests passed"), 1, "2 of 5 tests passed"),
    (judged("no_answer"), 1, "no answer was found in the reply"),
    (judged("no_answer", stop="truncated"), 1, "no answer was found in the reply: the token limit ended the reply"),
    (judged("no_answer", finish="length", detail="no <answer>"), 1, "no <answer>: the token limit ended the reply"),
    (judged("no_answer", detail="no <answer>"), 1, "no <answer>"),
    (judged("malformed", extracted="?", detail="not an integer"), 1, "not an integer"),
    (judged("rejected", extracted="?"), 1, "the answer breaks a rule of the task"),
])  # fmt: skip
def test_a_verdict_is_explained(body, answer, says):
    found = verdict_reason(body, {"answer": answer})
    assert found.startswith(says) and bool(found) == bool(says)


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.CORRECT, Status.WRONG)])
def test_every_other_status_has_words(status):
    assert verdict_reason(judged(status.value), {"answer": 1})


@pytest.mark.parametrize(("body", "rewards", "held_out", "says"), [
    ({"advantage": 0.5}, [0.0, 1.0], False, ""),
    ({"advantage": 0.0}, [0.1] * 8, False, "all 8 rewards of the group are 0.1, so none differs from their mean"),
    ({"advantage": 0.0}, [0.0, 1.0], False, "the objective gives this reward no weight in this group"),
    ({"advantage": 0.0}, [1.0], False, "the objective gives this reward no weight in this group"),
    ({"advantage": 0.0}, [None, None], False, "the objective gives this reward no weight in this group"),
    ({}, [0.0, 1.0], False, "the learner did not use this rollout"),
    ({}, [1.0], True, "an evaluation sampled this rollout, and evaluations are not trained on"),
])  # fmt: skip
def test_an_advantage_of_nothing_is_explained(body, rewards, held_out, says):
    assert advantage_reason(body, rewards, held_out=held_out) == says
