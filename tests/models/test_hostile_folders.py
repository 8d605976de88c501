"""Model folders of others: whatever they hold, nothing of it is run, and what cannot be used is said in one error."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gnomon.errors import ModelError
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.rendering import choose

CODE = 'open({mark!r}, "w").write("it ran")\n'


def configured(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


class Bomb:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return open, (self.mark, "w")


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(str(folder / "MARK"))))


def own_code(folder: Path, **values: Any) -> None:
    (folder / "mine.py").write_text(CODE.format(mark=str(folder / "MARK")))
    kinds = {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model", "AutoTokenizer": ["mine.T", None]}
    configured(folder, auto_map=kinds, **values)
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": kinds, "tokenizer_class": "T"}))


def short(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])


def lacking(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    del state[sorted(state)[3]]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


REFUSED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "code of its own": (lambda f: own_code(f, model_type="mine"), "E303", "code"),
    "a pickle alone": (pickled, "E320", "pickle"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "E320", "no .safetensors"),
    "weights cut in the header": (lambda f: short(f, 100), "E303", ""),
    "weights cut at the end": (lambda f: short(f, 900_000), "E303", ""),
    "empty weights": (lambda f: short(f, 0), "E303", ""),
    "weights of another size": (lambda f: configured(f, hidden_size=64), "E303", ""),
    "a tensor that is missing": (lacking, "E303", "would be random"),
    "quantized": (lambda f: configured(f, quantization_config={"quant_method": "mxfp4"}), "E321", "quantized"),
    "quantized by nobody": (lambda f: configured(f, quantization_config="?"), "E321", "quantized"),
    "an adapter": (
        lambda f: (f / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}'), "E321", "adapter",
    ),
    "config is no JSON": (lambda f: (f / "config.json").write_text("{"), "E303", ""),
    "config is a list": (lambda f: (f / "config.json").write_text("[]"), "E303", "not a JSON object"),
    "config is deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "E303", ""),
    "config is no text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "E303", ""),
    "no kind": (lambda f: configured(f, model_type=None), "E303", "model_type"),
    "a kind nobody knows": (lambda f: configured(f, model_type="\x1b[31mnobody"), "E303", ""),
    "no language model": (lambda f: configured(f, model_type="clip"), "E303", ""),
    "layers without end": (lambda f: configured(f, num_hidden_layers=10**9), "E321", "layers"),
    "layers below nothing": (lambda f: configured(f, num_hidden_layers=-1), "E321", "layers"),
    "layers that are a text": (lambda f: configured(f, num_hidden_layers="4"), "E321", "layers"),
    "heads that do not divide": (lambda f: configured(f, num_attention_heads=0), "E303", ""),
    "an activation nobody knows": (lambda f: configured(f, hidden_act="__import__('os')"), "E303", ""),
    "tokenizer is no JSON": (lambda f: (f / "tokenizer.json").write_text("{"), "E302", ""),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "E302", ""),
    "an end that is a text": (
        lambda f: (f / "generation_config.json").write_text('{"eos_token_id": "</s>"}'), "E303", "'</s>'",
    ),
    "generation config is no JSON": (lambda f: (f / "generation_config.json").write_text("x"), "E303", ""),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TINY, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a person was asked"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_one_error(folder, name):
    spoil, code, word = REFUSED[name]
    spoil(folder)
    with pytest.raises(ModelError) as caught:
        choose(Policy.load(folder).tokenizer)
    assert caught.value.code == code and word in str(caught.value), str(caught.value)
    assert str(folder) in caught.value.where and "\x1b" not in str(caught.value) and caught.value.fix
    assert not (folder / "MARK").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "kernels-community/flash-attn"},
        {"_attn_implementation": "evil/kernel:fn"},
        {"use_kernels": True, "use_kernel": "evil/kernel"},
        {"experts_implementation": "evil/kernel"},
    ],
    ids=lambda values: next(iter(values)),
)
def test_kernels_that_a_config_names_are_not_loaded(folder, values, monkeypatch):
    for name in ("get_kernel", "lazy_load_kernel", "load_and_register_attn_kernel"):
        monkeypatch.setattr(
            f"transformers.integrations.hub_kernels.{name}",
            lambda *_, **__: pytest.fail("a kernel was asked for"),
            raising=False,
        )
    configured(folder, **values)
    assert torch.equal(Policy.load(folder).projection.weight, Policy.load(TINY).projection.weight)


def test_code_beside_a_known_model_is_left_alone(folder):
    own_code(folder)
    assert torch.equal(Policy.load(folder).projection.weight, Policy.load(TINY).projection.weight)
    assert not (folder / "MARK").exists()


@pytest.mark.parametrize(
    "template",
    ["{{ 1 // 0 }}", "{{ messages[7].content }}", "{{ ''.__class__.__mro__ }}", "{% for %}", "{{ 'a' * 10**12 }}",
     "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ messages.pop() }}"],
)  # fmt: skip
def test_a_template_that_fails_is_one_error(folder, template):
    (folder / "chat_template.jinja").write_text(template)
    policy = Policy.load(folder)
    renderer = choose(policy.tokenizer)
    from gnomon.types import Message

    with pytest.raises(ModelError) as caught:
        renderer.start((Message(role="user", content="hello"),))
    assert caught.value.code in ("E310", "E316")


@pytest.mark.parametrize("config", ["[", "[]", '{"chat_template": [1, 2]}', '{"chat_template": 7, "eos_token": 7}'])
def test_a_tokenizer_config_that_is_none_is_one_error_or_no_template(folder, config):
    (folder / "tokenizer_config.json").write_text(config)
    policy = Policy.load(folder)
    try:
        choose(policy.tokenizer)
    except ModelError as error:
        assert error.code == "E303"


@pytest.mark.long  # All of torch and transformers is compiled again.
def test_a_model_is_read_without_docstrings():
    """Python takes them away with -OO, and transformers completes them as it defines a model."""
    code = "from gnomon.models.policy import Policy; print(Policy.load('tiny').width)"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "128", done.stderr
