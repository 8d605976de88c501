"""How a rollout ended, with an answer or without: one classification for the alarms and the doctor."""

from __future__ import annotations

from enum import StrEnum

from gnomon.types import Kind, Stop, Verdict

__all__ = ["Ending", "ending", "longer", "mostly_truncated"]


class Ending(StrEnum):
    ANSWERED = "answered"
    """It has an answer, or was judged without one."""
    ENDLESS = "endless"
    """It has an answer and went on until the token limit."""
    TRUNCATED = "truncated"
    """The token limit was reached before an answer."""
    LIMITED = "limited"
    """Another limit was reached before an answer: of turns, of time, or of the context."""
    UNREADABLE = "unreadable"
    """It ended by itself, and no answer can be parsed."""

    @property
    def mute(self) -> bool:
        """Whether there is no answer."""
        return self in (Ending.TRUNCATED, Ending.LIMITED, Ending.UNREADABLE)


def ending(stop: str | None, verdict: Verdict) -> Ending:
    """Args: stop: why the rollout stopped, as its record says; None where a log of another trainer does not."""
    has_answer = bool(verdict.extracted)
    if stop == Stop.TRUNCATED and has_answer:
        return Ending.ENDLESS
    if verdict.correct:
        return Ending.ANSWERED
    if stop == Stop.TRUNCATED:
        return Ending.TRUNCATED
    if stop in (Stop.CONTEXT, Stop.TURNS, Stop.TIME) and not has_answer:
        return Ending.LIMITED
    return Ending.UNREADABLE if verdict.status.kind is Kind.UNPARSABLE else Ending.ANSWERED


def mostly_truncated(truncated: float, unreadable: float) -> bool:
    """Whether answers are missing because of a limit and not because of their form. Args: counts or shares."""
    return truncated >= unreadable


def longer(limit: int) -> int:
    """The limit of tokens to try next, where replies are truncated at this one."""
    return max(128, 4 * limit)
