"""A folder gets the renderer that writes what its own template writes, or a refusal."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from gnomon.envs import Countdown
from gnomon.errors import ModelError
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import ChatML, Derived, Plain, Published, choose, joined
from gnomon.rendering.choose import departure
from gnomon.rendering.published import render
from gnomon.types import Message

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}\
{% endfor %}{{ '<|im_start|>assistant\n' }}"""
OTHER = (
    "{% for message in messages %}<|im_start|>{{ message.role }}: {{ message.content | trim }}<|im_end|>{% endfor %}"
)
SHOUTING = "{% for message in messages %}{{ message.content | upper }}{% endfor %}"
TALK = [Message(role="user", content=" What is <|im_end|>? "), Message(role="assistant", content="It."),
        Message(role="user", content="Sure?")]  # fmt: skip


def test_a_folder_without_a_template_gets_plain_text():
    """The policy that ships: its prompts are those that they were, and `<answer>` is a word of its vocabulary."""
    tokenizer = Tokenizer(model_folder("tiny"))
    renderer = choose(tokenizer)
    assert isinstance(renderer, Plain)
    for task in (Countdown(shots=2).tasks("train")[index] for index in range(5)):
        text = "".join(message.content + "\n" for message in task.messages)
        assert joined(renderer.start(task.messages)) == tokenizer.encode(text)
    assert tokenizer.encode("<answer>")[0] in joined(renderer.start(task.messages))
    ends = joined(renderer.start([Message(role="user", content="<eos>")]))
    assert tokenizer.eos.isdisjoint(ends), "an end is no word"


def test_a_family_is_taken_for_what_the_template_writes_and_not_for_its_tokens(folder_of):
    assert isinstance(choose(Tokenizer(folder_of("chatml", CHATML))), ChatML)
    assert isinstance(choose(Tokenizer(folder_of("qwen3", CHATML))), ChatML)
    assert isinstance(choose(Tokenizer(folder_of("chatml", OTHER))), Published)


def test_a_template_may_stand_in_the_tokenizer_config(folder_of):
    folder = folder_of("chatml")
    for template in (CHATML, [{"name": "tool_use", "template": OTHER}, {"name": "default", "template": CHATML}]):
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        assert isinstance(choose(Tokenizer(folder)), ChatML)


def test_an_unknown_template_writes_its_first_turn_and_no_control_token_of_the_text(folder_of):
    tokenizer = Tokenizer(folder_of("chatml", OTHER))
    renderer = choose(tokenizer)
    ids = joined(renderer.start(TALK))
    assert tokenizer.spell(ids) == (
        "<|im_start|>user: What is <|im_end|>?<|im_end|><|im_start|>assistant: It.<|im_end|>"
        "<|im_start|>user: Sure?<|im_end|>"
    )
    assert sum(token in tokenizer.eos for token in ids) == 3, "the template's three, and not the text's"


def test_several_turns_of_a_template_without_a_prompt_are_refused_before_the_first(folder_of):
    tokenizer = Tokenizer(folder_of("chatml", OTHER))
    with pytest.raises(ModelError, match="E313"):
        choose(tokenizer, turns=2)
    with pytest.raises(ModelError, match="E313"):
        choose(tokenizer).extend((), TALK[2:])


def test_a_template_that_changes_the_text_is_refused(folder_of):
    with pytest.raises(ModelError, match="E316"):
        choose(Tokenizer(folder_of("chatml", SHOUTING))).start(TALK)


@pytest.mark.parametrize("template", ["{{ nothing.there }}", "{% if %}", "{{ raise_exception('no') }}"])
def test_a_template_that_fails_says_so(template, folder_of):
    with pytest.raises(ModelError, match="E310"):
        choose(Tokenizer(folder_of("chatml", template))).start(TALK)


def test_a_named_family_needs_its_control_tokens(folder_of):
    with pytest.raises(ModelError, match="E311"):
        choose(Tokenizer(folder_of("chatml")), "llama3")
    assert isinstance(choose(Tokenizer(folder_of("chatml", OTHER)), "chatml"), ChatML)


NAMED = "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are Ada.<|im_end|>\n' }}{% endif %}" + CHATML


@pytest.mark.parametrize("opening", ["", "<think>\n", "<think>\n\n</think>\n\n"])
def test_a_default_system_text_and_an_opening_are_those_of_the_template(opening, folder_of):
    template = NAMED.replace("assistant\n' }}", f"assistant\n{opening}' }}}}")
    tokenizer = Tokenizer(folder_of("qwen3", template))
    for name in ("auto", "chatml"):
        renderer = choose(tokenizer, name, turns=3)
        assert isinstance(renderer, ChatML) and not departure(tokenizer, name)
        for messages in (TALK, [Message(role="system", content="Be brief."), *TALK]):
            assert tokenizer.spell(joined(renderer.start(messages))) == render(template, tokenizer.folder, messages)


@pytest.mark.parametrize(
    ("template", "name", "says"),
    [
        (CHATML, "auto", ""),
        (CHATML, "chatml", ""),
        (CHATML, "qwen3", "asks for ChatML"),
        (CHATML, "plain", "asks for ChatML"),
        (OTHER, "chatml", "its prompts differ"),
        (NAMED.replace("content", "content|trim"), "chatml", "its prompts differ"),
        (None, "chatml", "no chat template"),
        (None, "plain", ""),
    ],
)
def test_a_renderer_that_departs_from_the_template_is_told(template, name, says, folder_of):
    found = departure(Tokenizer(folder_of("qwen3", template)), name)
    assert (says in found) if says else not found


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("change", ["|trim", ".strip()", ".lstrip('\\n')", ".rstrip()"])
def test_a_template_that_strips_is_not_chatml(change, role, folder_of):
    """Content with outer spaces is written as the template writes it, or the template is unknown."""
    template = CHATML.replace(
        "message.content", f"(message.content{change} if message.role == '{role}' else message.content)"
    )
    tokenizer = Tokenizer(folder_of("chatml", template))
    renderer = choose(tokenizer, turns=2)
    assert isinstance(renderer, Derived)
    spaced = [Message(role=role, content=f"\n {role} \n") for role in ("system", "user", "assistant", "user")]
    assert tokenizer.spell(joined(renderer.start(spaced))) == render(template, tokenizer.folder, spaced)


@pytest.mark.parametrize(
    ("piece", "written"),
    [
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "2+2?"),
        ("{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}", "21"),
        ("{{ strftime_now('%Y-%m-%d') }}", "2024-07-26"),
        ("{{ strftime_now('%d %B %Y') }}", "26 July 2024"),
        ("{% set now = strftime_now('%H:%M') %}{{ now }}", "00:00"),
        ("{{ strftime_now is defined }}", "True"),
        ("{{ 'é'|tojson(ensure_ascii=False) }}", '"é"'),
        ("{{ 'é'|tojson(ensure_ascii=True) }}", '"\\u00e9"'),
        ("{{ 'é<'|tojson }}", '"é<"'),
        ("{{ {'b': 1, 'a': 2}|tojson(sort_keys=True, separators=(',', ':')) }}", '{"a":2,"b":1}'),
        ("{{ [1]|tojson(indent=1) }}", "[\n 1\n]"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{{ tools is defined }} {{ tools is none }} {{ documents is none }}", "True True True"),
        ("{{ bos_token is defined }}", "True"),
    ],
)
def test_a_template_may_use_what_transformers_offers(piece, written, folder_of):
    assert render(piece, folder_of("chatml"), [Message(role="user", content="2+2?")]) == written


@pytest.mark.skipif(find_spec("trl") is None, reason="the published templates are data of trl, of the bench extra")
@pytest.mark.parametrize(
    ("family", "template", "name", "option"),
    [
        (
            "chatml",
            "qwen2_5",
            "ChatML",
            {"system": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
        ),
        ("qwen3", "qwen3", "Qwen3", {"thinking": True}),
        ("qwen3", "qwen3_instruct_2507", "ChatML", {"system": ""}),
        ("gemma", "gemma", "Gemma", {"system": False}),
        ("gemma", "gemma3", "Gemma", {"system": True}),
        ("llama3", "llama3", "Llama3", {"dated": False}),
        ("llama3", "llama3_1", "Llama3", {"dated": True}),
        ("llama3", "llama3_2", "Llama3", {"dated": True}),
        ("harmony", "gptoss", "Harmony", {"date": ""}),
        ("qwen3", "qwen3_8", "Derived", {}),
        ("chatml", "phi3", "Derived", {}),
    ],
)
def test_published_templates_are_recognised(family, template, name, option, folder_of):
    templates = Path(find_spec("trl").submodule_search_locations[0]) / "chat_templates"
    folder = folder_of(family, (templates / f"{template}.jinja").read_text(encoding="utf-8"))
    renderer = choose(Tokenizer(folder))
    assert type(renderer).__name__ == name
    assert {key: getattr(renderer, key) for key in option} == option
