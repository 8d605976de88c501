"""Why a rollout has its reward and its advantage, in a sentence, from what the run recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from gnomon.types import Status, Stop
from gnomon.verifiers import Malformed, evaluate

__all__ = ["advantage_reason", "verdict_reason"]

UNEXPLAINED = {
    Status.SEVERAL: "the reply gives more than one answer",
    Status.MALFORMED: "the answer does not have the required form",
    Status.OUT_OF_PLACE: "the reply has text around the answer, and none is allowed",
    Status.REJECTED: "the answer breaks a rule of the task",
    Status.EXCEEDED: "judging the reply exceeded a limit of time, memory or output",
    Status.UNJUDGED: "the reply was not judged",
    Status.FAILED: "the verifier failed on every try, which says nothing about the reply",
}
"""For a verdict without a detail of its own."""
LONGEST = 200
"""Characters of an answer that a sentence quotes."""


def verdict_reason(body: Mapping[str, Any], task_body: Mapping[str, Any]) -> str:
    """Why a reply is not right; empty for one that is.

    Args: body: of the rollout's record; task_body: of its `task` record.
    """
    status = body["status"]
    if status == Status.CORRECT:
        return ""
    if status == Status.NO_ANSWER:
        cut = body.get("stop") in (Stop.TRUNCATED, Stop.CONTEXT) or body.get("finish") == "length"
        detail = body.get("detail") or "no answer was found in the reply"
        return f"{detail}: the token limit ended the reply" if cut else str(detail)
    if body.get("detail"):
        return str(body["detail"])
    if status == Status.WRONG:
        return wrong_reason(body.get("extracted"), task_body.get("answer"))
    return UNEXPLAINED.get(status, "")


def wrong_reason(extracted: str | None, answer: Any) -> str:
    """What the extracted answer comes to, and what was asked for."""
    if not extracted or not isinstance(answer, str | int | float | None):
        return ""
    value = value_of(extracted)
    if value is None:
        return "" if answer is None else f"{short(extracted)} is not {short(str(answer))}"
    if answer is None:
        return f"{short(extracted)} = {value}"
    if Fraction(value) == value_of(str(answer), alone=True):
        return f"{short(extracted)} = {value}, which is the value asked for, but it breaks another rule of the task"
    return f"{short(extracted)} = {value}, not {short(str(answer))}"


def value_of(text: str, *, alone: bool = False) -> Fraction | None:
    """The value of an arithmetic expression; None for other text. Args: alone: whether a single number counts too."""
    try:
        expression = evaluate(text.strip())
    except Malformed:
        return None
    return expression.value if alone or len(expression.numbers) > 1 else None


def short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def advantage_reason(body: Mapping[str, Any], rewards: Sequence[float | None], *, held_out: bool) -> str:
    """Why a rollout has no advantage, or one of 0; empty for any other.

    Args: rewards: of all rollouts of the group; held_out: whether an evaluation sampled it.
    """
    if held_out:
        return "an evaluation sampled this rollout, and evaluations are not trained on"
    if "advantage" not in body:
        return "the learner did not use this rollout"
    if body["advantage"]:
        return ""
    if len(rewards) > 1 and len(set(rewards)) == 1 and rewards[0] is not None:
        return f"all {len(rewards)} rewards of the group are {rewards[0]:.4g}, so none differs from their mean"
    return "the objective gives this reward no weight in this group"
