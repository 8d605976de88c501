"""What the worker uses of vLLM, and what of it a release does not have. Standard library only, as the worker."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["USED", "absent", "accepts", "stamps_versions"]

USED: Mapping[str, tuple[str, ...]] = {
    "vllm:AsyncEngineArgs": (
        "model",
        "dtype",
        "max_model_len",
        "logprobs_mode",
        "worker_extension_cls",
        "enable_prefix_caching",
        "enforce_eager",
        "generation_config",
        "hf_overrides",
    ),
    "vllm:SamplingParams": ("seed", "logprobs", "prompt_logprobs", "stop_token_ids", "ignore_eos", "output_kind"),
    "vllm.sampling_params:RequestOutputKind.FINAL_ONLY": (),
    "vllm.lora.request:LoRARequest": ("load_inplace",),
    "vllm.v1.engine.async_llm:AsyncLLM.from_engine_args": (),
    "vllm.v1.engine.async_llm:AsyncLLM.generate": ("lora_request",),
    "vllm.v1.engine.async_llm:AsyncLLM.collective_rpc": ("args",),
    "vllm.v1.engine.async_llm:AsyncLLM.reset_prefix_cache": (),
    "vllm.v1.engine.async_llm:AsyncLLM.add_lora": (),
}
"""Objects, each with those of its parameters that the worker passes."""


def absent(used: Mapping[str, tuple[str, ...]] = USED) -> list[str]:
    """The objects that do not exist here, and the parameters that an object does not take, as `object(parameter)`."""
    missing: list[str] = []
    for name, parameters in used.items():
        module, _, path = name.partition(":")
        try:
            value: Any = import_module(module)
            for part in path.split("."):
                value = getattr(value, part)
        except (ImportError, AttributeError):
            missing.append(name.replace(":", "."))
            continue
        missing += [f"{path}({each})" for each in parameters if not accepts(value, each)]
    return missing


def accepts(function: Any, parameter: str) -> bool:
    """Whether a function or a class takes a parameter of this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True  # It is built in; a call will tell.
    return parameter in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def stamps_versions() -> bool:
    """Whether an output says which weights sampled each of its tokens. vLLM does since release 0.32."""
    return accepts(import_module("vllm.outputs").CompletionOutput, "weight_versions")
