"""Parts of runs that are broken on purpose: an engine, an objective, a model folder, a data set."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import gnomon
from gnomon.engines.base import Tier
from gnomon.envs import CharCount
from gnomon.models.folder import TINY
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Objective

__all__ = ["Stale", "chatml_model", "leaked_rows", "swapped"]


class Stale(gnomon.loop.Embedded):
    """An engine that reports every new version and goes on sampling with the first weights."""

    def __init__(self, policy: gnomon.loop.Policy) -> None:
        super().__init__(policy)
        self.tier = Tier.MEASURED

    def load(self, weights: WeightsRef) -> None:
        if self.version == 0:
            super().load(weights)
        self.version = weights.version


def swapped() -> Objective:
    """Dr. GRPO with the sign of its advantage swapped."""
    return replace(
        gnomon.objective("dr_grpo"), name="swapped", advantage=lambda rewards: -(rewards - rewards.mean(1, True))
    )


def chatml_model(folder: Path) -> Path:
    """The policy that ships, with the control tokens of ChatML, on which it was never trained."""
    import torch
    from safetensors.torch import load_file, save_file
    from tokenizers import AddedToken, Tokenizer

    if folder.exists():
        return folder
    shutil.copytree(TINY, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    weights, torch_generator = load_file(folder / "model.safetensors"), torch.Generator().manual_seed(0)
    for name, tensor in weights.items():
        if tensor.shape[:1] == (size - 2,):
            rows = 0.05 * torch.randn(2, *tensor.shape[1:], generator=torch_generator)
            weights[name] = torch.cat([tensor, rows.to(tensor.dtype)])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": size}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def leaked_rows(folder: Path) -> tuple[Path, Path]:
    """Questions to train on, and held-out ones of which three in four are among them but for a space."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = CharCount().tasks("train")
    rows = [(tasks[i].messages[-1].content.partition("?")[0], str(tasks[i].answer)) for i in range(300)]
    test = [(text + " ", answer) for text, answer in random.Random(0).sample(rows[:200], 48)]
    fresh = CharCount().tasks("test")
    test += [(fresh[i].messages[-1].content.partition("?")[0], str(fresh[i].answer)) for i in range(16)]
    paths = folder / "train.jsonl", folder / "test.jsonl"
    for path, found in zip(paths, (rows, test), strict=True):
        lines = [json.dumps({"prompt": f"{text}?", "answer": answer}) + "\n" for text, answer in found]
        path.write_text("".join(lines))
    return paths
