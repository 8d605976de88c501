"""A low-rank adapter beside the linear layers of a frozen model (LoRA), by PEFT. Extra `gnomon[lora]`."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.pytorch_utils import Conv1D

from gnomon.errors import ModelError, ResourceError
from gnomon.keys import Key
from gnomon.models.hub import parse_name
from gnomon.models.precision import at_least
from gnomon.models.steady import wide_linear

__all__ = ["ALL_LINEAR", "CONFIG", "WEIGHTS", "Adapter", "Down", "Injected", "layers_of", "write_config"]

ALL_LINEAR = "all-linear"
"""Every linear layer except the vocabulary projection. Experts whose weights are one parameter are no linear layers."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""Files of an adapter folder, as PEFT names them."""
NAME = "default"
"""PEFT's name of the only adapter of a model."""
STATE_SPACES = ("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h")
READ_APART = ("out_proj",)
"""Layers whose weights the kernels of these families read without calling the layer; PEFT refuses them too."""
PREFIX = "base_model.model."
"""What stands before the name of a layer in an adapter folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """W + (alpha / rank)·B·A in the place of every targeted weight W, which is frozen.

    Source: Hu et al. 2021 (LoRA), arXiv 2106.09685, §4.1, eq. 3.
    """

    rank: int
    key: Key
    """Of the first values."""
    alpha: int = 32
    targets: tuple[str, ...] = (ALL_LINEAR,)
    """Last parts of the names of the layers, or `all-linear`."""
    blank: bool = True
    """Whether B begins with zeros, so that the adapter adds nothing. Otherwise its first values are random too, so that
    a measurement of the model includes the adapter."""

    def inject(self, model: Any) -> Injected:
        """Put the adapter into a model of transformers and freeze everything else.

        Raises: ResourceError E505 without PEFT, ModelError E324 where no layer has a name among the targets.
        """
        if not find_spec("peft"):
            raise ResourceError(
                "E505",
                "the package peft is not installed",
                where=f"policy.lora.rank={self.rank}",
                why="adapters are made by PEFT, which is an optional extra",
                fix='pip install "gnomon[lora]"',
            )
        logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # PEFT loads it, and it warns of unused kernels.
        from peft import LoraConfig, inject_adapter_in_model
        from peft.tuners.lora import LoraLayer

        names = linear_names(model)
        if unknown := [target for target in self.targets if target not in (ALL_LINEAR, *names)]:
            raise ModelError(
                "E324",
                f"no linear layer of the model is called {' or '.join(unknown)}",
                where="policy.lora.targets",
                why=f"its layers that can have an adapter are called {', '.join(names)}",
                fix=f'policy.lora.targets=["{ALL_LINEAR}"]',
            )
        transposed = any(isinstance(module, Conv1D) for module in model.modules())
        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=names if ALL_LINEAR in self.targets else list(self.targets),
            exclude_modules=without_adapter(model, names) or None,
            fan_in_fan_out=transposed,
        )
        with torch.random.fork_rng(devices=[]):  # PEFT draws first values, which are replaced below.
            inject_adapter_in_model(config, model, NAME)
        layers = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
        injected = Injected(self, layers, transposed)
        injected.begin()
        return injected


class Injected:
    """The adapter inside a model.

    Args: layers: PEFT's, by the names of the layers they replace; transposed: whether weights lie [in, out], as GPT-2's
        do.
    """

    def __init__(self, adapter: Adapter, layers: Mapping[str, Any], transposed: bool) -> None:
        self.adapter, self.layers, self.transposed = adapter, dict(layers), transposed

    @torch.no_grad()
    def begin(self) -> None:
        """Give the adapter its first values, keyed by layer, in at least float32."""
        for name, layer in self.layers.items():
            down, up = layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
            for part, weight in (("A", down), ("B", up)):
                weight.data = at_least(weight.data)
                seed = self.adapter.key.at("adapter", layer=name, part=part).integer()
                generator = torch.Generator(device="cpu").manual_seed(seed)
                initial = torch.empty(weight.shape, device="cpu")
                torch.nn.init.kaiming_uniform_(initial, a=math.sqrt(5), generator=generator)
                weight.copy_(initial)
            if self.adapter.blank:
                up.zero_()
            layer.lora_A[NAME] = Down(down)
            layer.cast_input_dtype_enabled = False  # `Down` does it.

    def state(self) -> dict[str, Tensor]:
        """The adapter's parameters under the names that they have in an adapter folder, not copied."""
        return {
            f"{PREFIX}{name}.lora_{part}.weight": factors[NAME].weight
            for name, layer in self.layers.items()
            for part, factors in (("A", layer.lora_A), ("B", layer.lora_B))
        }

    @contextmanager
    def off(self) -> Iterator[None]:
        """The model computes as if it had no adapter."""
        for layer in self.layers.values():
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in self.layers.values():
                layer.enable_adapters(True)

    def merge(self, model: Any) -> None:
        """Add the adapter to the weights of the model that it is in, and take its layers away."""
        for name, layer in self.layers.items():
            layer.merge()
            model.set_submodule(name, layer.get_base_layer())

    def write_config(self, folder: Path, base: str | None) -> None:
        """Write `adapter_config.json`.

        Args: base: the model that the adapter belongs to, by folder or by its name in the hub, with `@REVISION`.
        """
        write_config(folder, self.adapter, list(self.layers), base=base, transposed=self.transposed)


def write_config(
    folder: Path, adapter: Adapter, layers: Sequence[str], *, base: str | None, transposed: bool = False
) -> None:
    """Write `adapter_config.json` of PEFT. Args: layers: full names of the layers that have an adapter."""
    name = parse_name(base) if base else None
    values = {
        "base_model_name_or_path": name.repo if name else base,
        "bias": "none",
        "fan_in_fan_out": transposed,
        "inference_mode": True,
        "lora_alpha": adapter.alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": last_parts(layers),
        "task_type": "CAUSAL_LM",
    } | ({"revision": name.revision} if name and name.revision else {})
    (folder / CONFIG).write_text(json.dumps(values, indent=1) + "\n", "utf-8")


def layers_of(names: Iterable[str]) -> list[str]:
    """Full names of the layers that these tensors of an adapter folder belong to."""
    return sorted({name.removeprefix(PREFIX).partition(".lora_")[0] for name in names})


class Down(torch.nn.Module):
    """The first factor of an adapter: [T, in] to [T, rank]."""

    def __init__(self, weight: torch.nn.Parameter) -> None:
        super().__init__()
        self.weight = weight
        """[rank, in]."""

    def forward(self, x: Tensor) -> Tensor:
        return wide_linear(x.to(self.weight.dtype), self.weight)


LINEAR = torch.nn.Linear | Conv1D


def linear_names(model: Any) -> list[str]:
    """Last parts of the names of the linear layers of a model that are trained, except its vocabulary projection."""
    head = model.get_output_embeddings()
    layers = [(name, m) for name, m in model.named_modules() if isinstance(m, LINEAR) and m is not head]
    names = last_parts([name for name, module in layers if module.weight.requires_grad])
    read_apart = () if model.config.model_type not in STATE_SPACES else READ_APART
    return [name for name in names if name not in read_apart]


def without_adapter(model: Any, names: Sequence[str]) -> list[str]:
    """Full names of the modules that have none, whatever they are called: what is frozen, such as a vision tower, and
    layers of another kind, such as a convolution, with a name among `names`."""
    owned = {name: [value.requires_grad for value in module.parameters()] for name, module in model.named_modules()}
    frozen = [name for name, flags in owned.items() if flags and not any(flags)]
    others = [name for name, module in model.named_modules() if not isinstance(module, LINEAR)]
    return frozen + [name for name in others if name.rpartition(".")[2] in names]


def last_parts(names: Sequence[str]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in names})
