"""A real GRPO trainer of TRL on the policy that ships: recorded while it trains, and read back from its own log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import command
from gnomon.errors import ConfigError
from gnomon.integrations.imports.files import Options
from gnomon.reading.importing import import_log
from gnomon.store import RunReader, verify
from gnomon.store.columns import rollout_table

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

if not trl.__version__.startswith("1.16."):
    pytest.skip("needs trl 1.16", allow_module_level=True)

from gnomon.integrations.trl import record  # noqa: E402
from gnomon.models.folder import model_folder  # noqa: E402

STEPS = 3


def length(completions: list[str], **_: Any) -> list[float]:
    return [min(len(text), 20) / 20 for text in completions]


def digit(completions: list[str], solution: list[str], **_: Any) -> list[float | None]:
    """Right where the completion holds the solution; it does not judge an empty one."""
    return [float(right in text) if text else None for text, right in zip(completions, solution, strict=True)]


def trainer_in(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    place = model_folder("tiny")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(place / "tokenizer.json"))
    ends = AutoModelForCausalLM.from_pretrained(place).config
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(ends.eos_token_id)
    tokenizer.pad_token = tokenizer.eos_token
    rows = [{"prompt": f"{n} + 1 = ", "solution": str(n + 1)} for n in range(8)]
    config = trl.GRPOConfig(
        output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=4, num_generations=4, use_cpu=True,
        max_completion_length=8, logging_steps=1, log_completions=True, report_to=[], save_strategy="no", seed=3,
        reward_weights=[0.5, 2.0], eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=4, bf16=False,
        disable_tqdm=True,
    )  # fmt: skip
    return trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(place), reward_funcs=[length, digit], args=config,
        train_dataset=datasets.Dataset.from_list(rows), eval_dataset=datasets.Dataset.from_list(rows[:1]),
        processing_class=tokenizer,
    )  # fmt: skip


def losses(trainer: Any) -> list[float]:
    return [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    above = tmp_path_factory.mktemp("trl")
    trainer = trainer_in(above / "out")
    with record(trainer, above / "run", correct="digit >= 1", answer="solution"):
        trainer.train()
    (above / "losses.json").write_text(json.dumps(losses(trainer)))
    return above


def test_every_rollout_is_recorded(recorded):
    with RunReader(recorded / "run") as reader:
        assert reader.status == "finished" and reader.import_format == "trl recorder" and reader.steps == STEPS
        rows = list(rollout_table(reader.records(), tokens=True))
        assert [record.step for record in reader.records("evaluation")] == [2, 3]
    trained = [row for row in rows if row["split"] == "train"]
    assert len(trained) == 4 * STEPS and len(rows) == 4 * STEPS + 8
    assert {(row["step"], row["sample"]) for row in trained} == {(s, n) for s in range(STEPS) for n in range(4)}
    for row in rows:
        parts = {part["name"]: (part["value"], part["weight"]) for part in row["parts"]}
        assert parts["length"] == pytest.approx((length([row["reply"]])[0], 0.5), abs=1e-7)  # TRL keeps float32.
        right = row["answer"] in row["reply"] if row["reply"] else None
        assert row["correct"] == right and row["answer"] == str(int(row["prompt"].split()[0]) + 1)
        assert row["reward"] == pytest.approx(sum(value * weight for value, weight in parts.values()))
        assert row["tokens"] == len(row["token_ids"]) > 0 and set(row["logprobs"]) == {None}
        assert row["finish"] in ("eos", "length") and (row["finish"] == "eos" or row["tokens"] == 8)
        assert row["prompt_ids"] and row["version"] == row["step"]
    for step in range(STEPS):
        assert sum(row["advantage"] for row in trained if row["step"] == step) == pytest.approx(0, abs=1e-4)


def test_the_commands_read_it(recorded, tmp_path):
    run = str(recorded / "run")
    shown = command("show", run).stdout
    assert "steps        3" in shown and "held-out" in shown and "pass@1" in shown
    assert " of 4 correct" in command("show", run, "1").stdout
    assert command("verify", run).returncode == 0 and verify(recorded / "run")
    assert command("report", run, str(tmp_path / "run.html")).returncode == 0
    assert "trl" in (tmp_path / "run.html").read_text() and command("alarms", run).returncode == 0


def test_the_recorder_changes_nothing(recorded, tmp_path):
    trainer = trainer_in(tmp_path / "out")
    own = trainer._generate_and_score_completions
    trainer.train()
    assert losses(trainer) == json.loads((recorded / "losses.json").read_text()) and len(losses(trainer)) == STEPS
    assert trainer._generate_and_score_completions == own


def test_the_log_of_the_trainer_tells_the_same(recorded, tmp_path):
    pytest.importorskip("pyarrow")
    options = Options(weights={"length": 0.5, "digit": 2.0})
    import_log(recorded / "out", tmp_path / "r", "trl", "digit >= 1", options)
    logged, live = (
        {(row["prompt"], row["reply"], row["reward"]) for row in rows_of(folder)}
        for folder in (tmp_path / "r", recorded / "run")
    )
    # The trainer logs a step after it was counted, and loses what an evaluation pushed out of its buffer.
    assert logged <= live and len(logged) >= len(live) / 2


def rows_of(folder: Path) -> list[dict[str, Any]]:
    with RunReader(folder) as reader:
        return list(rollout_table(reader.records()))


def test_what_cannot_be_recorded_is_refused_at_once(tmp_path, monkeypatch):
    trainer = trainer_in(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"E061.*'digits'"), record(trainer, tmp_path / "a", correct="digits > 0"):
        pass
    monkeypatch.setattr("gnomon.integrations.trl.version", lambda name: "1.17.0")
    with pytest.raises(ConfigError, match=r"E071.*1\.17\.0"), record(trainer, tmp_path / "b"):
        pass
    assert not (tmp_path / "b").exists()


def test_a_trainer_that_fails_leaves_a_failed_run(tmp_path):
    trainer = trainer_in(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), record(trainer, tmp_path / "r"):
        trainer.model.train()
        trainer._generate_and_score_completions(list(trainer.train_dataset)[:4])
        raise ZeroDivisionError("on purpose")
    with RunReader(tmp_path / "r") as reader:
        assert reader.status == "failed" and "on purpose" in reader.reason and reader.steps == 1
