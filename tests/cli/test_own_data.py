"""A user's own rows and model folder, with at most four settings: each kind of rows trains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import Qwen3Config

from commands import command, python
from gnomon.store import RunReader
from models.kinds import save_chat

SUMS = [(a, b) for a in range(8) for b in range(8)]
JSON_LINES = "\n".join(json.dumps({"prompt": f"What is {a} + {b}?", "answer": str(a + b)}) for a, b in SUMS)
TABLE = "id,question,gold\n" + "\n".join(
    f'{a}{b},"Which is larger, {a}1 or {b}2?",{max(10 * a + 1, 10 * b + 2)}' for a, b in SUMS
)
CHAT = "\n".join(
    json.dumps(
        {
            "messages": [
                {"role": "system", "content": "You answer with one word."},
                {"role": "user", "content": f"What is the first word of: {word} and more?"},
            ],
            "answer": word,
        }
    )
    for word in ("red", "green", "blue", "cat", "dog", "house", "tree", "river", "stone", "apple", "bread", "water")
)
CAPITALS = "\n".join(
    json.dumps({"prompt": f"Write {word} in capital letters.", "capitals": word.upper()})
    for word in (f"{a}{b}t" for a in "bcdghlmnprs" for b in "aeiou")
)
ARRAY = json.dumps([{"prompt": f"Is {n} odd or even?", "answer": ("even", "odd")[n % 2]} for n in range(40)])
REWARD = """
import sys

import gnomon


def right(completion, capitals):
    return completion.strip() == capitals


if __name__ == "__main__":
    small = {"steps": 1, "prompts": 2, "group": 2, "max_tokens": 4, "eval": {"tasks": 2}}
    gnomon.train("rows.jsonl", reward=right, policy="model", run="run", **small)
"""
SMALL = ("run=run", "steps=1", "prompts=2", "group=2", "max_tokens=4", "eval.tasks=2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Qwen3Config(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, bos_token_id=None, pad_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    return save_chat("qwen3", shape, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    ("name", "rows", "settings", "asked"),
    [
        ("rows.jsonl", JSON_LINES, ("env.verifier=number",), "What is"),
        ("rows.csv", TABLE, ("env.prompt=question", "env.answer=gold"), "Which is larger"),
        ("rows.jsonl", CHAT, ("env.prompt=messages",), "first word"),
        ("rows.json", ARRAY, (), "odd or even"),
    ],
    ids=["lines", "table", "chat", "array"],
)
def test_rows_train_a_model_folder(
    name: str, rows: str, settings: tuple[str, ...], asked: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(rows)
    done = command("train", name, f"policy={model}", *settings, *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    trained(tmp_path, asked)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_few_rows_train(count: int, model: Path, tmp_path: Path) -> None:
    """A policy that answers by luck is right on all of so few tasks: that is no fault of the verifier."""
    rows = [{"prompt": f"What is {a} + {a}?", "answer": str(2 * a)} for a in range(count)]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    few = (word for word in SMALL if word not in ("prompts=2", "eval.tasks=2"))
    done = command("train", "few.jsonl", f"policy={model}", *few, "prompts=1", "eval.tasks=1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rows_and_a_reward_train_a_model_folder(model: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(CAPITALS)
    (tmp_path / "reward.py").write_text(REWARD)
    (tmp_path / "model").symlink_to(model)
    done = python("reward.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    trained(tmp_path, "in capital letters")


def trained(place: Path, asked: str) -> None:
    with RunReader(place / "run") as reader:
        assert reader.status == "finished" and reader.steps == 1
        groups = list(reader.groups(0))
        assert [record.body["pass_at"]["1"]["n"] for record in reader.evaluations()] == [2, 2]
    assert len(groups) == 2 and all(asked in group.task.messages[-1].content for group in groups)
