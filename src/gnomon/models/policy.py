"""A causal language model as sampler and learner see it: flat tokens and a layout in, hidden states out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from gnomon.errors import ModelError
from gnomon.models.attention import NAME, Layout, attend_by_layout
from gnomon.models.folder import model_folder
from gnomon.models.kernels import settle
from gnomon.models.tokenizer import Tokenizer

__all__ = ["Policy", "at_least_float32"]

logging.disable_progress_bar()
AttentionInterface.register(NAME, attend_by_layout)
settle()


class Policy:
    """Weights and tokenizer of a hub-format folder.

    Args:
        model: any decoder of transformers whose attention goes through its registry.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.body = model.base_model
        output = model.get_output_embeddings()
        if not isinstance(getattr(output, "weight", None), Tensor):
            raise ModelError("E303", "the model has no vocabulary projection", where=type(model).__name__)
        scaled = [
            name for name in ("logit_scale", "logits_scaling") if getattr(model.config, name, 1.0) not in (None, 1.0)
        ]
        if scaled:
            raise ModelError(
                "E308", f"the model scales its logits ({scaled[0]}), which is not supported", where=type(model).__name__
            )
        if output.bias is not None:
            raise ModelError(
                "E305", "the vocabulary projection has a bias, which is not supported", where=type(model).__name__
            )
        self.head: Tensor = output.weight
        self.cap: float | None = getattr(model.config, "final_logit_softcapping", None)
        self.vocabulary = int(self.head.shape[0])

    @classmethod
    def load(cls, folder: Path | str, dtype: torch.dtype = torch.float32) -> Policy:
        """Read a model folder, or `tiny`; nothing is ever fetched from a network.

        Nothing in the folder is run: no code of its own, no pickle, no kernel from a hub.
        Raises: ModelError, as `model_folder`; E302 without a tokenizer, E303 for what cannot be read.
        """
        folder = model_folder(folder)
        tokenizer = Tokenizer(folder)
        try:
            model, loaded = AutoModelForCausalLM.from_pretrained(
                folder,
                config=configuration(folder),
                dtype=dtype,
                attn_implementation=NAME,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
            policy = cls(model.eval(), tokenizer)
        except ModelError:
            raise
        except Exception as error:  # A folder may hold anything, and its reader raises whatever that leads to.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if "trust_remote_code" in str(error):
                reason = "it needs code from its own folder (auto_map), and Gnomon never runs such code"
            raise ModelError("E303", "the model folder cannot be read", where=str(folder), why=reason) from error
        if missing := sorted(loaded["missing_keys"]):
            why = f"the weights {', '.join(missing[:3])} are missing; they would be random"
            raise ModelError("E303", "the model folder is incomplete", where=str(folder), why=why)
        return policy

    def hidden(self, ids: Tensor, layout: Layout) -> Tensor:
        """Last hidden states [T, size] of flat tokens [T]."""
        out = self.body(input_ids=ids[None], position_ids=layout.positions[None], layout=layout, use_cache=False)
        return out.last_hidden_state[0]  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor, head: Tensor | None = None) -> Tensor:
        """Scores [T, vocabulary] over the next token, under the policy's own projection or a stand-in.

        The projection is computed in the policy's dtype. Its result is at least float32, and so is all that follows
        from it: probabilities, entropies, ratios.
        """
        scores = at_least_float32(torch.nn.functional.linear(hidden, self.head if head is None else head))
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)

    def state(self) -> dict[str, Tensor]:
        """Every parameter by name, not copied."""
        return dict(self.model.named_parameters())

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the parameters to a dtype. Buffers, such as the frequencies of positions, stay as they are."""
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(dtype)

    def update(self, state: dict[str, Tensor]) -> None:
        """Copy parameters in. Raises: ModelError E304 when names or shapes differ."""
        own = self.state()
        wrong = sorted(own.keys() ^ state.keys()) or [n for n, p in own.items() if p.shape != state[n].shape]
        if wrong:
            raise ModelError(
                "E304", f"weights do not fit the model: {', '.join(wrong[:3])} …", where=type(self.model).__name__
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(state[name])

    def save(self, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
        """Write a model folder: weights, configuration, tokenizer.

        Args: weights, of every parameter, for example the masters of a learner; those of the policy if not given.
        """
        folder.mkdir(parents=True, exist_ok=True)
        state = {name: value.detach().contiguous() for name, value in (weights or self.state()).items()}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        self.model.config.save_pretrained(folder)
        self.tokenizer.save(folder)


def at_least_float32(values: Tensor) -> Tensor:
    """The values in float32 where they are coarser, else as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def configuration(folder: Path) -> Any:
    """The configuration of a model folder, without the settings that name a kernel to load."""
    found = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return type(found).from_dict(without_kernels(json.loads((folder / "config.json").read_text("utf-8"))))


def without_kernels(values: dict[str, Any]) -> dict[str, Any]:
    """Settings, and those nested in them, without the ones that choose an implementation from a hub."""
    return {
        name: without_kernels(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if "_implementation" not in name and not name.startswith("use_kernel")
    }
