"""The trackers that ship, each by the package of its maker, which is imported when a run starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gnomon.monitoring.trackers.observer import Sample, TrackedRun
from gnomon.terminal import printable

__all__ = ["MLflow", "TensorBoard", "Trackio", "WandB"]

PROJECT = "gnomon"


class TensorBoard:
    """Event files for TensorBoard.

    Args: folder: above the folder of the run's event files; empty for `tensorboard` beside the run folder.
    """

    def __init__(self, folder: str | Path = "") -> None:
        self.folder = folder

    def start(self, run: TrackedRun) -> None:
        from tensorboardX import SummaryWriter

        folder = Path(self.folder or run.folder.parent / "tensorboard") / run.name
        # Names of event files have seconds: a run that is resumed within one would write over its first file.
        number = len(list(folder.glob("events.*")))
        self.writer = SummaryWriter(str(folder), purge_step=run.step or None, filename_suffix=f".{number}")
        self.writer.add_text("settings", block("\n".join(f"{key} = {value}" for key, value in run.settings.items())))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def texts(self, step: int, samples: list[Sample]) -> None:
        for each in samples:
            self.writer.add_text(f"held_out/task {each.task} sample {each.sample}", block(sample_text(each)), step)

    def finish(self, status: str) -> None:
        self.writer.close()


class WandB:
    """Weights & Biases. A resumed run goes on under its own id.

    Args: options: of `wandb.init`, such as `project`, `entity`, `dir` or `mode="offline"`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def start(self, run: TrackedRun) -> None:
        import wandb

        self.wandb = wandb
        quiet = wandb.Settings(silent=True, console="off")
        defaults = {"project": PROJECT, "name": run.name, "id": run.uuid, "resume": "allow", "settings": quiet}
        self.run = wandb.init(**{**defaults, "config": dict(run.settings), **self.options})
        self.run.define_metric("*", step_metric="step")  # Its own step must not fall, and a resumed run's does.

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log({**values, "step": step})

    def texts(self, step: int, samples: list[Sample]) -> None:
        rows = [list(asdict(each).values()) for each in samples]
        table = self.wandb.Table(columns=list(Sample.__slots__), data=rows)
        self.run.log({"held_out/rollouts": table, "step": step})

    def finish(self, status: str) -> None:
        self.run.summary["status"] = status
        self.run.finish(exit_code=int(status == "failed"))


class Trackio:
    """trackio.

    Args: options: of `trackio.init`, such as `project` or `space_id`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def start(self, run: TrackedRun) -> None:
        import trackio

        self.trackio = trackio
        defaults = {"project": PROJECT, "name": run.name, "resume": "allow", "auto_log_gpu": False}
        self.run = trackio.init(**{**defaults, "config": {k: str(v) for k, v in run.settings.items()}, **self.options})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def texts(self, step: int, samples: list[Sample]) -> None:
        for i, each in enumerate(samples):
            messages = [{"role": "user", "content": each.prompt}, {"role": "assistant", "content": each.reply}]
            facts = {name: getattr(each, name) for name in ("task", "sample", "status", "reward")}
            self.run.log({f"held_out/rollout {i}": self.trackio.Trace(messages=messages, metadata=facts)}, step=step)

    def finish(self, status: str) -> None:
        self.run.finish()


class MLflow:
    """MLflow, at the address in MLFLOW_TRACKING_URI. A resumed run goes on in the run with its uuid.

    Args: experiment: its name; uri: address of the tracking server; empty for that of MLflow.
    """

    TAG = "gnomon.uuid"

    def __init__(self, experiment: str = PROJECT, uri: str = "") -> None:
        self.experiment, self.uri = experiment, uri

    def start(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(self.uri or None)
        existing = self.client.get_experiment_by_name(self.experiment)
        experiment = existing.experiment_id if existing else self.client.create_experiment(self.experiment)
        runs = self.client.search_runs([experiment], f"tags.`{self.TAG}` = '{run.uuid}'")
        if runs:
            self.id = runs[0].info.run_id
            self.client.update_run(self.id, status="RUNNING")
            return
        self.id = self.client.create_run(experiment, run_name=run.name, tags={self.TAG: run.uuid}).info.run_id
        for key, value in run.settings.items():
            self.client.log_param(self.id, key, str(value)[:500])

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self.id, re.sub(r"[^\w\-. /]", "_", name), value, step=step)

    def texts(self, step: int, samples: list[Sample]) -> None:
        text = "\n\n".join(map(sample_text, samples))
        self.client.log_text(self.id, text, f"held_out/step-{step:06d}.txt")

    def finish(self, status: str) -> None:
        ends = {"finished": "FINISHED", "failed": "FAILED"}
        self.client.set_terminated(self.id, ends.get(status, "KILLED"))


def sample_text(each: Sample) -> str:
    head = f"task {each.task}, sample {each.sample}: {each.status}, reward {each.reward:g}"
    return printable(f"{head}\n{each.prompt}\n---\n{each.reply}")


def block(text: str) -> str:
    """The text as Markdown that shows every sign as it is."""
    return "".join(f"    {line}\n" for line in printable(text).split("\n"))
