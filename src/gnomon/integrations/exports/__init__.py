"""Export environments: as reward functions for TRL and verl, as a task set of `verifiers`, and over HTTP."""

from __future__ import annotations

from gnomon.integrations.exports.plays import Plays
from gnomon.integrations.exports.rewards import trl_reward, trl_rows, verl_rows, verl_score
from gnomon.integrations.exports.server import Server
from gnomon.integrations.exports.taskset import verifiers_taskset

__all__ = ["Plays", "Server", "trl_reward", "trl_rows", "verifiers_taskset", "verl_rows", "verl_score"]
