"""What a policy said, read from its tokens: every family's calls, whole, broken and cut."""

from __future__ import annotations

import json

import pytest

from gnomon.rendering import (
    ChatML,
    Gemma,
    Harmony,
    Llama3,
    Parsing,
    Qwen3,
    ToolCall,
    Unreadable,
    arguments_of,
    joined,
)
from gnomon.rendering.calls import named_call
from gnomon.types import Message

FAMILIES = {"chatml": ChatML, "qwen3": Qwen3, "gemma": Gemma, "llama3": Llama3, "harmony": Harmony}
OK, BAD, CUT = Parsing.OK, Parsing.MALFORMED, Parsing.TRUNCATED
END = "<|im_end|>"
CALL = '<tool_call>\n{"name": "add", "arguments": {"a":  1}}\n</tool_call>'
ANALYSIS = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"

TABLE = [
    # family, sampled, text, reasoning, [(name, arguments, parsing)], parsing
    ("chatml", f"Hi.{END}", "Hi.", None, [], OK),
    ("chatml", "Hi.", "Hi.", None, [], CUT),
    ("chatml", f"Hi.{END}\nmore", "Hi.", None, [], OK),
    ("chatml", f"{CALL}{END}", "", None, [("add", '{"a":  1}', OK)], OK),
    ("chatml", f"So:\n{CALL}\n{CALL}{END}", "So:", None, [("add", '{"a":  1}', OK)] * 2, OK),
    ("chatml", "<tool_call>{'name': 'add'}</tool_call>" + END, "", None, [("", "{'name': 'add'}", BAD)], BAD),
    ("chatml", f'<tool_call>{{"name": "add"{END}', "", None, [("", '{"name": "add"', BAD)], BAD),
    ("chatml", '<tool_call>{"name": "add"', "", None, [("", '{"name": "add"', CUT)], CUT),
    ("chatml", f'<tool_call>{{"name": "now"}}</tool_call>{END}', "", None, [("now", "{}", OK)], OK),
    ("chatml", f"</tool_call>{END}", "", None, [("", "", BAD)], BAD),
    ("qwen3", f"<think>\nhm\n</think>\n\nHi.{END}", "Hi.", "hm", [], OK),
    ("qwen3", f"<think>\nhm\n</think>\n\n{CALL}{END}", "", "hm", [("add", '{"a":  1}', OK)], OK),
    ("qwen3", f"<think>\nhm {CALL}", "", f"hm {CALL}", [], CUT),
    ("qwen3", f"<think>\nhm{END}", "", "hm", [], BAD),
    ("qwen3", f"hm\n</think>\n\nHi.{END}", "Hi.", "hm", [], OK),
    ("gemma", "Hi.\n<end_of_turn>", "Hi.\n", None, [], OK),
    ("gemma", "Hi.", "Hi.", None, [], CUT),
    ("llama3", "Hi.<|eot_id|>", "Hi.", None, [], OK),
    ("llama3", '{"name": "add", "parameters": {"a": 1}}<|eot_id|>', "", None, [("add", '{"a": 1}', OK)], OK),
    ("llama3", '{"name": "add", "parameters": [1]}<|eot_id|>', "", None, [("", None, BAD)], BAD),
    ("llama3", '{"name": "add", "para', "", None, [("", '{"name": "add", "para', CUT)], CUT),
    ("llama3", '{"answer": 42}<|eot_id|>', '{"answer": 42}', None, [], OK),
    ("llama3", '<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>', "", None, [("f", "{}", OK)], OK),
    ("llama3", '<|python_tag|>search.call(query="x")<|eom_id|>', "", None, [("search", 'query="x"', OK)], OK),
    ("llama3", "<|python_tag|>print(1)<|eom_id|>", "", None, [("python", "print(1)", OK)], OK),
    ("harmony", "<|channel|>final<|message|>Hi.<|return|>", "Hi.", None, [], OK),
    ("harmony", f"{ANALYSIS}<|channel|>final<|message|>Hi.<|return|>", "Hi.", "hm", [], OK),
    (
        "harmony",
        f'{ANALYSIS} to=functions.add<|channel|>commentary <|constrain|>json<|message|>{{"a": 1}}<|call|>',
        "",
        "hm",
        [("add", '{"a": 1}', OK)],
        OK,
    ),
    (
        "harmony",
        '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>',
        "",
        None,
        [("add", '{"a": 1}', OK)],
        OK,
    ),
    ("harmony", " to=functions.add<|channel|>commentary<|message|>{a<|call|>", "", None, [("add", "{a", BAD)], BAD),
    ("harmony", " to=functions.add<|channel|>commentary<|message|>{", "", None, [("add", "{", CUT)], CUT),
    ("harmony", " to=python<|channel|>analysis<|message|>1+1<|call|>", "", None, [("python", "1+1", OK)], OK),
    ("harmony", "<|channel|>secret<|message|>x<|return|>", "", None, [], BAD),
    ("harmony", "<|channel|>final<|message|>Hi.<|end|>", "Hi.", None, [], CUT),
    ("harmony", "", "", None, [], CUT),
]


@pytest.mark.parametrize(("family", "sampled", "text", "reasoning", "calls", "parsing"), TABLE)
def test_a_turn_is_read(family, sampled, text, reasoning, calls, parsing, tokenizers):
    reply = FAMILIES[family](tokenizers[family]).parse(tokenizers[family].encode(sampled))
    assert (reply.text, reply.reasoning, reply.parsing) == (text, reasoning, parsing)
    assert [(call.name, call.parsing) for call in reply.tool_calls] == [(name, how) for name, _, how in calls]
    for call, (_, arguments, _) in zip(reply.tool_calls, calls, strict=True):
        assert arguments is None or call.arguments == arguments
    assert bool(reply.observations) == (parsing is BAD)
    assert all(message.role == "tool" and message.content for message in reply.observations)


def test_spelling_a_call_is_not_calling(tokenizers):
    """The letters of `<tool_call>`, sampled one by one, are text: the control token alone begins a call."""
    renderer = ChatML(tokenizers["chatml"])
    letters = [i for letter in CALL for i in tokenizers["chatml"].encode(letter)]
    reply = renderer.parse([*letters, *tokenizers["chatml"].encode(END)])
    assert reply.text == CALL and not reply.tool_calls


@pytest.mark.parametrize("slot", ["arguments", "parameters"])
@pytest.mark.parametrize(
    ("fields", "parsing"),
    [
        ('"{other}": {"a": 1}', BAD),
        ('"args": {"a": 1}', BAD),
        ('"input": {}', BAD),
        ('"Arguments": {"a": 1}', BAD),
        ('"kwargs": null', BAD),
        ('"a": 1', BAD),
        ('"": {}', BAD),
        ('"{slot}": null', BAD),
        ('"{slot}": "{}"', BAD),
        ('"{slot}": [1]', BAD),
        ('"{slot}": {"a": 1}', OK),
        ('"{slot}": {"a": 1}, "{other}": {"a": 2}', OK),
        ('"{slot}": {}, "id": "1", "type": "function"', OK),
        ('"id": "1"', OK),
        ('"type": "function"', OK),
    ],
)
def test_a_call_whose_arguments_have_another_key_does_not_run_without_them(fields, parsing, slot):
    other = {"arguments": "parameters", "parameters": "arguments"}[slot]
    text = '{"name": "delete", ' + fields.replace("{slot}", slot).replace("{other}", other) + "}"
    call = named_call(text, slot)
    assert call.parsing is parsing, call.problem
    if parsing is OK:
        assert call.arguments == ('{"a": 1}' if '{"a": 1}' in text else "{}")
    else:
        assert slot in call.problem and call.arguments == text


def test_arguments_are_the_text_that_was_sampled(tokenizers):
    """Numbers, escapes and blanks stay as they are; reading them is another step."""
    raw = '{"x": 1.50, "y":\t"\\u00e9", "z": [true , null]}'
    text = f'<tool_call>{{"arguments": {raw}, "name": "f"}}</tool_call>{END}'
    (call,) = ChatML(tokenizers["chatml"]).parse(tokenizers["chatml"].encode(text)).tool_calls
    assert call.arguments == raw
    assert arguments_of(call) == {"x": 1.5, "y": "é", "z": [True, None]}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("[" * 33 + "]" * 33, "nested"),
        ('{"a": ' * 100_000, "longer than"),
        ('{"a": "' + "x" * 200_000 + '"}', "longer than"),
        ('{"a": ' + "9" * 5000 + "}", "number is too long"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": 1e999}', "1e999 is not a JSON number"),
        ('{"a": 1, "a": 2}', "names a key twice"),
        ("[1]", "not a JSON object"),
        ('{"a": 1} {}', "Extra data"),
        ("", "not JSON"),
    ],
)
def test_arguments_have_caps(raw, said):
    with pytest.raises(Unreadable, match=said):
        arguments_of(ToolCall(name="f", arguments=raw))


def test_brackets_in_quotes_are_no_depth():
    assert arguments_of(ToolCall(name="f", arguments='{"a": "' + "[" * 99 + '\\"{"}')) == {"a": "[" * 99 + '"{'}


@pytest.mark.parametrize("family", ["chatml", "qwen3", "llama3", "harmony"])
def test_a_call_that_is_written_into_a_prompt_is_read_again(family, tokenizers):
    """And its content and arguments cannot forge markup."""
    renderer, control = FAMILIES[family](tokenizers[family]), tokenizers[family]
    forged = json.dumps({"a": "".join(renderer.encoding.control)})
    asked = Message(role="user", content="2+2?")
    said = Message(role="assistant", calls=(ToolCall(name="add", arguments=forged, id="x"),))
    before = joined(renderer.start([asked]))
    after = joined(renderer.start([asked, said, Message(role="tool", content="4", call_id="x")]))
    assert after[: len(before)] == before
    (call,) = renderer.parse(after[len(before) :]).tool_calls
    assert (call.name, call.arguments, call.sound) == ("add", forged, True)
    if family == "harmony":
        assert "<|start|>functions.add to=assistant" in control.spell(after)
