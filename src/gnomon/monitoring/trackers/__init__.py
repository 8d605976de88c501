"""Experiment trackers as observers: TensorBoard, Weights & Biases, trackio, MLflow."""

from gnomon.monitoring.trackers.named import TRACKERS, tracker
from gnomon.monitoring.trackers.observer import Sink, Tracker
from gnomon.monitoring.trackers.sinks import MLflow, TensorBoard, Trackio, WandB

__all__ = ["TRACKERS", "MLflow", "Sink", "TensorBoard", "Tracker", "Trackio", "WandB", "tracker"]
