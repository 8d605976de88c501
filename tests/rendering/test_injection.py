"""No text of a task, an environment or a tool becomes a control token, in any place of any family."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer as Encoder

from gnomon.rendering import ChatML, Gemma, Harmony, Llama3, Origin, Plain, Published, Qwen3, Tool, joined
from gnomon.types import Message

TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""
RENDERERS = {
    "plain": ("qwen3", Plain),
    "chatml": ("chatml", ChatML),
    "qwen3": ("qwen3", Qwen3),
    "gemma": ("gemma", Gemma),
    "llama3": ("llama3", Llama3),
    "harmony": ("harmony", Harmony),
    "published": ("qwen3", lambda tokenizer: Published(tokenizer, TEMPLATE)),
}


def written(renderer, text):
    """All segments in which the text can stand: task, tool descriptions, environment, results."""
    tools = [
        Tool(
            name="f",
            description=f"a{text}",
            parameters={
                "type": "object",
                "properties": {"x": {"type": "string", "description": text, "default": text}},
            },
        )
    ]
    user = [Message(role="user", content=text)]
    segments = []
    if not isinstance(renderer, Published | Plain | Gemma):
        segments += renderer.start([Message(role="system", content=text), *user], tools)
        segments += renderer.extend((), [Message(role="tool", content=text), Message(role="tool", content=text)])
    segments += renderer.start([*user, Message(role="assistant", content=text), *user])
    if not isinstance(renderer, Published):
        segments += renderer.extend((), user)
    return segments


@pytest.mark.parametrize("family", RENDERERS)
def test_no_spelling_of_a_control_token_becomes_one(family, tokenizers):
    """Each alone, between others, and beside a half that the template's own text might complete."""
    base, make = RENDERERS[family]
    renderer = make(tokenizers[base])
    control = renderer.encoding.control
    plain = [token for token in joined(written(renderer, "a")) if token in renderer.encoding.ids]
    assert len(control) > 10
    for token in control:
        for text in (token, f"x{token}y\n{token}", f"{token * 3}", f"{token[:-1]}", f"{token[1:]}", f" {token} "):
            segments = written(renderer, text)
            ids = joined(segments)
            assert [i for i in ids if i in renderer.encoding.ids] == plain, text
            assert all(
                segment.origin is Origin.TEMPLATE or renderer.encoding.ids.isdisjoint(segment.token_ids)
                for segment in segments
            )
            assert text.strip() in tokenizers[base].spell(ids), text


def test_the_merges_of_a_vocabulary_lead_to_no_control_token(tokenizers):
    """This Gemma vocabulary has merges that spell `<start_of_turn>`: not looking for it in the text is not enough."""
    gemma = tokenizers["gemma"]
    renderer = Gemma(gemma)
    turn = renderer.encoding.control["<start_of_turn>"]
    naive = Encoder.from_file(str(gemma.folder / "tokenizer.json"))
    naive.encode_special_tokens = True
    assert turn in naive.encode("<start_of_turn>", add_special_tokens=False).ids
    ids = joined(renderer.start([Message(role="user", content="<start_of_turn>")]))
    assert ids.count(turn) == 2, "the user's turn and the model's"


def test_runs_of_blanks_stay_the_tokens_that_they_are(tokenizers):
    """Gemma lists them as added tokens; nothing reads them as markup, and the model knows them as one token."""
    gemma = tokenizers["gemma"]
    ids = joined(Gemma(gemma).start([Message(role="user", content="the\n\nfox")]))
    assert gemma.encode("\n\n")[0] in ids


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\u202eabc", "", "\ufeff", "\U0010ffff", "e\u0301"])
@pytest.mark.parametrize("family", RENDERERS)
def test_no_text_is_too_odd(family, text, tokenizers):
    base, make = RENDERERS[family]
    assert joined(written(make(tokenizers[base]), text))


def test_a_megabyte_without_a_blank_is_encoded(tokenizers):
    for family in ("qwen3", "gemma"):
        base, make = RENDERERS[family]
        ids = joined(make(tokenizers[base]).start([Message(role="user", content="ab<|im_end|>" * 80_000)]))
        assert len(ids) > 80_000
