"""What a renderer writes is what the family's published template writes, id for id.

`published.json` holds the text that each template wrote; its ids are those of the tokenizer with its control tokens.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gnomon.rendering import ChatML, Gemma, Harmony, Llama3, Origin, Qwen3, Tool, Transcript, joined
from gnomon.types import Message, ToolCall

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
TOOL = Tool(**PUBLISHED["tool"])
FAMILIES = {
    "chatml": (ChatML, "chatml"),
    "chatml3": (ChatML, "qwen3"),
    "qwen3": (Qwen3, "qwen3"),
    "gemma": (Gemma, "gemma"),
    "llama3": (Llama3, "llama3"),
    "harmony": (Harmony, "harmony"),
}
CLOSED = {"chatml": "<|im_end|>", "qwen3": "<|im_end|>", "gemma": "<end_of_turn>", "llama3": "<|eot_id|>"}


def cases(kind):
    return [
        pytest.param(
            case, id="-".join([case["template"], *map(str, case["variant"]), case["case"], str(case["tools"])])
        )
        for case in PUBLISHED["cases"]
        if case["kind"] == kind
    ]


def read(case, tokenizers):
    make, tokenizer = FAMILIES[case["family"]]
    messages = [Message(role=role, content=content) for role, content in case["messages"]]
    return make(tokenizers[tokenizer], **case["variant"]), tokenizers[tokenizer], messages, [TOOL] * case["tools"]


@pytest.mark.parametrize("case", cases("start"))
def test_the_first_prompt_is_the_published_one(case, tokenizers):
    renderer, tokenizer, messages, tools = read(case, tokenizers)
    assert joined(renderer.start(messages, tools)) == tokenizer.encode(case["text"])


@pytest.mark.parametrize("case", cases("talk"))
def test_the_prompt_after_several_turns_is_the_published_one(case, tokenizers):
    """The policy samples what the template writes for its turns; the last prompt is the template's, forks and all."""
    renderer, tokenizer, messages, tools = read(case, tokenizers)
    first = next(place for place, message in enumerate(messages) if message.role == "assistant")
    transcript = Transcript.begin(renderer, messages[:first], tools)
    end = CLOSED[FAMILIES[case["family"]][1]]
    while first < len(messages):
        transcript = transcript.with_completion(tokenizer.encode(messages[first].content + end))
        after = next((i for i in range(first + 1, len(messages)) if messages[i].role == "assistant"), len(messages))
        transcript, first = transcript.observe(messages[first + 1 : after]), after
    assert transcript.token_ids == tokenizer.encode(case["text"])


def test_every_token_has_the_origin_of_who_wrote_it(tokenizers):
    renderer = Qwen3(tokenizers["qwen3"])
    talk = [Message(role="system", content="SYS"), Message(role="user", content="ASK")]
    after = [Message(role="tool", content="RESULT"), Message(role="user", content="MORE")]
    spell = tokenizers["qwen3"].spell
    segments = [*renderer.start(talk, [TOOL]), *renderer.extend((), after)]
    said = {origin: "|".join(spell(s.token_ids) for s in segments if s.origin is origin) for origin in Origin}
    assert said[Origin.TASK] == "SYS|ASK"
    assert said[Origin.ENVIRONMENT] == "MORE"
    described = json.dumps(TOOL.schema, ensure_ascii=False)
    # The line end behind the description and its last bracket are one token: it counts as the tool's.
    assert said[Origin.TOOL] == f"{described}\n|RESULT"
    assert "".join(spell(s.token_ids) for s in segments).startswith("<|im_start|>system\nSYS\n\n# Tools")


def test_a_token_of_two_origins_is_not_the_templates(tokenizers):
    """Line ends of the template and of the content, at its begin and behind its dot, are one token each."""
    renderer, spell = ChatML(tokenizers["chatml"]), tokenizers["chatml"].spell
    for content, shared in (("3.", "3.\n"), ("\n3", "\n\n3")):
        segments = renderer.extend((), [Message(role="tool", content=content)])
        assert spell(joined(s for s in segments if s.origin is Origin.TOOL)) == shared


CALL = re.compile(r'(?s)(.*?)(?:<tool_call>\n)?\{"name": "add", "(?:arguments|parameters)": (.*)\}(?:\n</tool_call>)?')


@pytest.mark.parametrize("case", [case for case in cases("talk") if case.values[0]["case"] in ("call", "long")])
def test_calls_as_data_are_written_as_the_published_template_writes_them(case, tokenizers):
    renderer, tokenizer, messages, tools = read(case, tokenizers)
    whole = [as_data(message) for message in messages]
    if "<tool_call>" in case["text"] + str(case["messages"]) or '"parameters"' in case["text"]:
        assert any(message.calls for message in whole)
    assert joined(renderer.start(whole, tools)) == tokenizer.encode(case["text"])


def as_data(message):
    match = CALL.fullmatch(message.content) if message.role == "assistant" else None
    if match is None:
        return message
    thought = match[1].removeprefix("<think>\n").removesuffix("\n</think>\n\n")
    call = ToolCall(name="add", arguments=match[2])
    return Message(role="assistant", calls=(call,), reasoning=thought or None)
