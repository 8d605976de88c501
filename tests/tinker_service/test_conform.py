"""A service in the form of Tinker whose losses are right, and services with a fault each, which is named."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import command
from gnomon.conformance import Grade
from gnomon.conformance.service import LOSSES, RANK, conform_service
from gnomon.errors import ConfigError, ResourceError
from tinker_service import double
from tinker_service.test_client import config_of
from tinker_service.test_tinker import serving


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[double.Service]:
    monkeypatch.setitem(sys.modules, "tinker", double)
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret-of-this-test")
    for name, value in {
        "config": config_of(f"policy.lora.rank={RANK}"),
        "folder": tmp_path,
        "saved": {},
        "weights": {},
    }.items():
        monkeypatch.setattr(double.Service, name, value, raising=False)
    return double.Service


def test_every_loss_of_a_sound_service_passes(service):
    cells = conform_service()
    assert {cell.objective for cell in cells} == set(LOSSES)
    assert [(cell.check, cell.error) for cell in cells if cell.grade is not Grade.PASS] == []
    assert len(cells) == 11 and all(cell.error < 0.03 for cell in cells), "steps are nearly linear"


def changed(kind: str, of: Any, data: list[Any], loss: str) -> list[Any]:
    """The examples as a faulty service reads them."""
    key = "weights" if loss == "cross_entropy" else "advantages"
    total = sum(len(each.model_input.tokens) for each in data)
    found = []
    for each in data:
        inputs = {name: np.array(values) for name, values in each.loss_fn_inputs.items()}
        values = inputs[key]
        if kind == "mean":
            values = values / total
        elif kind == "lengths":
            values = values / len(values)
        elif kind == "last":
            values = np.append(values[:-1], 0)
        elif kind == "sign":
            values = -values
        elif kind == "negative":
            values = values.clip(0)
        elif kind == "ratio" and loss != "cross_entropy":
            examples = (double.Datum(each.model_input, {**inputs, "weights": np.zeros(len(values))}),)
            inputs["logprobs"] = (
                of.forward(list(examples), "cross_entropy").result().loss_fn_outputs[0]["logprobs"].values
            )
        found.append(double.Datum(each.model_input, {**inputs, key: values.astype(np.float32)}))
    return found


FAULTS = {
    "mean": ("cross_entropy", "one step", "the sum is divided by all tokens"),
    "lengths": ("cross_entropy", "one step", "each row is divided by its own length"),
    "last": ("cross_entropy", "one step", "the last token of a row is not in the loss"),
    "sign": ("cross_entropy", "one step", "its sign is reversed"),
    "negative": ("cross_entropy", "weights", "negative weights count as none"),
    "ratio": ("importance_sampling", "ratios", "the ratio has no weight"),
    "unclipped": ("ppo", "clip edges", "the ratio is not clipped"),
    "anew": ("cross_entropy", "several passes", "only the last pass counts"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_of_a_service_is_named(service, monkeypatch, kind):
    sound, step = double.Training.forward_backward, double.Training.optim_step

    def backward(self: Any, data: list[Any], loss: str) -> double.Future:
        if kind == "anew":  # A step of rate 0 takes the gradient of earlier passes away.
            step(
                self, dict(learning_rate=0.0, beta1=0.0, beta2=0.0, eps=1.0, weight_decay=0.0, grad_clip_norm=0.0)
            ).result()
        single = loss == "cross_entropy" and sum(np.count_nonzero(each.loss_fn_inputs["weights"]) for each in data) == 1
        read = data if single else changed(kind, self, data, loss)  # So that the columns stay sound.
        return sound(self, read, "importance_sampling" if kind == "unclipped" and loss == "ppo" else loss)

    monkeypatch.setattr(double.Training, "forward_backward", backward)
    loss, check, text = FAULTS[kind]
    cells = conform_service([loss])
    assert (check, text) in [(cell.check, cell.text) for cell in cells if cell.grade is Grade.FAIL]


def test_a_service_that_does_not_step_or_samples_another_model_fails(service, monkeypatch):
    monkeypatch.setattr(double.Training, "optim_step", lambda self, params: double.Future(lambda: None))
    logprobs = double.Sampling.compute_logprobs
    monkeypatch.setattr(
        double.Sampling,
        "compute_logprobs",
        lambda self, prompt: double.Future(lambda: [None, *(x - 0.2 for x in logprobs(self, prompt).result()[1:])]),
    )
    near, step = conform_service()
    assert near.grade is step.grade is Grade.FAIL and near.error == pytest.approx(0.2, abs=1e-3)
    assert "no log-probability" in step.text


def test_what_is_refused(service, monkeypatch):
    with pytest.raises(ConfigError, match="no check of the loss 'dro'"):
        conform_service(["dro"])
    with pytest.raises(ResourceError, match="there is no model other") as told:
        conform_service(model="other")
    assert told.value.fix.endswith("run gnomon conform URL again")
    monkeypatch.delenv("TINKER_API_KEY")
    with pytest.raises(ConfigError, match="TINKER_API_KEY") as unset:
        conform_service()
    assert unset.value.fix.startswith("export TINKER_API_KEY")


def test_a_url_without_a_service_is_an_error_at_once():
    done = command("conform", "http://127.0.0.1:1", env={**os.environ, "TINKER_API_KEY": "tml-any"})
    assert done.returncode != 0 and "E508" in done.stderr and "nothing answers at http://127.0.0.1:1" in done.stderr


@pytest.mark.skipif(not find_spec("tinker"), reason="the SDK is not installed: pip install tinker")
def test_the_command_asks_a_server_through_the_sdk(monkeypatch):
    with serving(monkeypatch) as server:
        keys = {"TINKER_API_KEY": f"tml-{server.token}", "TINKER_TELEMETRY": "0"}
        done = command("conform", server.url, "ppo", "--markdown", env={**os.environ, **keys})
        other = command("conform", server.url, env={**os.environ, **keys, "TINKER_API_KEY": "tml-other"})
    assert done.returncode == 0, done.stderr
    assert "| clip edges |  | PASS |" in done.stdout
    assert "E508" in other.stderr and "refuses the key" in other.stderr and "Traceback" not in other.stderr
