"""Error of the gradient of whole models against float64 autograd: python benchmarks/model_gradients.py [--device cuda]

Random models of two layers. The learner computes the gradient of Σ κ·log π of some rows: by both attentions, with
activations kept or computed again, of all weights or of a LoRA adapter, in all eight combinations; of rows that share
prompts and of rows that do not; in one micro-batch and in one for every row. The exact gradient is autograd's in
float64, of transformers' own model and attention, one row after the other without padding. Every figure is the norm of
the difference divided by the norm of the exact gradient, over all trained parameters. The exact model has the weights
that the learner computes with, so in bfloat16 and float16 a figure is the error of the computation alone. On a CPU
`Flex` computes in torch's uncompiled form, since torch has no compiled gradient for it.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import flex_attention as torch_flex
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPT2Config, LlamaConfig, PreTrainedConfig, Qwen3Config

from gnomon.keys import Key
from gnomon.learners import Batch, TokenSequence
from gnomon.learners.coefficients import Coefficients
from gnomon.learners.local import LocalLearner
from gnomon.models import flex
from gnomon.models.adapter import PREFIX, Adapter
from gnomon.models.attention import NAME
from gnomon.models.backends import OVERFLOWING
from gnomon.models.flex import Flex
from gnomon.models.folder import TINY
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Denominators, Rollouts

__all__ = ["DTYPES", "FAMILIES", "KINDS", "PATHS", "Line", "Path", "errors"]

WORDS = 102
ENDS: dict[str, Any] = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
SIZES: dict[str, Any] = ENDS | {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.12,
}  # fmt: skip
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "gpt2": GPT2Config(
        **ENDS, n_embd=64, n_layer=2, n_head=4, initializer_range=0.12, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0
    ),
    "qwen3": Qwen3Config(**SIZES, head_dim=24, tie_word_embeddings=True),
    "gemma3": Gemma3TextConfig(
        **SIZES, head_dim=32, sliding_window=16, layer_types=["sliding_attention", "full_attention"]
    ),
}
"""Gemma's width is a square: it multiplies embeddings by its root, which other widths would round to the dtype."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
RANK, ALPHA = 4, 4
PROMPTS, REPLIES = (6, 140), (5, 20, 33)
"""Tokens of the prompts, and of the replies to each. 128 positions are a span of attention."""


class Path(NamedTuple):
    """A way to compute the gradient."""

    whole: type[Packed] | type[Flex]
    """The attention."""
    recomputed: bool
    """Whether activations are computed again in the backward pass."""
    adapted: bool
    """Whether a LoRA adapter is trained in the place of all weights."""

    @property
    def name(self) -> str:
        return ", ".join([self.whole.__name__, *["recomputed"] * self.recomputed, *["LoRA"] * self.adapted])


PATHS = [Path(*parts) for parts in product((Packed, Flex), (False, True), (False, True))]


class Line(NamedTuple):
    """The error of the gradient on one path."""

    family: str
    dtype: str
    path: Path
    shared: bool
    """Whether rows share prompts."""
    micro_batches: int
    error: float


KINDS = tuple(product((False, True), (True, False)))
"""Whether an adapter is trained, and whether rows share prompts."""


def errors(
    family: str, dtype: torch.dtype, device: str = "cpu", kinds: Sequence[tuple[bool, bool]] = KINDS
) -> Iterator[Line]:
    """One line for each path, kind of prompts, and number of micro-batches."""
    for adapted, shared in kinds:
        batch = batch_of(shared)
        kappa = torch.randn(len(batch), generator=torch.Generator().manual_seed(1)).double() / len(batch)
        paths = [path for path in PATHS if path.adapted == adapted]
        exact = textbook(family, learning(family, dtype, paths[0], "cpu").policy, batch.sequences, kappa)
        for path in paths:
            learner = learning(family, dtype, path, device)
            for micro_batch in (10**6, 1):
                learner.micro_batch = micro_batch
                with uncompiled() if path.whole is Flex and device == "cpu" else quiet():
                    found = gradient(learner, batch, kappa)
                count = len(batch.micro_batches(micro_batch))
                yield Line(family, str(dtype).removeprefix("torch."), path, shared, count, error(found, exact))


def learning(family: str, dtype: torch.dtype, path: Path, device: str) -> LocalLearner:
    torch.manual_seed(3)
    adapter = Adapter(rank=RANK, alpha=ALPHA, key=Key(0), blank=False) if path.adapted else None
    model = AutoModelForCausalLM.from_config(deepcopy(FAMILIES[family]), attn_implementation=NAME)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # Norms and biases begin as constants, which would hide a mistake.
                parameter.add_(0.2 * torch.randn_like(parameter))
    model = model.to(device, dtype if adapter else torch.float32).eval()
    policy = Policy(model, Tokenizer(TINY), Precision(compute=dtype), adapter=adapter, whole=path.whole)
    if path.recomputed:
        policy.checkpoint_activations()
    return LocalLearner(policy)


def batch_of(shared: bool) -> Batch:
    """Every prompt with some replies; unless they are shared, each reply has a prompt of its own of that length."""
    rng, rows = random.Random(0), []
    for group, length in enumerate(PROMPTS):
        prompt = [rng.randrange(2, WORDS) for _ in range(length)]
        for reply in REPLIES:
            ids = torch.tensor([*prompt, *(rng.randrange(2, WORDS) for _ in range(reply))])
            zeros = torch.zeros(reply, dtype=torch.int64)
            rows.append(
                TokenSequence(
                    token_ids=ids,
                    trainable=torch.arange(len(ids)) >= length,
                    behavior_logp=torch.full((reply,), -4.0, dtype=torch.float64),
                    version=zeros,
                    turn=zeros,
                    rollout=len(rows),
                    group=group,
                    player=0,
                )
            )
            if not shared:
                prompt = [rng.randrange(2, WORDS) for _ in range(length)]
    shape, tokens = (len(PROMPTS), len(REPLIES)), len(PROMPTS) * sum(REPLIES)
    return Batch(
        sequences=tuple(rows),
        rollouts=Rollouts(rewards=torch.zeros(shape, dtype=torch.float64), lengths=torch.tensor([REPLIES] * shape[0])),
        denominators=Denominators(groups=shape[0], sequences=len(rows), tokens=tokens, max_tokens=max(REPLIES)),
        temperature=1.0,
        exact=False,
    )


def gradient(learner: LocalLearner, batch: Batch, kappa: Tensor) -> dict[str, Tensor]:
    """Of the loss −Σ κ·log π, with the largest scale at which float16 does not overflow, as a run finds it."""
    while True:
        for value in learner.parameters.values():
            value.grad = None
        still = torch.zeros(len(kappa))
        learner.forward_backward(batch, Coefficients(kappa=kappa, weight=still, clipped=still.bool()))
        found = {name: value.grad.cpu() for name, value in learner.parameters.items() if value.grad is not None}
        if all(bool(value.isfinite().all()) for value in found.values()):
            return {name: value.double() / learner.scale.value for name, value in found.items()}
        learner.scale.halve()


def textbook(family: str, policy: Policy, rows: Sequence[TokenSequence], kappa: Tensor) -> dict[str, Tensor]:
    """The exact gradient, of what the policy trains."""
    config = deepcopy(FAMILIES[family])  # The attention of a model is looked up in its configuration.
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    trained = {name: value.detach().double().requires_grad_() for name, value in policy.state().items()}
    frozen = {
        name.replace(".base_layer", ""): value.detach().double()
        for name, value in policy.model.named_parameters()
        if not value.requires_grad
    }
    weights = adapted(frozen, trained, transposed=family == "gpt2") if policy.adapter else trained
    own = {name: weights[name] for name, _ in model.named_parameters()}
    loss, kappas = torch.zeros((), dtype=torch.float64), kappa.split([len(row) for row in rows])
    with InDouble():
        for row, k in zip(rows, kappas, strict=True):
            logits = functional_call(model, own, kwargs={"input_ids": row.token_ids[None], "use_cache": False}).logits
            logp = torch.log_softmax(logits[0, :-1], -1).gather(1, row.token_ids[1:, None])[:, 0]
            loss = loss - (k * logp[row.trainable[1:]]).sum()
    return dict(zip(trained, torch.autograd.grad(loss, list(trained.values())), strict=True))


def adapted(frozen: Mapping[str, Tensor], factors: Mapping[str, Tensor], *, transposed: bool) -> dict[str, Tensor]:
    """W + (alpha / rank)·B·A in the place of every weight W that has factors."""
    found = dict(frozen)
    for name in factors:
        layer, _, part = name.removeprefix(PREFIX).partition(".lora_")
        if part == "A.weight":
            added = ALPHA / RANK * factors[name.replace("lora_A", "lora_B")] @ factors[name]
            found[f"{layer}.weight"] = found[f"{layer}.weight"] + (added.t() if transposed else added)
    return found


class InDouble(TorchFunctionMode):
    """Norms, softmax and rotary positions of transformers' models are in float32 in every model; here in float64."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        function = Tensor.double if function is Tensor.float else function
        args = tuple(torch.float64 if value is torch.float32 else value for value in args)
        named = {name: torch.float64 if value is torch.float32 else value for name, value in (kwargs or {}).items()}
        return function(*args, **named)


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


@contextmanager
def uncompiled() -> Iterator[None]:
    """torch and `Flex` refuse a gradient on a CPU; the uncompiled form has one."""
    was = torch_flex._validate_device, flex.refuse
    torch_flex._validate_device, flex.refuse = lambda *states: None, lambda *states: None
    try:
        with quiet():
            yield
    finally:
        torch_flex._validate_device, flex.refuse = was


def error(found: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> float:
    """Of all parameters together."""
    apart = sum(float((found[name] - value).square().sum()) for name, value in exact.items())
    return float((apart / sum(float(value.square().sum()) for value in exact.values())) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    chosen = parser.parse_args()
    device = chosen.device
    torch.set_num_threads(1)
    print(f"{'family':8} {'dtype':10} {'path':24} {'prompts':8} {'one micro-batch':>16} {'one for every row':>18}")
    for family, dtype in product(chosen.families, DTYPES):
        if dtype == torch.float16 and FAMILIES[family].model_type.startswith(OVERFLOWING):
            print(f"{family:8} {'float16':10} refused: it overflows (E326)")
            continue
        lines = list(errors(family, dtype, device))
        for one, several in zip(lines[::2], lines[1::2], strict=True):
            prompts = "shared" if one.shared else "own"
            print(
                f"{family:8} {one.dtype:10} {one.path.name:24} {prompts:8} {one.error:16.1e} {several.error:18.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
