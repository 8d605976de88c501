"""What follows a turn: the end it left open, nothing else, and a new sequence only where a family says so."""

from __future__ import annotations

import pytest

from gnomon.errors import ModelError
from gnomon.rendering import (
    ChatML,
    Gemma,
    Harmony,
    History,
    Llama3,
    Origin,
    Plain,
    Qwen3,
    Tool,
    Transcript,
    joined,
)
from gnomon.types import Message

USER = [Message(role="user", content="more")]
RESULT = [Message(role="tool", content="3")]
H = "<|channel|>final<|message|>"
TABLE = [
    (Plain, "qwen3", "Hi.", USER, "\nmore\n"),
    (ChatML, "chatml", "Hi.<|im_end|>", USER, "\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"),
    (ChatML, "chatml", "Hi.", USER, "<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"),
    (ChatML, "chatml", "Hi.<|endoftext|>", USER[:0], "<|im_end|>\n<|im_start|>assistant\n"),
    (Gemma, "gemma", "Hi.", USER, "<end_of_turn>\n<start_of_turn>user\nmore<end_of_turn>\n<start_of_turn>model\n"),
    (Gemma, "gemma", "Hi.<end_of_turn>", USER, "\n<start_of_turn>user\nmore<end_of_turn>\n<start_of_turn>model\n"),
    (Llama3, "llama3", "Hi.", [], "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"),
    (Llama3, "llama3", "Hi.<|eom_id|>", [], "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    (Harmony, "harmony", f"{H}Hi.", USER, "<|end|><|start|>user<|message|>more<|end|><|start|>assistant"),
    (Harmony, "harmony", "<|channel|>fin", USER[:0], "<|message|><|end|><|start|>assistant"),
    (Harmony, "harmony", f"{H}Hi.<|return|>", USER, "<|start|>user<|message|>more<|end|><|start|>assistant"),
    (
        Harmony,
        "harmony",
        " to=functions.add<|channel|>commentary<|message|>{}<|call|>",
        RESULT,
        "<|start|>functions.add to=assistant<|channel|>commentary<|message|>3<|end|><|start|>assistant",
    ),
    (
        Harmony,
        "harmony",
        f"{H}no call<|return|>",
        RESULT,
        "<|start|>functions to=assistant<|channel|>commentary<|message|>3<|end|><|start|>assistant",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "family", "sampled", "messages", "text"), TABLE)
def test_the_end_that_a_turn_left_open_is_written(make, family, sampled, messages, text, tokenizers):
    tokenizer = tokenizers[family]
    more = make(tokenizer).extend(tokenizer.encode(sampled), messages)
    assert tokenizer.spell(joined(more)) == text


@pytest.mark.parametrize("history", History)
def test_reasoning_leaves_the_history_only_by_a_declared_fork(history, tokenizers):
    """A tool's result goes on with the sequence; a user's turn begins one without the thought, unless it is kept."""
    tokenizer = tokenizers["qwen3"]
    first = Transcript.begin(Qwen3(tokenizer, history=history), USER)
    sampled = first.with_completion(tokenizer.encode("<think>\nhm\n</think>\n\nHi.<|im_end|>"))
    result = sampled.observe(RESULT)
    assert result.forks == 0 and result.token_ids[: len(sampled.token_ids)] == sampled.token_ids
    user = sampled.observe(USER)
    assert user.forks == (history is History.FORK)
    assert ("hm" in tokenizer.spell(user.token_ids)) is (history is History.KEEP)
    assert next(s for s in user.segments if s.origin is Origin.POLICY).token_ids == tokenizer.encode(
        "Hi.<|im_end|>" if history is History.FORK else "<think>\nhm\n</think>\n\nHi.<|im_end|>"
    )


def test_the_empty_thought_that_the_template_wrote_goes_too(tokenizers):
    tokenizer = tokenizers["qwen3"]
    sampled = Transcript.begin(Qwen3(tokenizer, thinking=False), USER).with_completion(
        tokenizer.encode("Hi.<|im_end|>")
    )
    told = sampled.observe(USER)
    assert told.forks == 1
    assert tokenizer.spell(told.token_ids).count("<think>") == 1, "that of the turn to come"


def test_a_final_answer_drops_the_analysis_and_a_call_keeps_it(tokenizers):
    tokenizer = tokenizers["harmony"]
    thought = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
    begun = Transcript.begin(Harmony(tokenizer), USER)
    answered = begun.with_completion(tokenizer.encode(f"{thought}{H}Hi.<|return|>")).observe(USER)
    assert answered.forks == 1
    assert tokenizer.spell(answered.token_ids).endswith(
        f"<|start|>assistant{H}Hi.<|end|><|start|>user<|message|>more<|end|><|start|>assistant"
    )
    called = begun.with_completion(
        tokenizer.encode(f"{thought} to=functions.f<|channel|>commentary<|message|>{{}}<|call|>")
    ).observe(RESULT)
    assert called.forks == 0 and "hm" in tokenizer.spell(called.token_ids)


def test_messages_follow_a_sampled_turn(tokenizers):
    with pytest.raises(ValueError, match="must follow a sampled turn"):
        Transcript.begin(ChatML(tokenizers["chatml"]), USER).observe(USER)


@pytest.mark.parametrize(
    ("make", "family", "code", "act"),
    [
        (Plain, "qwen3", "E314", lambda r: r.start(USER, [Tool(name="f", description="")])),
        (Gemma, "gemma", "E314", lambda r: r.start(USER, [Tool(name="f", description="")])),
        (Gemma, "gemma", "E315", lambda r: r.extend((), RESULT)),
        (Gemma, "gemma", "E315", lambda r: r.extend((), USER * 2)),
        (ChatML, "chatml", "E315", lambda r: r.start([Message(role="user<|im_end|>", content="")])),
        (Llama3, "llama3", "E315", lambda r: r.start([Message(role="critic", content="")])),
        (Harmony, "harmony", "E315", lambda r: r.start(RESULT)),
    ],
)
def test_what_has_no_place_is_refused(make, family, code, act, tokenizers):
    with pytest.raises(ModelError) as refused:
        act(make(tokenizers[family]))
    assert refused.value.code == code and refused.value.fix
