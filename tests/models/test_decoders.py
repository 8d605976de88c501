"""Every decoder that transformers ships, as a small random model: it has transformers' own log-probabilities and
trains, or it is refused with a code when it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

from gnomon.errors import ModelError
from gnomon.learners import Batch
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.models.scoring import Completed, text_logp
from gnomon.objectives import Denominators, Rollouts, objective
from learners.sequences import credited, made
from models.characters import tokenizer

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "ffn_hidden_size", "d_ff", "d_inner", "n_inner"), 48),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head", "n_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size"), 24),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 256),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "num_shared_experts", "n_shared_experts"), 1),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 102),
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "mamba_d_state", "state_size"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "sliding_window", "window_size", "mamba_d_head"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim", "mamba_n_heads"), 4),
    "num_key_value_heads": 2, "num_experts_per_tok": 2, "moe_k": 2, "encoder_layers": 1, "decoder_ffn_dim": 48,
    "attention_types": [[["global", "local"], 1]], "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    "initializer_range": 0.12, "is_decoder": True,
}  # fmt: skip
WITHOUT: tuple[tuple[str, ...], ...] = (
    (),
    ("head_dim",),
    ("num_key_value_heads",),
    ("head_dim", "num_key_value_heads"),
)
"""Sizes that some configurations do not take, or derive from others."""
MOST = 5_000_000
"""Parameters of a model that a test makes."""
TEXTS = [torch.randint(2, 100, (n,), generator=torch.Generator().manual_seed(n)) for n in (24, 19, 30)]
"""Longer than the attention windows."""
PAGE = (Path(__file__).parents[2] / "docs/real-models.md").read_text("utf-8")
WORKS = set(re.findall(r"`([\w.-]+)`", PAGE.partition("a training step succeeds: ")[2].partition(".\n")[0]))
"""The families that the page names."""


def alone(model: Any, text: torch.Tensor) -> torch.Tensor:
    """[L−1] what transformers says of a text."""
    with torch.no_grad():
        logp = model(input_ids=text[None], use_cache=False).logits[0, :-1].float().log_softmax(-1)
    found: torch.Tensor = logp.gather(1, text[1:, None])[:, 0]
    return found


def small(name: str) -> Any:
    """A random model of the family that computes its own log-probabilities; None where these sizes make none."""
    for without in WITHOUT:
        try:
            usual = AutoConfig.for_model(name)
            sizes = {key: value for key, value in SMALL.items() if hasattr(usual, key) and key not in without}
            config = AutoConfig.for_model(name, **sizes)
            with torch.device("meta"):
                count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
            if count > MOST:
                continue
            torch.manual_seed(3)
            model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
            alone(model, TEXTS[0])
        except Exception:  # Every family has rules of its own on sizes.
            continue
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:  # Norms and biases begin as constants, which would hide a mistake.
                    parameter.add_(0.1 * torch.randn_like(parameter))
        return model
    return None


def batch() -> Batch:
    """Two groups of two rollouts."""
    sequences = tuple(made([5, 9 + i // 2], [20 + i, 31], rollout=i, group=i // 2) for i in range(4))
    seen = Rollouts(rewards=torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64), lengths=torch.full((2, 2), 2))
    sizes = Denominators(groups=2, sequences=4, tokens=8, max_tokens=2, group_tokens=(4, 4))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=False)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_decoder_agrees_with_transformers_and_trains_or_is_refused(name: str, tmp_path: Path) -> None:
    model = small(name)
    if model is None and name not in WORKS:
        pytest.skip("these sizes make no model of the family")
    assert model is not None
    wanted = torch.cat([alone(model, text) for text in TEXTS])
    model.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    if name not in WORKS:
        with pytest.raises(ModelError, match=r"E(303|305|308)"):
            Policy.load(tmp_path)
        return
    policy = Policy.load(tmp_path)
    found = text_logp(policy, [Completed(text, torch.arange(len(text)) > 0) for text in TEXTS])
    assert float((found - wanted).abs().max()) < 1e-5
    learner, row = LocalLearner(policy), objective("rloo")
    learner.forward_backward(credited(learner, batch(), row), row)
    stats = learner.optim_step(1e-3)
    assert stats["grad_norm"].value > 0


def test_the_page_names_families_that_transformers_ships() -> None:
    assert len(WORKS) > 60 and set(NAMES) >= WORKS
