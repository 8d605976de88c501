"""Gemma 3 270M from its packages: only where they are installed and `GNOMON_GEMMA` names a converted folder."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer as Encoder
from transformers import AutoModelForCausalLM, Gemma3TextConfig

from gnomon.engines.embedded import Embedded
from gnomon.errors import ModelError, ResourceError
from gnomon.models import gemma
from gnomon.models.folder import SHIPPED
from gnomon.models.gguf_folder import hub_name
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.types import Request, Sampling

FOLDER = Path(os.environ.get("GNOMON_GEMMA", ""))
HERE = find_spec(gemma.PACKAGE) is not None
heavy = pytest.mark.skipif(
    not (HERE and "GNOMON_GEMMA" in os.environ and gemma.complete(FOLDER)),
    reason='needs pip install -e ".[gemma]" and GNOMON_GEMMA=FOLDER, a folder that gnomon.models.gemma.convert wrote',
)
TEXT = "The gnomon is the part of a sundial that casts the shadow: the one thing on the dial that tells the truth. "


@pytest.fixture(scope="module")
def policy() -> Policy:
    torch.set_num_threads(1)
    return Policy.load(FOLDER)


def tiny_encoder() -> Encoder:
    """A SentencePiece vocabulary of a few words, told as a GGUF file tells it."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["ab", "▁a", "abc", "bc", *"▁abcd"]
    kinds = [3] * len(control) + [4, 4] + [6] * 256 + [1] * len(words)
    scores = [-1000.0] * 6 + [0.0] * 256 + [-float(place) for place in range(len(words))]
    return gemma.tokenizer([*control, "\n\n", "  ", *bytes_, *words], scores, kinds)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("abc", ["abc"]),
        ("bc", ["bc"]),
        ("d abcd", ["d", "▁", "abc", "d"]),
        ("d acd", ["d", "▁a", "c", "d"]),
        ("a\n\nb", ["a", "\n\n", "b"]),
        ("a  b", ["a", "  ", "b"]),
        ("é", ["<0xC3>", "<0xA9>"]),
        ("\n", ["<0x0A>"]),
    ],
)
def test_the_best_merge_comes_first_and_whole_tokens_are_never_cut(text: str, tokens: list[str]) -> None:
    encoder = tiny_encoder()
    code = encoder.encode(text, add_special_tokens=False)
    assert code.tokens == tokens
    assert encoder.decode(code.ids, skip_special_tokens=False) == text
    assert encoder.encode(text).tokens == ["<bos>", *tokens]


def test_every_layer_tensor_has_a_name() -> None:
    config = Gemma3TextConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=2, head_dim=4)
    with torch.device("meta"):
        expected = {name for name, _ in AutoModelForCausalLM.from_config(config).named_parameters()}
    names = ["token_embd.weight", "output_norm.weight"]
    names += [f"blk.{layer}.{kind}.weight" for layer in range(2) for kind in gemma.NAMES]
    assert {hub_name(name, gemma.NAMES) for name in names} == expected


def test_without_the_packages_the_fix_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemma, "PACKAGE", "no_such_package")
    for call in (gemma.terms, lambda: gemma.convert(tmp_path / "gemma")):
        with pytest.raises(ResourceError) as caught:
            call()
        assert (caught.value.code, caught.value.fix) == ("E503", 'pip install -e ".[gemma]"')
    assert not any(tmp_path.iterdir())


def test_a_complete_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemma, "PACKAGE", "no_such_package")
    shutil.copytree(SHIPPED["tiny"], tmp_path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert gemma.convert(tmp_path) == tmp_path
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.skipif(not HERE, reason='needs pip install -e ".[gemma]"')
def test_other_files_are_not_mixed_with_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelError) as caught:
        gemma.convert(tmp_path)
    assert caught.value.code == "E307"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not HERE, reason='needs pip install -e ".[gemma]"')
def test_an_interrupted_call_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(what: str, share: float) -> None:
        if what == "reading":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gemma.convert(tmp_path / "gemma", interrupt)
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not HERE, reason='needs pip install -e ".[gemma]"')
def test_the_terms_lie_where_they_are_said_to() -> None:
    told = gemma.terms()
    assert Path(told.split("terms    ")[1].split("  (")[0]).is_file()
    assert Path(told.split("origin   ")[1]).is_file()


@heavy
def test_the_folder_holds_the_whole_model() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["layer_types"].count("full_attention") == 3
    with safe_open(FOLDER / "model.safetensors", "pt") as file:
        sizes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert (len(sizes), sum(torch.Size(size).numel() for size in sizes), kinds) == (236, 268_098_176, {"BF16"})


@heavy
@pytest.mark.parametrize("text", [TEXT, "a  b   c\n\n\td", "1234567 + 3.14 =", "Привет, 你好 🤖", "<answer>3</answer>"])
def test_text_survives(policy: Policy, text: str) -> None:
    ids = policy.tokenizer.encode(text)
    assert policy.tokenizer.decode(ids) == text
    assert policy.tokenizer.bos == 2 and policy.tokenizer.eos == {1}


@heavy
def test_it_continues_a_text_sensibly(policy: Policy) -> None:
    prompt = (2, *policy.tokenizer.encode("def fibonacci(n):\n"))
    request = Request(prompt_ids=prompt, key=bytes(16), sampling=Sampling(max_tokens=16, temperature=0.0))
    completion = asyncio.run(Embedded(policy).sample(request))
    assert completion.text.startswith("    if n == 0:\n        return 0\n")


@heavy
def test_scores_equal_transformers_beyond_the_window(policy: Policy) -> None:
    ids = (2, *policy.tokenizer.encode(TEXT * 30))[:700]
    model: Any = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        logp = torch.log_softmax(model.eval()(torch.tensor([ids])).logits[0, 599:-1], -1)
    expected = logp.gather(1, torch.tensor(ids[600:])[:, None])[:, 0]
    torch.testing.assert_close(score(policy, [ids[:600]], [(0, ids[600:])]), expected, rtol=0, atol=5e-4)


@heavy
@pytest.mark.parametrize("length", [1, 40, 600])
def test_decoding_equals_scoring_in_every_bit(policy: Policy, length: int) -> None:
    ids = (2, *policy.tokenizer.encode(TEXT * 30))
    assert Embedded(policy).measure([ids[:length]], tokens=8) == 0.0
