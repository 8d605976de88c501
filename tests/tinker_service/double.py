"""What a run uses of the Tinker SDK, over learners and engines of this process: `tinker` where it is not installed.

It has the names and shapes of the SDK, tinker 0.38.0. `test_client.py` runs with the SDK itself where there is one.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from gnomon.config import RunConfig
from gnomon.keys import Key
from gnomon_tinker.messages import Example, Pass
from gnomon_tinker.sampling import Sampler
from gnomon_tinker.training import Model

__version__ = "double"


class TinkerError(Exception):
    pass


class Future:
    """A request that is carried out when its result is asked for."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def result(self) -> Any:
        try:
            return self._act()
        except ValueError as error:
            raise TinkerError(str(error)) from error

    def __await__(self) -> Generator[None, None, Any]:
        return self.result()
        yield


@dataclass
class ModelInput:
    tokens: list[int]

    @classmethod
    def from_ints(cls, tokens: list[int]) -> ModelInput:
        return cls(tokens)


@dataclass
class Datum:
    model_input: ModelInput
    loss_fn_inputs: Mapping[str, Any]


@dataclass
class Logp:
    values: Any

    def to_numpy(self) -> Any:
        return self.values


types = SimpleNamespace(ModelInput=ModelInput, Datum=Datum, AdamParams=dict, SamplingParams=dict)


class Training:
    """A `TrainingClient`."""

    def __init__(self, service: Service, model: Model) -> None:
        self.service, self.model = service, model

    def forward(self, data: list[Datum], loss: str) -> Future:
        return Future(partial(self._pass, data, loss, True))

    def forward_backward(self, data: list[Datum], loss: str) -> Future:
        return Future(partial(self._pass, data, loss, False))

    def _pass(self, data: list[Datum], loss: str, forward_only: bool) -> Any:
        examples = tuple(Example(tokens=tuple(d.model_input.tokens), inputs=d.loss_fn_inputs) for d in data)
        work = Pass(model="", number=0, data=examples, loss=loss, options={}, forward_only=forward_only)
        found, metrics = self.model.train(work)
        outputs = [{"logprobs": Logp(np.array(each))} for each in found]
        return SimpleNamespace(loss_fn_outputs=outputs, metrics=metrics)

    def optim_step(self, params: Mapping[str, float]) -> Future:
        return Future(lambda: SimpleNamespace(metrics=self.model.step(params)))

    def save_state(self, name: str, overwrite: bool) -> Future:
        def save() -> Any:
            path = f"tinker://state/{len(self.service.saved)}/{name}"
            self.service.saved[path] = self.service.folder / str(len(self.service.saved))
            self.model.save(self.service.saved[path])
            return SimpleNamespace(path=path)

        return Future(save)

    def save_weights_for_sampler(self, name: str, ttl_seconds: int) -> Future:
        def save() -> Any:
            path = f"tinker://weights/{len(self.service.weights)}/{name}"
            self.service.weights[path] = self.model.publish()
            return SimpleNamespace(path=path)

        return Future(save)


class Sampling:
    """A `SamplingClient`. Args: path: of weights; empty for the base model."""

    def __init__(self, service: Service, path: str) -> None:
        self.service, self.path = service, path
        lora = service.config.policy.lora.model_copy(update={} if path else {"rank": 0})
        policy = service.config.policy.model_copy(update={"lora": lora})
        local = {
            "policy": policy,
            "learner": "local",
            "engine": service.config.engine.model_copy(update={"type": "embedded"}),
        }
        self.sampler = Sampler(service.config.model_copy(update=local))

    def _sampled(self, prompt: ModelInput, params: Mapping[str, Any], scored: bool) -> Any:
        body = {"prompt": {"chunks": [{"tokens": prompt.tokens}]}, "sampling_params": params, "prompt_logprobs": scored}
        return self.sampler.sample(self.path, self.service.weights.get(self.path), body, Key(0))

    def sample(self, prompt: ModelInput, num_samples: int, sampling_params: Mapping[str, Any]) -> Future:
        def draw() -> Any:
            found, _ = self._sampled(prompt, sampling_params, False)
            return SimpleNamespace(
                sequences=[SimpleNamespace(tokens=[*each.token_ids], logprobs=[*each.logprobs]) for each in found]
            )

        return Future(draw)

    def compute_logprobs(self, prompt: ModelInput) -> Future:
        return Future(lambda: [None, *self._sampled(prompt, {"max_tokens": 1}, True)[1][1:]])


class Service:
    """A `ServiceClient`. Class attributes are the service itself, which outlives its clients."""

    config: RunConfig
    folder: Path
    saved: dict[str, Path]
    weights: dict[str, Any]

    def create_lora_training_client(self, base_model: str, rank: int, seed: int) -> Future:
        if base_model != "tiny":
            return Future(partial(refuse, f"there is no model {base_model}"))
        return Future(lambda: Training(self, Model(self.config, rank, seed)))

    def create_training_client_from_state_with_optimizer(self, path: str) -> Future:
        def load() -> Any:
            model = Model(self.config, self.config.policy.lora.rank, None)
            model.load(self.saved[path], optimizer=True)
            return Training(self, model)

        return Future(load)

    def create_sampling_client(self, model_path: str = "", base_model: str = "") -> Future:
        return Future(lambda: Sampling(self, model_path))

    def close(self, status: str) -> None:
        pass


ServiceClient = Service


class RestClient:
    def get_server_capabilities(self) -> Future:
        return Future(lambda: SimpleNamespace(supported_models=[SimpleNamespace(model_name="tiny")]))


def refuse(why: str) -> None:
    raise ValueError(why)
