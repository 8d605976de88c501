"""A check that the packed pass of a model has the log-probabilities of transformers, text by text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import GnomonError, ModelError

__all__ = ["foreign", "require_conformance"]

LENGTHS = (24, 17, 30)
"""Tokens of the texts. They are laid end to end, so what leaks from one into the next shows."""
ROUNDING, COARSE = 1e-4, 0.1
"""Largest mean difference, in nats, in at least float32 and in less."""
LOOKS_AHEAD = "the model reads what follows a token, so its probability of the token is not one before the token"


@torch.no_grad()
def require_conformance(model: Any, logp_of: Callable[[Sequence[Tensor]], Tensor], own: str | None) -> None:
    """Compare the log-probabilities of a few short texts.

    Args: logp_of: [T] log-probabilities of every token of the texts but the first ones; own: name of the attention that
        this pass takes, None for the model's own.
    Raises: ModelError E308 for a model that mixes tokens in a way the pass does not compute, or has no attention of
        transformers' registry.
    """
    vocabulary = len(model.get_output_embeddings().weight)
    texts = [
        (torch.arange(length, device="cpu") * (11 + 2 * at) + at) % vocabulary for at, length in enumerate(LENGTHS)
    ]
    try:
        logp = logp_of(texts).float().cpu()
        if own is not None:
            model.set_attn_implementation("eager")
        expected = torch.cat([alone(model, text) for text in texts])
    except GnomonError:
        raise
    except Exception as error:
        raise foreign(model, f"{type(error).__name__}: {error}".splitlines()[0], own) from error
    finally:
        if own is not None:
            model.set_attn_implementation(own)
    apart = float((logp - expected).abs().mean())
    coarse = torch.finfo(model.get_output_embeddings().weight.dtype).bits < 32
    coarse = coarse or torch.get_float32_matmul_precision() != "highest"
    if bool(expected.isfinite().all()) and not apart <= (COARSE if coarse else ROUNDING):
        gap = f"log-probabilities differ from those of transformers by {apart:.2g} nats on average"
        raise foreign(model, LOOKS_AHEAD if own is None and looks_ahead(model, texts[0]) else gap, own)


def looks_ahead(model: Any, text: Tensor) -> bool:
    """Whether what follows a text changes its log-probabilities."""
    longer = torch.cat([text, text.flip(0)])
    return bool((alone(model, longer)[: len(text) - 1] - alone(model, text)).abs().mean() > COARSE / 100)


def alone(model: Any, text: Tensor) -> Tensor:
    """[L−1] log-probabilities of the tokens after the first, as transformers computes them."""
    ids = text.to(model.get_output_embeddings().weight.device)
    logp = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float().log_softmax(-1)
    token_logp: Tensor = logp.gather(1, ids[1:, None])[:, 0].cpu()
    return token_logp


def foreign(model: Any, why: str, own: str | None) -> ModelError:
    """The error of a model whose passes are not those of transformers. Args: own: as in `require_conformance`."""
    where = model if isinstance(model, str) else type(model).__name__
    if own is None:
        what, fix = "the model cannot be trained", "use a causal language model, such as Llama, Qwen3 or Gemma 3"
    else:
        what, fix = "the model mixes tokens in a way that packed passes do not compute", "policy.attention=transformers"
    return ModelError("E308", what, where=where, why=why, fix=fix)
