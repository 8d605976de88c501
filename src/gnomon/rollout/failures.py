"""Episodes in which the environment failed: how many a run tolerates, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gnomon.errors import VerifierError
from gnomon.types import Group, Rollout, Status

__all__ = ["Failures", "Unjudged", "judged_groups", "together"]

TOLERATED = 3
"""Number of failed episodes that a run always tolerates."""


class Unjudged(VerifierError):
    """Too many rollouts could not be judged."""

    groups: tuple[Group, ...] = ()
    """All groups that were played, so that the run can record them."""
    kind = "rollout"
    """Kind of their records; `held_out` or `held_out.SET` if they were played for an evaluation."""

    @classmethod
    def of(cls, error: VerifierError, groups: Sequence[Group]) -> Unjudged:
        """The error, with the played groups."""
        result = cls(error.code, error.what, where=error.where, why=error.why, fix=error.fix)
        result.groups = tuple(groups)
        return result


@contextmanager
def together(groups: Sequence[Group]) -> Iterator[None]:
    """A context that adds these groups to an `Unjudged` error."""
    try:
        yield
    except Unjudged as error:
        error.groups = (*groups, *error.groups)
        raise


class Failures:
    """Counts the episodes of a run, and the failed ones.

    Args: env: name of the environment; share: fraction of the episodes that may fail.
    """

    def __init__(self, env: str, share: float) -> None:
        self.env, self.share = env, share
        self.played, self.failed = 0, 0

    def count(self, episodes: int, broken: Sequence[tuple[int, Rollout]], groups: Sequence[Group] = ()) -> None:
        """Count episodes that were played together.

        Args: broken: one rollout of each failed episode, with the index of its task; groups: their groups.
        Raises: Unjudged E104, with the groups, if too many failed.
        """
        self.played, self.failed = self.played + episodes, self.failed + len(broken)
        if self.failed <= TOLERATED + self.share * self.played:
            return
        index, rollout = broken[-1]
        last = "".join(turn.completion.text for turn in rollout.turns[-1:])
        own = remedy(rollout.verdict.detail)
        error = VerifierError(
            "E104",
            f"the verifier of {self.env} failed in {self.failed} of {self.played} rollouts",
            where=f"task {index}, sample {rollout.sample}; the last reply was {last[:200]!r}",
            why=f"a verifier failure is not evidence that the answer is wrong\n{indent(rollout.verdict.detail)}",
            fix=own if own else "return a verdict in reward_range (or raise Malformed) for every text, and resume",
        )
        raise Unjudged.of(error, groups)


def judged_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups in which every rollout was judged. The others are not trained on.

    Raises: Unjudged E106 if no group is left.
    """
    judged = [group for group in groups if group.judged]
    if not judged:
        detail = next(r.verdict.detail for r in groups[0].rollouts if r.verdict.status is Status.FAILED)
        error = VerifierError(
            "E106",
            f"the verifier failed in all {len(groups)} groups of a step",
            why=indent(detail),
            fix=own if (own := remedy(detail)) else "return a verdict for every text, and resume",
        )
        raise Unjudged.of(error, groups)
    return judged


def remedy(detail: str) -> str:
    """The fix of the error that a verifier raised; empty if it has none of its own."""
    lines = (line.strip() for line in detail.splitlines())
    return next((line.removeprefix("fix: ") for line in lines if line.startswith("fix: ")), "")


def indent(text: str) -> str:
    return "\n".join("      " + line for line in text.splitlines())
