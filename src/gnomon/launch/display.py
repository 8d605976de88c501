"""What a person sees while a run runs: one live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gnomon.config import RunConfig
from gnomon.launch.bars import spark
from gnomon.training.evaluate import Evaluation

__all__ = ["Display", "Silent"]


class Silent:
    """Looks on and says nothing."""

    def message(self, text: str) -> None: ...

    def evaluation(self, step: int, evaluation: Evaluation) -> None: ...

    def step(self, step: int, metrics: Mapping[str, float], seconds: float) -> None: ...


class Display:
    """Looks on and prints; `live` when the output is a terminal."""

    def __init__(self, config: RunConfig, *, every: int = 10) -> None:
        self.config, self.every = config, every
        self.console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
        self.live = (
            Live(console=self.console, refresh_per_second=4, transient=True) if self.console.is_terminal else None
        )
        self.rewards: list[float] = []
        self.seconds: list[float] = []
        self.held_out = ""

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
            self.live.update(Text(f"measuring the baseline on {self.config.eval.tasks} held-out tasks"))
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def message(self, text: str) -> None:
        self.console.print(text)

    def evaluation(self, step: int, evaluation: Evaluation) -> None:
        rates = "   ".join(f"pass@{k} {interval}" for k, interval in evaluation.pass_at.items())
        name = "baseline" if step == 0 else "held-out"
        self.held_out = f"{evaluation.pass_at[1].value:.3f}"
        tasks = next(iter(evaluation.pass_at.values())).n
        self.console.print(
            f"step {step:>4}  {name}  {rates}   length {evaluation.length:.1f}   "
            f"cut off {evaluation.truncated:.0%}   (95 % over {tasks} tasks)"
        )

    def step(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        self.rewards.append(metrics["reward"])
        self.seconds.append(seconds)
        line = self.line(step, metrics, seconds)
        if self.live:
            self.live.update(Text(line))
        elif (step + 1) % self.every == 0:
            self.console.print(line)

    def line(self, step: int, metrics: Mapping[str, float], seconds: float) -> str:
        steps = self.config.budget.steps
        recent = sorted(self.seconds[-20:])
        left = recent[len(recent) // 2] * (steps - step - 1)
        gap = metrics.get("logp_gap", 0.0)
        return (
            f"step {step + 1:>4}/{steps}  reward {metrics['reward']:.3f} {spark(self.rewards, 12)}  "
            f"held-out {self.held_out}  length {metrics['length']:.1f}  "
            f"all right {metrics['all_right']:.0%}  all wrong {metrics['all_wrong']:.0%}  "
            f"{metrics['tokens'] / seconds:,.0f} tok/s  gap {gap:.2g}  "
            f"{int(left // 60)}:{int(left % 60):02d} left"
        )
