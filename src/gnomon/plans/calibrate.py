"""What this machine spends beside products and memory traffic, measured with the policy that ships."""

from __future__ import annotations

from dataclasses import replace

from gnomon.engines.decoder import Decoder
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import text_pass
from gnomon.plans.devices import Device, fastest
from gnomon.plans.passes import decoding, meta_policy, texts, training
from gnomon.types import Request, Sampling

__all__ = ["calibrated"]

PROMPTS, GROUP, LENGTH, REPLY = 4, 8, 32, 24
"""Size of the measured passes."""


def calibrated(device: Device) -> Device:
    """A measured device with its time per operation and per sampled token. Takes about a second."""
    abstract = meta_policy(TINY, Precision())
    policy = Policy.load(TINY)
    work = texts([LENGTH] * PROMPTS, GROUP, REPLY)

    def train() -> None:
        output = policy(text_pass(policy, work))
        (output.logp * 0.0).sum().backward()

    spare = fastest(train) - training(abstract, work, device).seconds
    one = replace(device, per_operation=1.0)
    operations = training(abstract, work, one).seconds - training(abstract, work, device).seconds
    device = replace(device, per_operation=max(0.0, spare / operations))

    def decode() -> None:
        decoder = Decoder(policy)
        sampling = Sampling(max_tokens=REPLY)
        for row in range(PROMPTS * GROUP):
            ids = (*range(2, 1 + LENGTH), 40 + row // GROUP)
            decoder.admit(Request(prompt_ids=ids, key=bytes([row]) * 16, sampling=sampling))
        while decoder.rows:
            decoder.step()

    spare = fastest(decode) - decoding(abstract, [LENGTH] * PROMPTS, GROUP, REPLY, device).seconds
    return replace(device, per_token=max(0.0, spare / (PROMPTS * GROUP * REPLY)))
