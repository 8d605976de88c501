"""A part of a vocabulary: texts are encoded as before, scores of kept tokens stay, and what was trained comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Encoder
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, PreTrainedConfig

import gnomon
from commands import command
from gnomon.config import Source, resolve
from gnomon.errors import ModelError
from gnomon.export.model import export
from gnomon.export.trimming import tokens_of
from gnomon.models.subword import needed_ids, restrict
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.trimming import RECORD, trim, untrim
from models.test_families import FAMILIES, RUN

FAMILY = ("llama", "qwen3", "gpt2", "gemma3", "mistral")
"""Tied and untied; linear layers either way round."""
WORDS = "How many e in eels there are three here where the tree stands we see a deer nearby Unscramble letter answer "
TEXTS = [
    f'How many "{letter}" in "{word}"? <answer>{n}</answer>' for n, (letter, word) in enumerate(["ee", "hr", "az"])
]


def subwords(folder: Path, *, byte_level: bool = True) -> Path:
    """A trained byte-pair tokenizer of 600 tokens with marks at both ends, as tokenizer.json."""
    encoder = Encoder(models.BPE(unk_token=None if byte_level else "<unk>"))
    encoder.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Whitespace()
    )
    encoder.decoder = decoders.ByteLevel() if byte_level else decoders.BPEDecoder()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else list("abcdefghijklmnopqrstuvwxyz")
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", "<spare>"], initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    encoder.train_from_iterator([WORDS * 3, *TEXTS, WORDS.upper()], trainer)
    encoder.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    encoder.save(str(folder / "tokenizer.json"))
    return folder


def encoded(path: Path, text: str, *, marked: bool = False) -> list[int]:
    return Encoder.from_file(str(path)).encode(text, add_special_tokens=marked).ids


@pytest.mark.parametrize("byte_level", [True, False])
def test_texts_are_encoded_to_the_same_tokens(byte_level: bool, tmp_path: Path) -> None:
    whole = subwords(tmp_path, byte_level=byte_level) / "tokenizer.json"
    content = json.loads(whole.read_text())
    used = {token for text in TEXTS for token in encoded(whole, text)}
    kept = needed_ids(content, used | {1, 2})
    assert used <= set(kept) and len(kept) < len(content["model"]["vocab"])
    small = tmp_path / "small.json"
    small.write_text(json.dumps(restrict(content, kept)))
    for text in TEXTS:
        assert [kept[token] for token in encoded(small, text)] == encoded(whole, text)
        assert [kept[token] for token in encoded(small, text, marked=True)] == encoded(whole, text, marked=True)
    if byte_level:  # Any other text too is made of kept tokens, and read back as it was.
        for text in ("Zebras, naïve ones: 3 > 2!", WORDS):
            assert Encoder.from_file(str(small)).decode(encoded(small, text)) == text
    assert "<spare>" not in restrict(content, kept)["model"]["vocab"]


def family(name: str, folder: Path, size: int = 600) -> Path:
    """A random model of a family with that tokenizer."""
    config: PreTrainedConfig = type(FAMILIES[name]).from_dict({**FAMILIES[name].to_dict(), "vocab_size": size})
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return subwords(folder)


def scores(folder: Path, ids: list[int]) -> torch.Tensor:
    """[T, vocabulary]."""
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder).eval()(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("name", FAMILY)
def test_scores_of_kept_tokens_stay_and_what_is_trained_comes_back(name: str, tmp_path: Path) -> None:
    base, small = family(name, tmp_path / "base"), tmp_path / "small"
    config = resolve([Source({"env": {"type": "char_count"}, "policy": {"path": str(base)}}, {})])[0]
    kept = trim(base, small, tokens_of(config, 8))
    text = TEXTS[0]
    old, new = (encoded(folder / "tokenizer.json", text) for folder in (base, small))
    before = scores(base, old)
    assert [kept[token] for token in new] == old and len(kept) < 450
    assert torch.equal(scores(small, new), before[:, kept])
    assert Tokenizer(small).eos == {kept.index(1)}
    with gnomon.train("char_count", run=tmp_path / "run", policy=str(small), **RUN) as run:
        assert run.status == "finished"
    export(str(tmp_path / "run"), tmp_path / "trained")
    after = scores(tmp_path / "trained", new)
    assert float((after - scores(small, new)).abs().max()) > 1e-3  # It learned something.
    untrim(tmp_path / "trained", base, tmp_path / "whole", record=small / RECORD)
    found = scores(tmp_path / "whole", old)
    # One product over more rows may take another kernel.
    assert float((found[:, kept] - after).abs().max()) < 1e-5
    model, first = (AutoModelForCausalLM.from_pretrained(folder) for folder in (tmp_path / "whole", base))
    gone = sorted(set(range(600)) - set(kept))
    assert torch.equal(model.get_input_embeddings().weight[gone], first.get_input_embeddings().weight[gone])
    assert encoded(tmp_path / "whole/tokenizer.json", WORDS) == encoded(base / "tokenizer.json", WORDS)


def test_another_base_and_another_kind_of_vocabulary_are_refused(tmp_path: Path) -> None:
    base, other = family("llama", tmp_path / "base"), family("qwen3", tmp_path / "other")
    trim(base, tmp_path / "small", [300])
    with pytest.raises(ModelError, match=rf"E328(.|\n)*--base {base}"):
        untrim(tmp_path / "small", other, tmp_path / "whole")
    with pytest.raises(ModelError, match=r"E328(.|\n)*no trimmed.json"):
        untrim(base, base, tmp_path / "whole")
    unigram: dict[str, Any] = {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}
    with pytest.raises(ModelError, match=r"E327.*Unigram"):
        needed_ids(unigram, [0])


@pytest.mark.long
def test_the_commands(tmp_path: Path) -> None:
    base, small, whole = family("llama", tmp_path / "base"), tmp_path / "small", tmp_path / "whole"
    done = command("model", "trim", str(base), str(small), "--for", "char_count", "--tasks", "4")
    assert done.returncode == 0 and " tokens\nnext: " in done.stdout, done.stderr
    done = command("model", "untrim", str(small), str(whole))
    assert done.returncode == 0, done.stderr
    ids = encoded(base / "tokenizer.json", WORDS)
    assert torch.equal(scores(whole, ids), scores(base, ids))
