"""The recipes that ship, started as they are: a hub on this machine has their data sets and models, in small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import PreTrainedConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig

from commands import interpreter, python
from gnomon.config import load
from gnomon.store import RunReader
from models.hub_cache import ONE, TWO, Stored, serving
from models.kinds import save_chat

pytest.importorskip("datasets")
from envs.hub_rows import DATA  # It needs pyarrow.

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "bos_token_id": None, "pad_token_id": None,
}  # fmt: skip
MODELS: dict[str, tuple[str, PreTrainedConfig]] = {
    "Qwen/Qwen3-0.6B": ("qwen3", Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True)),
    "Qwen/Qwen2.5-1.5B": ("chatml", Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "Qwen/Qwen2.5-3B": ("chatml", Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "Qwen/Qwen3-30B-A3B": (
        "qwen3",
        Qwen3MoeConfig(**SIZES, head_dim=16, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2),
    ),
}
"""Family of the tokenizer, and the shape in small."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    repos = {f"datasets/{name}": Stored({ONE: made()}, {"main": ONE}) for name, made in DATA.items()}
    for name, (family, config) in MODELS.items():
        made = save_chat(family, config, tmp_path_factory.mktemp("model"))
        repos[f"models/{name}"] = Stored(
            {ONE: {path.name: path.read_bytes() for path in made.iterdir()}}, {"main": ONE}
        )
    with serving(repos) as (url, _):
        yield url


@pytest.fixture(scope="module")
def home(hub: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user of the hub, with an empty cache at first."""
    return {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path_factory.mktemp("home")), "OMP_NUM_THREADS": "1"}


AS_AN_INTERPRETER = (
    "import importlib, huggingface_hub.constants; importlib.reload(huggingface_hub.constants)\n"
    "from gnomon.cli import main; main()"
)
"""The fork has read the hub's variables before they were set."""
SMALL = ("steps=2", "prompts=2", "group=2", "max_tokens=8", "eval.tasks=4")


def runs_to_its_end(recipe: str, home: dict[str, str], at: Path, *settings: str) -> None:
    words = ("train", f"{recipe}.toml", "run=run", *SMALL, *settings)
    done = python("-c", AS_AN_INTERPRETER, *words, env=home, cwd=at)
    assert done.returncode == 0, done.stdout + done.stderr
    with RunReader(at / "run") as reader:
        assert reader.status == "finished" and reader.steps == 2
        assert [record.body["pass_at"]["1"]["n"] for record in reader.evaluations()] == [4, 4]
        assert reader.manifest["hub"]["policy.path"] == ONE
        for known in reader.manifest["data"].values():
            assert re.fullmatch("[0-9a-f]{64}", known)
        rows = load(Path(f"{recipe}.toml")).values["env"].get("path")
        assert bool(reader.manifest["data"]) == bool(rows)


RECIPES = {
    "gsm8k-qwen3-0.6b": (), "math-qwen2.5-1.5b": (), "math-3-5-qwen2.5-1.5b": (), "dapo-qwen2.5-1.5b": (),
    "one-shot-qwen2.5-1.5b": (), "countdown-qwen2.5-3b": ("ranks=2",), "gsm8k-qwen3-30b-a3b": (), "scramble-5-8": (),
}  # fmt: skip
"""With what a test changes beside the sizes."""


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_runs_from_its_download_to_its_last_evaluation(
    recipe: str, home: dict[str, str], tmp_path: Path
) -> None:
    runs_to_its_end(recipe, home, tmp_path, *RECIPES[recipe])


@pytest.mark.long
@pytest.mark.needs("bwrap")
def test_so_does_a_recipe_of_code(home: dict[str, str], tmp_path: Path) -> None:
    runs_to_its_end("mbpp-qwen2.5-1.5b", home, tmp_path)


def test_rows_of_gsm_symbolic_are_a_data_set(home: dict[str, str], tmp_path: Path) -> None:
    """By the command of the page, with fewer rows and a random model."""
    pytest.importorskip("reasoning_gym")
    page = (Path(__file__).parents[2] / "docs/data-recipes.md").read_text("utf-8")
    code, _, words = page.partition('python -c "')[2].partition('" > gsm.jsonl\ngnomon train ')
    made = interpreter("-c", code.replace("size=2000", "size=200"))
    (tmp_path / "gsm.jsonl").write_text(made.stdout)
    settings = words.partition("\n")[0].replace("policy=smollm2", "policy=Qwen/Qwen3-0.6B").split()
    done = python("-c", AS_AN_INTERPRETER, "train", *settings, "run=run", *SMALL, env=home, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with RunReader(tmp_path / "run") as reader:
        assert reader.status == "finished" and reader.steps == 2
        (group, *_) = reader.groups(0)
    assert "final answer" in group.task.messages[-1].content and float(group.task.answer) >= 0


ROWS = (
    "import sys; from gnomon.envs import Dataset\n"
    "print(Dataset(path=sys.argv[1], config='main', test='test', prompt='question', revision=sys.argv[2]).contents)"
)


@pytest.mark.long
def test_without_a_hub_the_cache_is_read_at_the_revision_that_is_named(home: dict[str, str], tmp_path: Path) -> None:
    home = home | {"HF_HOME": str(tmp_path)}
    name, offline = "openai/gsm8k", home | {"HF_HUB_OFFLINE": "1"}
    by_name = interpreter("-c", ROWS, name, "", env=home)
    assert by_name.returncode == 0, by_name.stderr
    for revision in ("", ONE):
        assert interpreter("-c", ROWS, name, revision, env=offline).stdout == by_name.stdout
    for environment in (home, offline):
        refused = interpreter("-c", ROWS, name, TWO, env=environment)
        assert "E150" in refused.stderr and f"--revision {TWO} --local-dir data/gsm8k" in refused.stderr
    fetched = tmp_path / "hub" / "datasets--openai--gsm8k" / "snapshots" / ONE
    assert interpreter("-c", ROWS, str(fetched), "", env=offline).stdout == "{}\n", "a folder is known by its files"
