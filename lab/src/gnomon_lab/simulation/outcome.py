"""What a simulated run came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta

__all__ = ["Outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated run came to. Shares and means are over its whole time.

    A failure is that of a server, and with `launch=ray` that of a sampler. What is sent is a request, and with
    `launch=ray` an episode.
    """

    seconds: float
    steps: int
    rollouts: int
    tokens: int
    engines_busy: float
    """Share of the time in which a server decoded, mean over servers."""
    rows: float
    """Rows that a server decoded together, mean over the time in which it decoded."""
    waiting: float
    """Requests that waited for a row, mean over time, all servers together."""
    workers_busy: float
    """Share of the time in which a worker of the environment was in a call, mean over workers."""
    learner_busy: float
    """Share of the time in which the learner trained."""
    staleness: float
    """Mean age of a token in optimiser steps."""
    staleness_max: float
    resampled: int
    """Requests or episodes that were begun again after a failure."""
    lost_tokens: float
    """Tokens that failures lost."""
    sent: int
    """Requests or episodes that the run sent, also those that were begun again."""
    answers: int
    """Those that came back."""
    weights: int
    """How often an engine got weights."""
    watch: int
    """Starts of samplers, questions whether they are alive, and the answers to both."""
    messages: int
    """All of these, and the notices of failures."""
    queue_median: int
    """Requests that waited for a row, or episodes that waited for a sampler: median over time."""
    queue_max: int
    scheduler: float
    """Processor seconds that the scheduler itself used per rollout, on this machine."""
    head: float
    """Share of one core of this machine that the scheduler would keep busy in a run."""

    @property
    def step_seconds(self) -> float:
        """Mean over all steps, evaluations included."""
        return self.seconds / self.steps

    @property
    def messages_per_second(self) -> float:
        """Mean over the whole time."""
        return self.messages / max(self.seconds, 1e-9)

    @property
    def scheduler_step(self) -> float:
        """Processor seconds that the scheduler used per step, on this machine."""
        return self.scheduler * self.rollouts / self.steps

    def body(self) -> dict[str, float]:
        """As plain values."""
        own = ("step_seconds", "messages_per_second", "scheduler_step")
        return {name: getattr(self, name) for name in own} | asdict(self)

    def text(self) -> str:
        """For a reader."""
        lines = [
            f"{self.steps} steps in {timedelta(seconds=round(self.seconds))}, {self.step_seconds:.2f} s per step, "
            "evaluations included",
            f"engines      decode in {self.engines_busy:.0%} of the time, {self.rows:.0f} rows together; "
            f"{self.waiting:.0f} requests wait for a row",
            f"environment  its workers are busy in {self.workers_busy:.0%} of the time (workers.count)",
            f"learner      trains in {self.learner_busy:.0%} of the time",
            f"staleness    {self.staleness:.2f} optimiser steps in the mean, {self.staleness_max:.0f} at most",
            f"queue        {self.queue_median:,} at the median, {self.queue_max:,} at most",
            f"head node    {self.messages_per_second:,.0f} messages per second: {self.sent:,} times work sent, "
            f"{self.answers:,} answers, {self.weights:,} times weights, {self.watch:,} to watch samplers",
            f"scheduler    {self.scheduler_step:.2f} s of this machine's processor per step, "
            f"{1e3 * self.scheduler:.2f} ms per rollout: {self.head:.1%} of a core of the head node",
        ]
        if self.resampled:
            share = self.lost_tokens / max(1, self.tokens)
            lines.append(f"failures     {self.resampled:,} requests sampled again, {share:.1%} of the tokens lost")
        return "\n".join(lines)
