"""Trackers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from gnomon.errors import ConfigError, ResourceError
from gnomon.monitoring.trackers.observer import Sink, Tracker
from gnomon.monitoring.trackers.sinks import MLflow, TensorBoard, Trackio, WandB

__all__ = ["TRACKERS", "tracker"]

TRACKERS: Mapping[str, tuple[str, Callable[..., Sink]]] = {
    "mlflow": ("mlflow", MLflow),
    "tensorboard": ("tensorboardX", TensorBoard),
    "trackio": ("trackio", Trackio),
    "wandb": ("wandb", WandB),
}
"""Package and class by name. The name is also that of the extra that installs the package."""


def tracker(name: str, /, *, texts: int = 8, **options: Any) -> Tracker:
    """An observer that writes to a tracker.

    Args: texts: number of rollouts to show after each evaluation; options: of the class that `TRACKERS` names.
    Raises: ConfigError E008 for another name; ResourceError E506 if the tracker's package is not installed.
    """
    if name not in TRACKERS:
        raise ConfigError(
            "E008", f"there is no tracker {name!r}", where="observers", fix=f"one of {', '.join(TRACKERS)}"
        )
    package, kind = TRACKERS[name]
    if find_spec(package) is None:
        fix = f'pip install "gnomon[{name}]"'
        raise ResourceError("E506", f"the tracker {name} needs the package {package}", where="observers", fix=fix)
    return Tracker(kind(**options), texts=texts)
