"""Contents of messages: text in every form that data has becomes the prompt, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.audit.subject import read_tasks
from gnomon.envs import Dataset
from gnomon.envs.messages import messages_of
from gnomon.errors import ConfigError
from gnomon.integrations.exports.rewards import text_of
from gnomon.integrations.imports.rollout import message
from gnomon.integrations.rewarded import make_env
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Qwen3, joined
from gnomon.types import Message, ToolCall
from rendering.families import tokenizer_folder

ASKED = (Message(role="user", content="1+1?"),)
TYPED = {"role": "user", "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1?"}]}
TEXT: dict[str, Any] = {
    "text": "1+1?",
    "one message": {"role": "user", "content": "1+1?"},
    "typed parts": [TYPED],
    "typed parts with empty columns": [{**TYPED, "content": [{"type": "text", "text": "1+1?", "image_url": None}]}],
    "parts of plain text": [{"role": "user", "content": ["1+", "1?"]}],
    "from and value": [{"from": "human", "value": "1+1?"}],
    "empty columns of tools": [{"role": "user", "content": "1+1?", "tool_calls": None, "name": None}],
    "columns of messages": {"role": ["user"], "content": ["1+1?"]},
    "an array": np.array([{"role": "user", "content": "1+1?"}], dtype=object),
    "messages": [Message(role="user", content="1+1?")],
}
OTHER: dict[str, tuple[Any, str]] = {
    "image": ([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "1+1?"}]}], "type 'image'"),
    "None": ([{"role": "system", "content": None}, {"role": "user", "content": "1+1?"}], "message 0: its content is"),
    "nested": ([{"role": "user", "content": json.loads("[" * 600 + "]" * 600)}], "it is nested over 128 deep"),
    "no content": ([{"role": "user"}], "message 0 has no 'content'"),
    "no role": ([{"content": "1+1?"}], "message 0 has no 'role'"),
    "other keys": ([{"speaker": "user", "text": "1+1?"}], "its keys are speaker, text"),
    "a role that is none": ([{"role": None, "content": "1+1?"}], "must be the name of a role"),
    "call without a name": ([{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}], "must have a function"),
    "NaN": (float("nan"), "content is nan"),
    "a truth value": (True, "content is True"),
    "a mapping": ({"question": "1+1?"}, "no 'role'"),
    "a list of numbers": ([1, 2], "must be a mapping with role and content, not int"),
    "half a pair": ("1+1? \ud83d", "surrogate"),
    "blank": ("  ", "it is empty"),
    "no message": ([], "empty"),
    "blank question": ([{"role": "user", "content": "Hi"}, {"role": "user", "content": " "}], "it is empty"),
    "a reply at the end": ([{"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}], "the role assistant"),
}


@pytest.mark.parametrize("name", TEXT)
def test_text_in_every_form_is_the_prompt(name: str, tmp_path: Path) -> None:
    value = TEXT[name]
    assert messages_of(value) == ASKED
    assert make_env([{"prompt": value, "answer": "2"}, {"prompt": "x", "answer": "3"}], equal).train[0].messages in (
        ASKED,
        (Message(role="user", content="x"),),
    )
    if isinstance(value, np.ndarray) or name == "messages":
        return
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": value, "answer": "2"}))
    (tmp_path / "t.jsonl").write_text('{"prompt": "x", "answer": "2"}')
    env = Dataset(path=str(tmp_path / "a.jsonl"), test=str(tmp_path / "t.jsonl"), hint=False)
    assert env.tasks("train")[0].messages == ASKED
    assert read_tasks(tmp_path / "a.jsonl")[0].messages == ASKED


def equal(completion: str, answer: str) -> bool:
    return completion == answer


@pytest.mark.parametrize("name", OTHER)
def test_anything_else_is_refused_with_column_and_rows(name: str, tmp_path: Path) -> None:
    value, words = OTHER[name]
    rows = [{"prompt": value if n in (3, 7) else f"{n}+1?", "answer": str(n + 1)} for n in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ConfigError) as caught:
        Dataset(path=str(tmp_path / "a.jsonl")).tasks("train")
    assert (caught.value.code == "E153" and words in str(caught.value)) or value == []
    if value != []:
        assert caught.value.where == f"{tmp_path / 'a.jsonl'}, column 'prompt', rows 3, 7"
    with pytest.raises(ConfigError, match="E162") as caught:
        make_env(rows, equal)
    assert caught.value.where == "train, rows 3, 7, column 'prompt'" and words in caught.value.why


def test_what_other_software_logged_is_kept_and_not_spelled_by_python() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    logged = message({"role": "user", "content": [image, {"type": "text", "text": "What?"}]})
    assert logged.content == json.dumps(image) + "What?"
    assert message({"role": "assistant", "content": None}).content == ""
    assert text_of([{"role": "assistant", "content": [{"type": "text", "text": "4"}]}]) == "4"
    with pytest.raises(ValueError, match="its content is None"):
        text_of([{"role": "assistant", "content": None}])


def test_calls_in_a_prompt_are_read_as_data_and_reach_the_model(tmp_path: Path) -> None:
    called = {"id": "c7", "type": "function", "function": {"name": "add", "arguments": {"a": "é"}}}
    prompt = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": None, "tool_calls": [called], "reasoning_content": "hm"},
        {"role": "tool", "tool_call_id": "c7", "content": "2"},
    ]
    rows = [{"prompt": [*prompt[:2], prompt[2] | {"content": f"2{n}"}], "answer": str(n)} for n in range(12)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked, reply, result = Dataset(path=str(tmp_path / "a.jsonl")).tasks("train")[0].messages
    assert reply.calls == (ToolCall(id="c7", name="add", arguments='{"a": "é"}'),) and reply.reasoning == "hm"
    assert (result.role, result.call_id, result.content[0]) == ("tool", "c7", "2")
    renderer = Qwen3(Tokenizer(tokenizer_folder(tmp_path / "qwen3", "qwen3")))
    text = renderer.encoding.decode(joined(renderer.start((asked, reply, result))))
    call = '<tool_call>\n{"name": "add", "arguments": {"a": "é"}}\n</tool_call>'
    assert f"<|im_start|>assistant\n<think>\nhm\n</think>\n\n{call}<|im_end|>" in text
