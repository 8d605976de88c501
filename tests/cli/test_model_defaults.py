"""Defaults that follow the model: what is chosen, why, and what a run folder keeps of it."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon import machine
from gnomon.api import configure
from gnomon.config import DEFAULTS, Origins, RunConfig, Source, choices, load, overrides, recorded_recipe, resolve
from gnomon.config.choices import sentences
from gnomon.machine import cores
from gnomon.models.facts import facts
from gnomon.models.folder import TINY
from models.kinds import save
from rewards import right

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = CHATML + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
QWEN: dict[str, Any] = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "max_position_embeddings": 40960,
}  # fmt: skip
HUGE = QWEN | {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126}
ROWS = {"type": "object:Rewarded", "reward": "reward", "train": 8, "test": 2, "tasks_sha256": "0"}


def described(folder: Path, parameters: int, template: str = CHATML, **config: Any) -> Path:
    """A folder that says it holds a model of this size. Nothing can load it."""
    shutil.copytree(TINY, folder)
    (folder / "config.json").write_text(json.dumps(QWEN | config))
    named = {"eos_token": "<|im_end|>"} | ({"chat_template": template} if template else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    header = json.dumps({"w": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 0]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def settled(*words: str, env: dict[str, Any] | None = None) -> tuple[RunConfig, Origins]:
    return resolve([Source({"env": env or ROWS}, {}), overrides(list(words))])


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a CUDA device."""
    monkeypatch.setattr(machine, "DRIVER", tmp_path / "none")


def test_the_policy_that_ships_keeps_the_defaults_of_the_settings() -> None:
    for name in ("tiny", "tiny-fresh"):
        config, _ = resolve([overrides(["env=countdown", f"policy={name}"])])
        assert config.model_dump() == DEFAULTS | {"policy": DEFAULTS["policy"] | {"path": name}}
        assert list(sentences(config)) == ["Learning rate 0.001: the default for the policy that ships."]


def test_a_pretrained_model_gets_its_own_defaults_with_their_reasons(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    config, origins = settled(f"policy={described(tmp_path / 'm', 596_000_000)}")
    assert config.policy.lora.rank == 16 and config.policy.dtype == "float32"
    assert (config.rollout.stop, config.rollout.max_tokens, config.rollout.context) == ([], 256, 4096)
    assert (config.rollout.prompts, config.rollout.group, config.eval.tasks, config.threads) == (8, 8, 64, cores())
    assert config.optim.micro_batch == 256
    full, _ = settled(f"policy={tmp_path / 'm'}", "lora=0")
    assert 1e-6 < full.optim.lr < config.optim.lr < 1e-3
    assert 10 <= config.optim.lr / full.optim.lr <= 20.1
    said = list(sentences(config))
    assert said[0] == f"Learning rate {config.optim.lr:g}: LoRA, hidden size 1024."
    assert "lora=16: a model of 596 M parameters; lora=0 trains all weights." in said
    assert "'rollout.stop=[]' max_tokens=256: the chat template ends a turn with <|im_end|>." in said
    assert len(said) == 6 and origins["optim.lr"] == "LoRA, hidden size 1024"


def test_what_is_set_is_kept_and_gets_no_reason(tmp_path: Path) -> None:
    folder = described(tmp_path / "m", 596_000_000)
    words = ["lora=4", "lr=1e-5", "max_tokens=40", "rollout.stop=['x']", "prompts=32", "eval.tasks=9", "threads=1"]
    words.append("optim.micro_batch=500")
    config, _ = settled(f"policy={folder}", *words)
    assert (config.policy.lora.rank, config.optim.lr, config.rollout.max_tokens) == (4, 1e-5, 40)
    assert (config.rollout.stop, config.rollout.prompts, config.eval.tasks) == (["x"], 32, 9)
    assert list(sentences(config)) == ["Learning rate 1e-05: as set."]


def test_a_wider_model_learns_at_a_lower_rate(tmp_path: Path) -> None:
    found = [
        settled(f"policy={described(tmp_path / str(width), 10**9, hidden_size=width)}", "lora=8")[0].optim.lr
        for width in (576, 1024, 2048, 4096)
    ]
    assert found == sorted(found, reverse=True) and found[0] == pytest.approx(6e-4) and found[-1] > 4e-5


@pytest.mark.parametrize(
    ("template", "config", "words", "tokens"),
    [
        (CHATML, {}, [], 256),
        (THINKING, {}, [], 2048),
        (THINKING, {"max_position_embeddings": 1024}, [], 512),
        (CHATML, {}, ["rollout.context=300"], 150),
        ("", {}, [], 128),
        (CHATML.replace("<|im_end|>", "{{ eos_token }}"), {}, [], 256),
        (CHATML.replace("<|im_end|>", ""), {}, [], 128),
    ],
)
def test_the_length_of_replies_follows_the_template_and_the_context(
    template: str, config: dict[str, Any], words: list[str], tokens: int, tmp_path: Path
) -> None:
    found, _ = settled(f"policy={described(tmp_path / 'm', 10**9, template, **config)}", *words)
    assert found.rollout.max_tokens == tokens
    assert found.rollout.stop == ([] if tokens != 128 else ["</answer>"])
    assert found.rollout.context == (300 if words else config.get("max_position_embeddings", 4096))


def test_an_environment_with_an_answer_slot_keeps_the_end_of_the_slot(tmp_path: Path) -> None:
    folder = described(tmp_path / "m", 10**9)
    assert settled(f"policy={folder}", env={"type": "countdown"})[0].rollout.stop == ["</answer>"]


def test_a_model_whose_activations_do_not_fit_gets_smaller_micro_batches(tmp_path: Path) -> None:
    config, _ = settled(f"policy={described(tmp_path / 'huge', 4 * 10**11, **HUGE)}")
    assert config.optim.micro_batch < 256 and config.threads == 1
    assert any(line.startswith("optim.micro_batch=") and "GiB of memory" in line for line in sentences(config))
    small, _ = settled(f"policy={described(tmp_path / 'small', 10**8, hidden_size=64, intermediate_size=64)}")
    assert small.optim.micro_batch == 256 and small.threads == cores()


@pytest.mark.parametrize(
    ("files", "environment", "found"),
    [
        ({}, {}, 4),
        ({}, {"OMP_NUM_THREADS": "3"}, 3),
        ({}, {"OMP_NUM_THREADS": "64"}, 4),
        ({}, {"OMP_NUM_THREADS": "0"}, 1),
        ({"cpu.max": "250000 100000"}, {}, 2),
        ({"cpu.max": "50000 100000"}, {}, 1),
        ({"cpu.max": "max 100000"}, {}, 4),
        ({f"cpus/cpu{i}/topology/thread_siblings_list": f"{i % 2},{i % 2 + 2}" for i in range(4)}, {}, 2),
    ],
)
def test_cores_are_those_that_the_process_may_use(files, environment, found, tmp_path, monkeypatch) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(machine, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(machine, "CPUS", tmp_path / "cpus")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.cores() == found


def test_on_a_cuda_device_the_precision_is_half_and_the_sizes_are_those_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = described(tmp_path / "m", 10**9)
    (tmp_path / "version").write_text("NVRM")
    monkeypatch.setattr(machine, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(machine.metadata, "version", lambda name: "2.13.0")
    config, _ = settled(f"policy={folder}")
    assert (config.policy.dtype, config.rollout.prompts) == ("bfloat16", 32)
    forced, _ = settled(f"policy={folder}", "policy.device=cpu")
    assert (forced.policy.dtype, forced.rollout.prompts) == ("float32", 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert settled(f"policy={folder}")[0].policy.dtype == "float32"


def test_a_folder_without_facts_is_a_pretrained_model_of_unknown_size(tmp_path: Path) -> None:
    found = facts(str(tmp_path / "none"))
    assert found.pretrained and not found.hidden
    assert choices.rates(str(tmp_path / "none")).policy < 1e-5


def test_recipes_that_train_all_weights_still_do() -> None:
    for path in Path(str(files("gnomon.recipes"))).glob("*.toml"):
        settings = tomllib.loads(path.read_text())
        if "all weights" in path.read_text().partition("\n[")[0]:
            config, _ = resolve([load(path)])
            assert config.policy.lora.rank == 0 and config.optim.lr == 1e-6, settings


def rows(count: int = 40) -> list[dict[str, str]]:
    return [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(count)]


def messages(row: dict[str, str]) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Answer with a number."}, {"role": "user", "content": row["prompt"]}]


def lines(path: Path, listed: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in listed))
    return str(path)


def mapped(folder: Path) -> dict[str, Any]:
    listed = [{"question": row["prompt"], "gold": row["answer"]} for row in rows()]
    table = {"path": lines(folder / "mapped.jsonl", listed), "prompt": "question", "answer": "gold"}
    return {"what": "dataset", "env": table}


def chats(folder: Path) -> dict[str, Any]:
    return {"what": lines(folder / "chats.jsonl", [{"messages": messages(row), **row} for row in rows()])}


def table(folder: Path) -> dict[str, Any]:
    text = "prompt,answer\n" + "".join(f"{row['prompt']},{row['answer']}\n" for row in rows())
    (folder / "rows.csv").write_text(text)
    return {"what": "dataset", "env": {"path": str(folder / "rows.csv")}}


def judged_by_file(folder: Path) -> dict[str, Any]:
    (folder / "my_reward.py").write_text(
        "def reward(completion, answer):\n    return completion.strip() == answer\n", encoding="utf-8"
    )
    spec = spec_from_file_location("my_reward", folder / "my_reward.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"what": lines(folder / "rows.jsonl", rows()), "reward": module.reward}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "rows": lambda folder: {"what": rows(), "reward": right},
    "a column map": mapped,
    "chats": lambda folder: chats(folder) | {"reward": right},
    "CSV": table,
    "a reward in a file": judged_by_file,
}


@pytest.mark.parametrize("pretrained", [True, False])
@pytest.mark.parametrize("name", DATA)
@pytest.mark.every
def test_any_data_gets_the_defaults_of_the_model(name: str, pretrained: bool, tmp_path: Path) -> None:
    supplied = DATA[name](tmp_path)
    folder = described(tmp_path / "m", 10**9) if pretrained else chatting(save("qwen3", tmp_path / "m"))
    config, _ = configure(
        supplied["what"], {"policy": str(folder), "env": supplied.get("env", {})}, supplied.get("reward")
    )
    assert config.rollout.stop == ([] if "reward" in supplied else ["</answer>"])
    assert config.rollout.max_tokens == 256 and config.eval.tasks == (64 if pretrained else 256)
    assert (config.optim.lr < 1e-3) == pretrained
    assert len(list(sentences(config))) <= 6


def chatting(folder: Path) -> Path:
    """The folder with a chat template that ends turns."""
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>"}))
    (folder / "chat_template.jinja").write_text(CHATML.replace("<|im_end|>", "{{ eos_token }}"))
    return folder


def test_a_run_prints_the_reasons_and_repeats_its_recipe_when_defaults_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = chatting(save("qwen3", tmp_path / "m"))
    small = {"steps": 1, "prompts": 2, "group": 2, "eval": {"tasks": 1}}
    with gnomon.train(rows(), reward=right, run=tmp_path / "run", policy=folder, **small):
        said = capsys.readouterr().out
    assert "max_tokens=256 rollout.context=512" not in said
    assert "'rollout.stop=[]' max_tokens=256: the chat template ends a turn with <eos>." in said
    assert "rollout.context=512: the model has 512 positions." in said
    recipe = tmp_path / "run" / "recipe.toml"
    before = resolve([recorded_recipe(recipe)])[0]
    monkeypatch.setattr(choices, "FULL", 1.0)
    (folder / "tokenizer_config.json").write_text("{}")
    assert resolve([recorded_recipe(recipe)])[0] == before
    assert before.rollout.max_tokens == 256 and before.rollout.context == 512
