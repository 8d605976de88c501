"""Families of models that people train: each trains in full and by an adapter, is exported and read back by others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    PhiConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

import gnomon
from gnomon.errors import ConfigErrors, GnomonError
from gnomon.export.model import export
from gnomon.store import RunReader
from models.characters import tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 102, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": 1,
    "pad_token_id": 0, "initializer_range": 0.12,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
FAMILIES: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "gpt2": GPT2Config(
        vocab_size=102, n_embd=32, n_layer=2, n_head=4, n_positions=512, bos_token_id=None, eos_token_id=1
    ),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=True),
    "gemma3": Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=16),
    "gemma2": Gemma2Config(**SIZES, head_dim=8, sliding_window=16, attn_logit_softcapping=2.0),
    "mistral": MistralConfig(**SIZES, sliding_window=16),
    "mixtral": MixtralConfig(**SIZES, **EXPERTS),
    "qwen3 experts": Qwen3MoeConfig(
        **SIZES, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24
    ),
    "phi": PhiConfig(**{**SIZES, "num_key_value_heads": 4}),
    "granite": GraniteConfig(**SIZES, logits_scaling=4.0),
    "gpt_oss": GptOssConfig(**SIZES, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
    "qwen3_5": Qwen3_5TextConfig(
        **SIZES,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
    ),
    "mamba": MambaConfig(**{**SIZES, "state_size": 8}),
    "bloom": BloomConfig(vocab_size=102, hidden_size=32, n_layer=2, n_head=4, eos_token_id=1, pad_token_id=0),
}
RUN: dict[str, Any] = {
    "threads": 1, "steps": 1, "rollout": {"prompts": 2, "group": 4, "max_tokens": 6}, "eval": {"tasks": 2},
    "optim": {"lr": 1e-2, "warmup": 0}, "regularize": {"entropy": 1.0}, "quiet": True,
}  # fmt: skip
"""Random models are never right; the entropy bonus gives them a gradient."""


def model_of(config: PreTrainedConfig, folder: Path) -> Path:
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def recorded(run: Path) -> list[tuple[list[int], list[int], list[float]]]:
    """Prompts, completions and log-probabilities of the last evaluation: by the weights that are exported."""
    with RunReader(run) as reader:
        turns = [r.turns[0] for group in reader.groups(reader.steps, "held_out") for r in group.rollouts]
    return [(list(t.prompt_ids), list(t.completion.token_ids), list(t.completion.logprobs)) for t in turns]


def furthest(model: Any, cases: list[tuple[list[int], list[int], list[float]]]) -> float:
    """The largest difference between the recorded log-probabilities and those of a model of transformers."""
    gaps = []
    for prompt, completion, logprobs in cases:
        with torch.no_grad():
            logp = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        found = logp.gather(1, torch.tensor(completion)[:, None])[:, 0]
        gaps.append((found - torch.tensor(logprobs)).abs().max())
    return float(torch.stack(gaps).max())


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_trains_and_others_read_it(name: str, rank: int, tmp_path: Path) -> None:
    base = model_of(FAMILIES[name], tmp_path / "base")
    policy = {"path": str(base), "lora": {"rank": rank}}
    with gnomon.train("char_count", run=tmp_path / "run", policy=policy, **RUN) as run:
        assert run.status == "finished"
        (step,) = run.metrics()
        assert step["metrics"]["logp_mismatch"] <= (0.0 if run.manifest["tier"] == "exact" else 1e-5)
    cases = recorded(tmp_path / "run")
    written = export(str(tmp_path / "run"), tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(base if rank else tmp_path / "out", dtype=torch.float32).eval()
    if rank:
        assert furthest(model, cases) > 1e-3  # The adapter does something.
        model = PeftModel.from_pretrained(model, str(tmp_path / "out")).eval()
        assert "model.safetensors" not in written.files
    # Other attention kernels sum in another order: a few float32 roundings per layer.
    assert furthest(model, cases) < 2e-5
    if rank:
        merged = export(str(tmp_path / "run"), tmp_path / "merged", merged=True)
        assert merged.merge_gap is not None and merged.merge_gap < 2e-5
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32).eval()
        assert furthest(model, cases) < 2e-5


TEMPLATE = "{% for m in messages %}({{ m['role'] }}) {{ m['content'] }}\n{% endfor %}(reply) "


def bare(folder: Path, *, pad: bool, end: bool, template: bool) -> Path:
    """A model folder whose tokenizer has some of what a tokenizer may have."""
    config = LlamaConfig(**{**SIZES, "eos_token_id": 1 if end else None, "pad_token_id": 0 if pad else None})
    model_of(config, folder)
    if template:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("template", [False, True])
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("pad", [False, True])
def test_a_tokenizer_without_padding_end_or_template_trains(
    pad: bool, end: bool, template: bool, rank: int, tmp_path: Path
) -> None:
    """Nothing is ever padded; replies end at `rollout.stop` or their limit; messages have lines without a template."""
    base = bare(tmp_path / "base", pad=pad, end=end, template=template)
    policy = {"path": str(base), "lora": {"rank": rank}}
    with gnomon.train("char_count", run=tmp_path / "run", policy=policy, **RUN) as run:
        assert run.status == "finished"
        assert [step["metrics"]["logp_mismatch"] <= 1e-5 for step in run.metrics()] == [True]
        assert end or max(record.body["tokens"] for record in run.records("rollout")) == 6
    export(str(tmp_path / "run"), tmp_path / "out", merged=bool(rank))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    cases = recorded(tmp_path / "run")
    assert furthest(model, cases) < 2e-5
    asked = "".join(tokenizer().id_to_token(token) for token in cases[0][0])
    assert asked.startswith("(user) ") and asked.endswith("(reply) ") if template else "(reply)" not in asked


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("pad", [False, True])
def test_what_a_tokenizer_lacks_is_named(pad: bool, rank: int, tmp_path: Path) -> None:
    """Without an end and without `rollout.stop`; with an unknown template and several turns. Nothing is written."""
    endless = bare(tmp_path / "endless", pad=pad, end=False, template=False)
    spoken = bare(tmp_path / "spoken", pad=pad, end=True, template=True)
    run = tmp_path / "run"
    with pytest.raises(ConfigErrors, match=r"E318.*no end token(.|\n)*generation_config.json"):
        policy = {"path": str(endless), "lora": {"rank": rank}}
        gnomon.train("char_count", run=run, policy=policy, **{**RUN, "rollout": {**RUN["rollout"], "stop": []}})
    with pytest.raises(GnomonError, match=r"E313(.|\n)*earlier reply(.|\n)*policy={'renderer': 'plain'}"):
        gnomon.train("calculator", run=run, policy={"path": str(spoken), "lora": {"rank": rank}}, **RUN)
    judged = {**RUN, "rollout": {**RUN["rollout"], "judged_by": "policy"}}
    with pytest.raises(GnomonError, match="E313"):  # The question about a reply is another turn.
        gnomon.train("char_count", run=run, policy={"path": str(spoken), "lora": {"rank": rank}}, **judged)
    assert not run.exists()
    policy = {"path": str(spoken), "lora": {"rank": rank}, "renderer": "plain"}
    with gnomon.train("calculator", run=run, policy=policy, **RUN) as reader:
        assert reader.status == "finished"
