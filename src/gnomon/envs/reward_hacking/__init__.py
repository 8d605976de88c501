"""Environments with a deliberate exploit. Every verdict has both the paid reward and the truth.

The part `correct` is the truth and decides the status; the reward is what the policy is trained on. They serve to test
detectors and remedies (docs/reward-hacking.md), so the list of environments to train on does not include them.
"""

from __future__ import annotations

from gnomon.envs.reward_hacking.calculator import Calculator
from gnomon.envs.reward_hacking.loophole import Impossible, Loophole
from gnomon.envs.reward_hacking.proxied import Proxied

__all__ = ["Calculator", "Impossible", "Loophole", "Proxied"]
