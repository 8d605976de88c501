"""Progress of a run: live lines in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gnomon.config import RunConfig
from gnomon.launch.bars import spark
from gnomon.launch.lines import fit
from gnomon.terminal import printable
from gnomon.training.evaluate import Evaluation

__all__ = ["Display", "Silent", "evaluation_text"]

QUIET = 15.0
"""Seconds between two progress lines when the output is not a terminal."""


class Silent:
    """Shows nothing."""

    def message(self, text: str) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def evaluation(self, step: int, evaluation: Evaluation) -> None: ...

    def step(self, step: int, metrics: Mapping[str, float], seconds: float) -> None: ...


class Display:
    """Prints the progress of a run; `live` in a terminal.

    Args: doing: describes what is sampled first.
    """

    def __init__(self, config: RunConfig, *, every: int = 10, doing: str = "") -> None:
        self.config, self.every = config, every
        plain = False if Console().is_jupyter else None  # A notebook's cell cannot write over a line.
        self.console = Console(
            file=sys.stdout, highlight=False, markup=False, soft_wrap=True, force_terminal=plain, force_jupyter=False
        )
        self.live = (
            Live(console=self.console, refresh_per_second=4, transient=True) if self.console.is_terminal else None
        )
        self.doing = doing or f"baseline on {config.eval.tasks} held-out tasks, then step 1"
        self.rewards: list[float] = []
        self.seconds: list[float] = []
        self.held_out = ""
        self.line = ""
        self.spoke = monotonic()

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
            self.show(self.doing)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def message(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        """Print above the live lines."""
        self.spoke, text = monotonic(), printable(text)
        self.console.print(fit(text, self.console.width) if self.live else text)

    def show(self, text: str) -> None:
        """Replace the live lines."""
        if self.live:
            self.live.update(Text(fit(printable(text), self.console.width)))

    def progress(self, done: int, total: int) -> None:
        """Print how many replies are sampled."""
        text = f"{self.doing}: {done} of {total} replies"
        if self.live:
            self.show(f"{self.line}\n{text}".lstrip())
            if done == total:  # Show the end even of a short evaluation.
                self.live.refresh()
        elif monotonic() - self.spoke > QUIET:
            self.say(text)

    def evaluation(self, step: int, evaluation: Evaluation) -> None:
        self.held_out = f"{evaluation.pass_at[1].value:.3f}"
        name = "held-out" if step else "baseline"
        self.say(f"step {step:>4}  {name}  {evaluation_text(evaluation)}")
        self.doing = f"step {step + 1}"

    def step(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        self.rewards.append(metrics["reward"])
        self.seconds.append(seconds)
        self.line = self.step_text(step, metrics, seconds)
        steps = self.config.budget.steps
        measured = (step + 1) % self.config.eval.every == 0
        self.doing = f"evaluation, then step {step + 2}" if measured else f"step {step + 2}"
        if step + 1 == steps:
            self.doing = "last evaluation"
        if self.live:
            self.show(self.line)
        elif (step + 1) % self.every == 0:
            self.say(self.line)

    def step_text(self, step: int, metrics: Mapping[str, float], seconds: float) -> str:
        steps = self.config.budget.steps
        recent = sorted(self.seconds[-20:])
        left = recent[len(recent) // 2] * (steps - step - 1)
        mismatch = metrics.get("logp_mismatch", 0.0)
        return (
            f"step {step + 1:>4}/{steps}  reward {metrics['reward']:.3f} {spark(self.rewards, 12)}  "
            f"held-out {self.held_out}  length {metrics['length']:.1f}  "
            f"all right {metrics['all_right']:.0%}  all wrong {metrics['all_wrong']:.0%}  "
            f"{metrics['tokens'] / seconds:,.0f} tok/s  mismatch {mismatch:.2g}  "
            f"{int(left // 60)}:{int(left % 60):02d} left"
        )


def evaluation_text(evaluation: Evaluation) -> str:
    """An evaluation in fields."""
    rates = "   ".join(f"pass@{k} {interval}" for k, interval in evaluation.pass_at.items())
    tasks = next(iter(evaluation.pass_at.values())).n
    return (
        f"{rates}   length {evaluation.length:.1f}   truncated {evaluation.truncated:.0%}   (95 % over {tasks} tasks)"
    )
