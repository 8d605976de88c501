"""No process of a learner ever holds a whole copy of the model, neither as it starts nor as a state is loaded.

A random model of 100 MB, two thirds of which are its vocabulary, and four processes. Each may add its quarter of what
it keeps, the pages of the files that it reads from, and some MB of the program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from gnomon.config import Source, resolve
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.models.adapter import Adapter
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.stored import Stored, weights_of
from gnomon.objectives import objective
from gnomon.run.ranks import start_ranks
from learners.test_ranks import processes

RANKS = 4
SIZES = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 3, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 32000, "tie_word_embeddings": True}  # fmt: skip
PROGRAM = 24e6
"""Bytes that a process needs beside tensors: meeting the others, and code that it reads for the first time."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = AutoConfig.for_model("qwen3", **SIZES)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "model" / name).write_bytes((TINY / name).read_bytes())
    return tmp_path / "model"


def peak(pid: int) -> int:
    """Most resident bytes since `reset`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset(pid: int) -> int:
    """Forget the most bytes so far. Returns: the bytes now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid)


@pytest.mark.long
def test_no_process_holds_a_whole_copy(model: Path, tmp_path: Path) -> None:
    size = (model / "model.safetensors").stat().st_size
    before = processes()
    settings = {"env": "char_count", "policy": str(model), "policy.lora.rank": 0, "ranks": RANKS}
    config, _ = resolve([Source(settings, {})])
    learner = start_ranks(config, objective("reinforce"))
    try:
        launcher, *ranks = sorted(processes() - before)
        started = [peak(pid) - resident(launcher) for pid in ranks]
        learner.save_state(tmp_path / "saved")
        with (
            safe_open(model / "model.safetensors", "pt") as one,
            safe_open(tmp_path / "saved" / "model.safetensors", "pt") as other,
        ):
            assert set(one.keys()) == set(other.keys())
            assert all(torch.equal(one.get_tensor(name), other.get_tensor(name)) for name in set(one.keys()))
        grow_state(tmp_path / "saved")
        now = [reset(pid) for pid in ranks]
        learner.load_state(tmp_path / "saved")
        loaded = [peak(pid) - was for pid, was in zip(ranks, now, strict=True)]
    finally:
        learner.close()
    assert all(found < size / RANKS + size / RANKS + PROGRAM for found in started), (size, started)
    # Weights are copied into their place; two moments are kept. Of both files, a quarter is read.
    assert all(found < (2 + 3) * size / RANKS + PROGRAM for found in loaded), (size, loaded)
    assert 5 * size / RANKS + PROGRAM < 2 * size


def grow_state(folder: Path) -> None:
    """Give the saved state the two moments of a first step."""
    state = load_file(folder / "optimizer.safetensors")
    with safe_open(folder / "model.safetensors", "pt") as file:
        for name in sorted(file.keys()):
            value = file.get_tensor(name)
            state |= {f"{name}/exp_avg": value, f"{name}/exp_avg_sq": value.square(), f"{name}/step": torch.tensor(1.0)}
    save_file(state, folder / "optimizer.safetensors")


def test_rows_of_a_stored_tensor_are_those_of_the_whole(tmp_path: Path) -> None:
    with weights_of(TINY) as stored:
        name = max(stored, key=lambda name: stored.shape(name)[0])
        whole = stored[name]
        assert stored.shape(name) == tuple(whole.shape)
        assert torch.equal(stored.rows(name, 3, 7), whole[3:7]) and len(stored.rows(name, 5, 5)) == 0
    policy = Policy.load(TINY)
    policy.model.save_pretrained(tmp_path, max_shard_size="200KB")
    assert json.loads((tmp_path / "model.safetensors.index.json").read_text())
    with weights_of(tmp_path) as parts, Stored(TINY / "model.safetensors") as stored:
        assert parts.shapes() == stored.shapes()
        assert all(torch.equal(parts[name], stored[name]) for name in parts)


@pytest.mark.parametrize("adapter", [None, Adapter(rank=2, key=Key(0), blank=False)], ids=["full", "lora"])
def test_an_outline_is_the_policy_without_what_is_read(adapter: Adapter | None) -> None:
    """The shipped policy has a vocabulary projection of its own, and rotary frequencies that are computed."""
    policy, real = Policy.outline(TINY, Precision(), adapter=adapter), Policy.load(TINY, Precision(), adapter=adapter)
    assert policy is not None
    own, other = dict(policy.model.named_parameters()), dict(real.model.named_parameters())
    assert {name: (value.shape, value.dtype, value.requires_grad) for name, value in own.items()} == {
        name: (value.shape, value.dtype, value.requires_grad) for name, value in other.items()
    }
    made = {name for name in own if "lora_" in name}
    assert {name for name, value in own.items() if not value.is_meta} == made and bool(made) == bool(adapter)
    buffers = dict(real.model.named_buffers())
    assert buffers and all(torch.equal(value, buffers[name]) for name, value in policy.model.named_buffers())
    assert all(torch.equal(own[name], other[name]) for name in made)


def test_a_tensor_that_becomes_another_one_gives_no_outline(tmp_path: Path) -> None:
    """Names that transformers translates are found. A parameter without a tensor is left to `Policy.load`."""
    for path in TINY.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    state = load_file(TINY / "model.safetensors")
    bare = {name.removeprefix("gpt_neox."): value for name, value in state.items()}
    save_file(bare, tmp_path / "model.safetensors", {"format": "pt"})
    found = Policy.outline(tmp_path, Precision())
    assert bare.keys() != state.keys() and found is not None and set(found.sources.values()) == bare.keys()
    del bare["final_layer_norm.bias"]
    save_file(bare, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="E303"):
        Policy.load(tmp_path)
    assert Policy.outline(tmp_path, Precision()) is None
