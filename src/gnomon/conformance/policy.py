"""The policy of the tests: a random model of the Hugging Face format over three tokens, small enough to enumerate."""

from __future__ import annotations

import functools
import tempfile
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.conformance.batch import ALPHABET, END, Row
from gnomon.theory.world import World

__all__ = ["Policy", "policies", "save_policy"]


def save_policy(folder: str, seed: int) -> None:
    """Write model and tokenizer, both in float64 and as `from_pretrained` reads them."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    config = LlamaConfig(
        vocab_size=len(ALPHABET), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32, bos_token_id=None, eos_token_id=END, pad_token_id=END,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(torch.float64)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            noise = torch.randn(value.shape, generator=draw, dtype=torch.float64)
            value.copy_(0.6 * noise if value.dim() > 1 else 1 + 0.1 * noise)
    model.save_pretrained(folder)
    words = Tokenizer(WordLevel({letter: index for index, letter in enumerate(ALPHABET)}, unk_token=ALPHABET[END]))
    words.pre_tokenizer = Split(Regex("."), "isolated")
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token=".", pad_token=".").save_pretrained(folder)


class Policy:
    """The model, which computes each sequence by itself: no padding, no mask, no batch."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM

        self.folder = folder
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
        self.shapes = {name: value.shape for name, value in self.model.named_parameters()}
        self._scores = functools.cache(self._compute)
        self.size = sum(value.numel() for value in self.model.parameters())

    def logits(self, tokens: Sequence[int]) -> Tensor:
        logits: Tensor = self.model(input_ids=torch.tensor([list(tokens)])).logits[0]
        return logits

    def logp(self, row: Row, temperature: float = 1.0) -> Tensor:
        """[tokens] of the completion, those of tools too."""
        return self._scores(row.prompt, row.completion, temperature)[0]

    def scores(self, row: Row, temperature: float = 1.0) -> Tensor:
        """[tokens, parameters] the gradient of each log-probability."""
        return self._scores(row.prompt, row.completion, temperature)[1]

    def _compute(
        self, prompt: tuple[int, ...], completion: tuple[int, ...], temperature: float
    ) -> tuple[Tensor, Tensor]:
        logits = self.logits((*prompt, *completion))[len(prompt) - 1 : -1] / temperature
        logp = logits.log_softmax(-1).gather(-1, torch.tensor(completion)[:, None])[:, 0]
        return logp.detach(), torch.stack(
            [self.weighted_gradient(logp, one) for one in torch.eye(len(logp), dtype=torch.float64)]
        )

    def table(self, prompt: Sequence[int], space: World) -> Tensor:
        """[prefixes, tokens] the logits after each prefix of a world, in the graph of the parameters."""
        logits: dict[int, Tensor] = {}
        start = 0
        for text in space.answers:
            after = self.logits((*prompt, *map(ALPHABET.index, text)))[len(prompt) - 1 :]
            for t in range(len(text)):
                logits[int(space.prefix[start + t])] = after[t]
            start += len(text)
        return torch.stack([logits[prefix] for prefix in range(space.prefixes)])

    def weighted_gradient(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """[parameters] Σ weights · ∇outputs."""
        values = list(self.model.parameters())
        gradients = torch.autograd.grad(outputs, values, weights, retain_graph=True, allow_unused=True)
        return torch.cat([
            torch.zeros(value.numel(), dtype=torch.float64) if part is None else part.flatten()
            for value, part in zip(values, gradients, strict=True)
        ])  # fmt: skip


@functools.cache
def policies() -> tuple[Policy, Policy]:
    """The policy and the reference of every test, in folders that are removed as the process ends."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    directory = tempfile.TemporaryDirectory(prefix="gnomon-conform-")
    both = []
    for seed in (0, 1):
        folder = f"{directory.name}/{seed}"
        save_policy(folder, seed)
        both.append(Policy(folder))
    weakref.finalize(both[0], directory.cleanup)
    return both[0], both[1]
