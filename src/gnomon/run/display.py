"""Progress of a run: live lines in a terminal, plain lines elsewhere."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from io import StringIO
from time import monotonic
from typing import Any, Protocol

import rich.console
from rich.live import Live
from rich.text import Text

from gnomon.config import RunConfig
from gnomon.reading.lines import fit, spark
from gnomon.reading.summary import unjudged_text
from gnomon.stats import Interval
from gnomon.store import EvaluationRecord, Observer, RunStatus, StepRecord
from gnomon.terminal import LOST, encodable, printable

__all__ = [
    "Console",
    "Display",
    "Guarded",
    "Phase",
    "Show",
    "Silent",
    "Teller",
    "evaluation_text",
    "loading",
    "no_phase",
]

EVERY = 10
"""Steps between two lines where a line cannot be written over."""
QUIET = 15.0
"""Seconds between two progress lines when the output is not a terminal."""


Show = Callable[[str], None]
Phase = Callable[[str], AbstractContextManager[Show]]
"""Prints what the block does, then the seconds that it took. The block may show its progress."""


def no_phase(what: str) -> AbstractContextManager[Show]:
    """A phase that prints nothing."""
    return nullcontext(lambda text: None)


@contextmanager
def loading(phase: Phase) -> Iterator[None]:
    """A block in which the parts of a run are first imported, with torch and transformers."""
    if "gnomon.run.parts" in sys.modules:
        yield
        return
    collects = gc.isenabled()
    with phase("loading torch and transformers"):
        gc.disable()  # Modules are not garbage: searching them takes an eighth of the time.
        try:
            yield
        finally:
            if collects:
                gc.enable()


class Teller(Protocol):
    """Tells a person what happens before and beside the steps of a run."""

    def message(self, text: str) -> None:
        """A sentence for a person."""
        ...

    def progress(self, done: int, total: int) -> None:
        """Completions that are sampled, of those that were asked for together."""
        ...

    def phase(self, what: str) -> AbstractContextManager[Show]:
        """As `Phase`."""
        ...


class Console(Observer, Teller, Protocol):
    """An observer that also receives messages and the progress of sampling."""


class Guarded:
    """Tells through a console that may fail, such as a pipe that nobody reads: the run goes on without it."""

    def __init__(self, console: Teller) -> None:
        self.console = console

    def message(self, text: str) -> None:
        with suppress(Exception):
            self.console.message(text)

    def progress(self, done: int, total: int) -> None:
        with suppress(Exception):
            self.console.progress(done, total)

    @contextmanager
    def phase(self, what: str) -> Iterator[Show]:
        show: Show | None = None
        with ExitStack() as open_phase:
            with suppress(Exception):
                show = open_phase.enter_context(self.console.phase(what))

            def show_text(text: str) -> None:
                with suppress(Exception):
                    show and show(text)

            try:
                yield show_text
            finally:
                with suppress(Exception):
                    open_phase.close()


class Silent:
    """Shows nothing."""

    def message(self, text: str) -> None: ...

    def progress(self, done: int, total: int) -> None: ...

    def phase(self, what: str) -> AbstractContextManager[Show]:
        return no_phase(what)

    def start(self, manifest: Mapping[str, Any]) -> None: ...

    def step(self, record: StepRecord) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None: ...


class Screen(rich.console.Console):
    """Standard output. If it cannot be written, the command continues."""

    def print(self, *texts: Any, **options: Any) -> None:
        try:
            super().print(*texts, **options)
        except OSError as error:
            LOST.append(error)

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Display:
    """Prints the progress of a run; `live` in a terminal.

    Args: doing: describes what is sampled first.
    """

    def __init__(self, config: RunConfig, *, doing: str = "") -> None:
        self.config = config
        plain = False if Screen().is_jupyter else None  # A notebook's cell cannot write over a line.
        self.console = Screen(
            file=sys.stdout or StringIO(),
            highlight=False,
            markup=False,
            soft_wrap=True,
            force_terminal=plain,
            force_jupyter=False,
        )
        self.live = (
            Live(console=self.console, refresh_per_second=4, transient=True) if self.console.is_terminal else None
        )
        self.doing = doing or f"baseline on {config.eval.tasks} held-out tasks, then step 1"
        self.rewards: list[float] = []
        self.seconds: list[float] = []
        self.held_out = ""
        self.line = ""
        self.open = False
        """Whether the last line is incomplete: a phase adds the seconds that it took."""
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

    def say(self, text: str, end: str = "\n") -> None:
        """Print above the live lines."""
        self.spoke, text = monotonic(), self.console_text(text)
        line, self.open = "\n" if self.open else "", False
        self.console.print(line + (fit(text, self.console.width) if self.live else text), end=end)

    def console_text(self, text: str) -> str:
        """What the console can show of a text."""
        return encodable(printable(text), self.console.file)

    def show(self, text: str) -> None:
        """Replace the live lines."""
        if self.live:
            self.live.update(Text(fit(self.console_text(text), self.console.width)))

    @contextmanager
    def phase(self, what: str) -> Iterator[Show]:
        began = monotonic()

        def show(text: str) -> None:
            if self.live:
                self.show(f"{what} … {text}")
            elif monotonic() - self.spoke > QUIET:
                self.say(f"{what}: {text}")

        if self.live:
            self.show(f"{what} …")
        else:
            self.say(f"{what} …", end="")
            self.open = True
        try:
            yield show
        finally:
            seconds = f"{monotonic() - began:.1f} s"
            if self.open:
                self.open = False
                self.console.print(f" {seconds}")
            else:
                self.say(f"{what}: {seconds}")
            self.show(self.doing)

    def progress(self, done: int, total: int) -> None:
        """Print how many replies are sampled."""
        text = f"{self.doing}: sampled {done} of {total} replies"
        if self.live:
            self.show(f"{self.line}\n{text}".lstrip())
            if done == total:  # Show the end even of a short evaluation.
                self.live.refresh()
        elif monotonic() - self.spoke > QUIET:
            self.say(text)

    def start(self, manifest: Mapping[str, Any]) -> None: ...

    def evaluation(self, record: EvaluationRecord) -> None:
        name = "held-out" if record.step else "baseline"
        if record.set:
            name += f" {record.set}"
        else:
            self.held_out = f"{record.result['pass_at']['1']['value']:.3f}"
        self.say(f"step {record.step:>4}  {name}  {evaluation_text(record.result)}")
        self.doing = f"step {record.step + 1}"

    def step(self, record: StepRecord) -> None:
        step = record.step
        self.rewards.append(record.metrics["reward"])
        self.seconds.append(record.seconds)
        self.line = self.step_text(step, record.metrics, record.seconds)
        steps = self.config.budget.steps
        evaluates = (step + 1) % self.config.eval.every == 0
        self.doing = f"evaluation, then step {step + 2}" if evaluates else f"step {step + 2}"
        if step + 1 == steps:
            self.doing = "last evaluation"
        if self.live:
            self.show(self.line)
        elif (step + 1) % EVERY == 0:
            self.say(self.line)

    def finish(self, status: RunStatus) -> None: ...

    def step_text(self, step: int, metrics: Mapping[str, float], seconds: float) -> str:
        steps = self.config.budget.steps
        recent = sorted(self.seconds[-20:])
        remaining = recent[len(recent) // 2] * (steps - step - 1)
        mismatch = metrics.get("logp_mismatch", 0.0)
        return (
            f"step {step + 1:>4}/{steps}  reward {metrics['reward']:.3f} {spark(self.rewards, 12)}  "
            f"held-out {self.held_out}  length {metrics['length']:.1f}  "
            f"all right {metrics['all_right']:.0%}  all wrong {metrics['all_wrong']:.0%}  "
            f"{metrics['tokens'] / seconds:,.0f} tok/s  mismatch {mismatch:.2g}  "
            f"{int(remaining // 60)}:{int(remaining % 60):02d} left"
        )


def evaluation_text(result: Mapping[str, Any]) -> str:
    """An evaluation in fields. Args: result: as `Evaluation.body` gives it."""
    intervals = {k: Interval(**facts) for k, facts in result["pass_at"].items()}
    rates = "   ".join(f"pass@{k} {interval}" for k, interval in intervals.items())
    tasks = next(iter(intervals.values())).n
    sizes = f"length {result['length']:.1f}   truncated {result['truncated']:.0%}{unjudged_text(result)}"
    return f"{rates}   {sizes}   (95 % over {tasks} different tasks)"
