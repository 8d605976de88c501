"""An exported policy is read by others: transformers alone, in a process that never imports this package."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

import gnomon
from commands import command
from gnomon.export import model as exporting
from gnomon.store import RunReader, logprobs_of
from rendering.families import tokenizer_folder

READ_BACK = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, cases = sys.argv[1], json.load(sys.stdin)
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
found = {"dtype": str(model.dtype), "template": [], "logp": []}
for case in cases:
    found["template"].append(tokenizer.apply_chat_template(case["messages"], add_generation_prompt=True)["input_ids"])
    ids = torch.tensor([case["prompt_ids"] + case["token_ids"]])
    with torch.no_grad():
        logp = model(ids).logits[0].float().log_softmax(-1)
    place = len(case["prompt_ids"])
    found["logp"].append([float(logp[place + i - 1, token]) for i, token in enumerate(case["token_ids"])])
inputs = tokenizer.apply_chat_template(cases[0]["messages"], add_generation_prompt=True, return_tensors="pt")
output = model.generate(**inputs, stop_strings=["</answer>"], tokenizer=tokenizer)
found["generated"] = tokenizer.decode(output[0, inputs["input_ids"].shape[1]:])
found["ours"] = "gnomon" in sys.modules
print(json.dumps(found))
"""


def read_back(folder: Path, cases: list[dict]) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", READ_BACK, str(folder)], input=json.dumps(cases), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def cases_of(run: Path) -> list[dict]:
    """What was asked and answered in the last evaluation: by the very weights that are exported."""
    with RunReader(run) as reader:
        step = reader.steps
        tasks = {record.task: record.body for record in reader.records("task", step) if record.body["of"] == "held_out"}
        return [
            {
                "messages": tasks[record.task]["messages"],
                "prompt_ids": tasks[record.task]["prompt_ids"],
                "token_ids": record.body["token_ids"],
                "logprobs": logprobs_of(record.body),
            }
            for record in reader.records("held_out", step)
        ]


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def chat_model(folder: Path) -> Path:
    """A small untrained model with tokenizer and chat template of the ChatML family, tied weights and a licence."""
    tokenizer_folder(folder, "chatml")
    tokenizer = json.loads((folder / "config.json").read_text())
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=2000, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, tie_word_embeddings=True, **tokenizer,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHATML)
    (folder / "LICENSE").write_text("Do as you like.")
    return folder


SMALL = {"rollout": {"prompts": 2, "group": 2, "max_tokens": 16}, "eval": {"tasks": 3}, "threads": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "r"
    gnomon.train("char_count", run=folder, quiet=True, steps=3, save={"every": 1, "keep": 2}, **SMALL).close()
    return folder


def test_others_read_what_was_trained(run, tmp_path):
    done = command("export", str(run), str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["step"] == 3 and facts["dtype"] == "float32"
    assert set(facts["files"]) == {
        "README.md", "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors",
        "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    cases = cases_of(run)
    found = read_back(tmp_path / "out", cases)
    assert not found["ours"] and found["dtype"] == "torch.float32" and found["generated"]
    assert found["template"] == [case["prompt_ids"] for case in cases]
    for case, logp in zip(cases, found["logp"], strict=True):
        # Another attention kernel sums in another order: a few float32 roundings per layer.
        assert logp == pytest.approx(case["logprobs"], abs=2e-5)
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert {name: settings[name] for name in ("do_sample", "temperature", "top_k", "top_p", "max_new_tokens")} == {
        "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": 16,
    }  # fmt: skip
    measured = command("eval", "char_count", f"policy={tmp_path}/out", "max_tokens=16", "eval.tasks=3", "--json")
    with RunReader(run) as reader:
        assert json.loads(measured.stdout)["pass_at"]["1"] == reader.held_out["pass_at"]["1"]


@pytest.mark.long
def test_a_chat_model_keeps_its_template_its_tied_weights_and_its_licence(tmp_path):
    base = chat_model(tmp_path / "base")
    folder = tmp_path / "r"
    gnomon.train("char_count", run=folder, quiet=True, steps=1, policy={"path": str(base)}, **SMALL).close()
    command("export", str(folder), str(tmp_path / "out"))
    cases = cases_of(folder)
    found = read_back(tmp_path / "out", cases)
    assert found["template"] == [case["prompt_ids"] for case in cases]
    for case, logp in zip(cases, found["logp"], strict=True):
        assert logp == pytest.approx(case["logprobs"], abs=2e-5)
    assert (tmp_path / "out" / "LICENSE").read_text() == "Do as you like."
    card = (tmp_path / "out" / "README.md").read_text()
    assert "the base model's" in card and str(tmp_path) not in card and "char_count" in card
    assert (tmp_path / "out" / "model.safetensors").stat().st_size < 1.1 * (base / "model.safetensors").stat().st_size


def test_a_checkpoint_is_chosen_by_its_step_and_a_dtype_by_its_name(run, tmp_path):
    assert json.loads(command("export", f"{run}:2", str(tmp_path / "two"), "--json").stdout)["step"] == 2
    assert "3 steps" not in (tmp_path / "two" / "README.md").read_text()
    command("export", str(run), str(tmp_path / "half"), "--dtype", "bfloat16")
    whole, half = (export_size(run, tmp_path / name, name) for name in ("float32", "bfloat16"))
    assert whole > 1.9 * half
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "half").dtype == torch.bfloat16


def export_size(run: Path, folder: Path, dtype: str) -> int:
    return exporting.export(str(run), folder, dtype).files["model.safetensors"]


def test_mistakes_are_named_and_leave_nothing(run, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    for words, code in (
        ((str(run), str(tmp_path / "full")), "E050"),
        ((str(run), str(tmp_path / "full" / "mine")), "E050"),
        ((str(run), str(tmp_path / "out"), "--dtype", "float8"), "E051"),
        ((f"{run}:1", str(tmp_path / "out")), "E185"),
        ((str(tmp_path / "none"), str(tmp_path / "out")), "E404"),
    ):
        done = command("export", *words)
        assert done.returncode and f"error[{code}]" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert (tmp_path / "full" / "mine").read_text() == "kept"


def test_the_next_command_evaluates_what_was_written(run, tmp_path):
    done = command("export", str(run), str(tmp_path / "out"))
    words = shlex.split(done.stdout.rpartition("next: gnomon ")[2])
    evaluated = command(*words, "eval.tasks=2", "--json")
    assert evaluated.returncode == 0 and "pass_at" in evaluated.stdout, evaluated.stderr


def test_a_damaged_checkpoint_is_named_with_its_damage(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "r")
    for path in folder.glob("checkpoints/*/model.safetensors"):
        path.unlink()
    done = command("export", str(folder), str(tmp_path / "out"))
    assert "that of step 3 is damaged: model.safetensors is missing; that of step 2" in done.stderr, done.stderr
    assert f"gnomon train {folder}/recipe.toml run=OTHER" in done.stderr
    shutil.rmtree(folder / "checkpoints")
    none = command("export", str(folder), str(tmp_path / "out"))
    assert "no step is saved yet" in none.stderr and f"fix: gnomon resume {folder}" in none.stderr, none.stderr


def test_an_export_is_whole_or_absent(run, tmp_path, monkeypatch):
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(exporting, "card", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exporting.export(str(run), tmp_path / "out")
    assert not list(tmp_path.iterdir())
