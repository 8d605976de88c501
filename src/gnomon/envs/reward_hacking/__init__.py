"""Environments that can be hacked on purpose: what they pay and what is right are both in every verdict.

The part `correct` is the truth and decides the status; the reward is what the policy is paid. They are for trying
detectors and remedies on (docs/reward-hacking.md), so they stand in no list of environments to train on.
"""

from __future__ import annotations

from gnomon.envs.reward_hacking.calculator import Calculator
from gnomon.envs.reward_hacking.loophole import Impossible, Loophole
from gnomon.envs.reward_hacking.proxied import Proxied

__all__ = ["Calculator", "Impossible", "Loophole", "Proxied"]
