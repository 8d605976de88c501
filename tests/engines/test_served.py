"""Whether a server computes with a folder's weights: over real HTTP, with a model of transformers behind it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import gnomon
from commands import command
from engines.serving import KEY, serving
from gnomon.engines.served import Answer
from gnomon.errors import GnomonError
from gnomon.models.folder import model_folder


def moved(folder: Path, size: float) -> Path:
    """A model folder like the built-in policy, whose weights have moved by a part of themselves."""
    source, generator = model_folder("tiny"), torch.Generator().manual_seed(3)
    folder.mkdir()
    for path in source.iterdir():
        if path.is_file() and path.suffix != ".safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    weights = load_file(next(source.glob("*.safetensors")))
    moved = {
        name: value * (1 + size * torch.randn(value.shape, generator=generator)) for name, value in weights.items()
    }
    save_file(moved, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    near, far = moved(place / "near", 1e-4), moved(place / "far", 0.5)
    middle = moved(place / "middle", 5e-5)
    return {"old": model_folder("tiny"), "near": near, "far": far, "middle": middle}


@pytest.mark.parametrize("form", ["echo", "prompt"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_folder_is_served_and_another_one_is_not(folders, form, dtype):
    with serving(folders["old"], dtype, form) as url:
        same, other = gnomon.check_weights(url, folders["old"]), gnomon.check_weights(url + "/v1/", folders["far"])
    assert same.answer is Answer.SERVED and same.difference <= 2 * same.rounding and same.model == "policy"
    assert other.answer is Answer.NOT_SERVED and other.difference >= 5 * other.rounding


def test_a_version_that_rounding_hides_is_told_with_the_old_folder(folders):
    """Without the old folder, both are as near as rounding."""
    new, old = folders["near"], folders["old"]
    with serving(old) as url:
        assert gnomon.check_weights(url, new).answer is Answer.SERVED
        stale = gnomon.check_weights(url, new, old=old)
    with serving(new) as url:
        fresh = gnomon.check_weights(url, new, old=old)
    with serving(folders["middle"]) as url:
        part = gnomon.check_weights(url, new, old=old)
    assert stale.answer is Answer.NOT_SERVED and "old folder" in stale.reason and abs(stale.share.value) < 0.05
    assert fresh.answer is Answer.SERVED and abs(fresh.share.value - 1) < 0.05
    assert part.answer is Answer.NOT_SERVED and "part" in part.reason and abs(part.share.value - 0.5) < 0.05


def test_what_the_servers_rounding_hides_cannot_be_told(folders):
    with serving(folders["old"], torch.bfloat16) as url:
        assert gnomon.check_weights(url, folders["near"], old=folders["old"]).answer is Answer.UNKNOWN
        assert gnomon.check_weights(url, folders["old"], old=folders["old"]).answer is Answer.UNKNOWN


def test_the_command_has_an_exit_status_for_each_answer(folders):
    old, near, proxy = str(folders["old"]), str(folders["near"]), "http://127.0.0.1:9"
    with serving(folders["old"]) as url:
        same = command("check-weights", url, old, env={"HTTP_PROXY": proxy, "http_proxy": proxy})
        assert same.returncode == 0 and same.stdout.startswith("served: ")
        stale = command("check-weights", url, near, "--old", old, "--json")
        body = json.loads(stale.stdout)
        assert stale.returncode == 3 and body["answer"] == "not served" and abs(body["share"]["value"]) < 0.05
        equal = command("check-weights", url, old, "--old", old)
        assert equal.returncode == 4 and "nan" not in equal.stdout
        assert gnomon.check_weights(url, old, old=old).body()["share"] is None


@pytest.mark.parametrize(
    ("form", "code", "told"),
    [
        ("none", "E551", "returns no log-probabilities of a prompt"),
        ("chat only", "E550", "404"),
        ("page", "E550", "not JSON"),
        ("nameless", "E550", "list of models"),
        ("key", "E550", "--key NAME"),
        ("slow", "E550", "within 0.5 seconds"),
        ("gone", "E552", "not finite"),
    ],
)
def test_a_server_that_cannot_be_compared_has_an_error(folders, form, code, told):
    with serving(folders["old"], form=form) as url, pytest.raises(GnomonError, match=f"{code}(.|\n)*{told}"):
        gnomon.check_weights(url, folders["old"], seconds=0.5 if form == "slow" else 60)


def test_a_key_is_sent_and_not_shown(folders):
    old = str(folders["old"])
    with serving(folders["old"], form="key") as url:
        found = command("check-weights", url, old, "--key", "SERVER_KEY", env={"SERVER_KEY": KEY})
        assert found.returncode == 0 and KEY not in found.stdout + found.stderr
        missing = command("check-weights", url, old, "--key", "NO_SUCH_KEY")
        assert missing.returncode == 2 and "E094" in missing.stderr


def test_addresses_that_no_server_has_have_errors(folders):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(GnomonError, match="E550"):
            gnomon.check_weights(closed, folders["old"])
    for url in ("localhost:8000", "ftp://localhost", "http://", "http://localhost:none"):
        with pytest.raises(GnomonError, match="E093"):
            gnomon.check_weights(url, folders["old"])
    with serving(folders["old"]) as url, pytest.raises(GnomonError, match=r"E550(.|\n)*TLS"):
        gnomon.check_weights(url.replace("http:", "https:"), folders["old"])


def test_a_model_with_other_tokens_has_an_error(folders, tmp_path):
    """The server's model has fewer tokens than the folder's."""
    from transformers import LlamaConfig, LlamaForCausalLM

    small = LlamaConfig(
        vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, head_dim=8
    )
    LlamaForCausalLM(small).save_pretrained(tmp_path / "small")
    with serving(tmp_path / "small") as url, pytest.raises(GnomonError, match=r"E552(.|\n)*vocabulary"):
        gnomon.check_weights(url, folders["old"])
