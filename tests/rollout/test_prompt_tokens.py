"""The preview of a prompt is what a run begins with, token for token."""

from __future__ import annotations

import json

import pytest

import gnomon
from commands import command
from gnomon.config import overrides, resolve
from gnomon.run.prompt_tokens import prompt_text, prompt_tokens
from gnomon.types import Origin


@pytest.mark.parametrize("env", [{"type": "char_count", "shots": 2}, {"type": "calculator"}], ids=["shots", "tools"])
def test_a_preview_is_the_prompt_of_a_run(env, tmp_path) -> None:
    size = {"prompts": 1, "group": 2, "max_tokens": 4}
    with gnomon.train(env=env, run=tmp_path / "r", steps=1, rollout=size, eval={"tasks": 1}, quiet=True) as run:
        (group,) = run.groups(1, "held_out")
        prompt = group.rollouts[0].turns[0].prompt_ids
    config = resolve([overrides([f"env.{name}={value}" for name, value in env.items()])])[0]
    found = prompt_tokens(config, "test")
    assert found.task == group.task.id
    assert [token for segment in found.segments for token in segment.token_ids] == list(prompt)
    assert found.count == len(prompt) and found.ends == ("<eos>",)
    assert {segment.origin for segment in found.segments} == {Origin.TASK, Origin.TEMPLATE}
    assert len(prompt_text(found).splitlines()) == 3 + len(found.segments)


def test_the_command_previews_a_task_and_refuses_one_that_is_not_there(tmp_path) -> None:
    shown = command("env", "prompt", "char_count", "--index", "3", "--json")
    body = json.loads(shown.stdout)
    text = "".join(token for segment in body["segments"] for token in segment["tokens"])
    assert text.startswith("How many ") and body["count"] == sum(len(each["tokens"]) for each in body["segments"])
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"{i} + 1", "answer": str(i + 1)}) + "\n" for i in range(9)))
    missing = command("env", "prompt", "dataset", f"env.path={rows}", "--index", "900")
    assert missing.returncode == 2 and "E075" in missing.stderr and "Traceback" not in missing.stderr
