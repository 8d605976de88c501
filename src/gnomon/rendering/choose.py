"""Choose the renderer of a model folder, by its control tokens and its chat template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

from gnomon.errors import ModelError
from gnomon.models.folder import chat_template, image_token
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Renderer, Tool, joined
from gnomon.rendering.chatml import ChatML
from gnomon.rendering.derived import agrees, derived_of, proof_of
from gnomon.rendering.gemma import Gemma
from gnomon.rendering.harmony import Harmony
from gnomon.rendering.jinja import NOW
from gnomon.rendering.llama3 import Llama3
from gnomon.rendering.plain import TEMPLATE, Plain
from gnomon.rendering.published import Published, render, several_turns
from gnomon.rendering.qwen3 import Qwen3
from gnomon.types import Message

__all__ = ["Name", "choose", "departure", "writes"]

Name = Literal["auto", "plain", "chatml", "qwen3", "gemma", "llama3", "harmony"]

REPLY = Message(role="assistant", content="<think>\nSpiders.\n</think>\n\nEight.")
ASKED = (Message(role="user", content="How many legs has a spider?"), REPLY, Message(role="user", content="And two?"))
WITH_SYSTEM = (Message(role="system", content="Answer in one word."), *ASKED)
TOOL = Tool(
    name="add",
    description="Adds two numbers.",
    parameters={"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
)
SPACED = tuple(replace(message, content=f"\n {message.content} \n") for message in (WITH_SYSTEM[0], *ASKED))
SYSTEM = re.compile(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", re.DOTALL)
TURN = "<|im_start|>assistant\n"


def choose(tokenizer: Tokenizer, name: Name = "auto", *, turns: int = 1) -> Renderer:
    """The renderer of a model folder.

    `auto` selects a family only if it writes the same text as the folder's chat template, and for several turns only if
    it continues conversations as the template does. A folder without a template,
    or with the plain-text template, gets the plain renderer. An unknown template continues conversations by the rule
    that is proven of it; if there is none, it writes the first turn alone.

    Args:
        turns: largest number of turns of the policy in an episode.
    Raises: ModelError E311 if the tokenizer lacks a control token of the named family; E313 if no rule is
        proven of the template and there are several turns.
    """
    if name not in get_args(Name):
        raise ValueError(f"renderer is {name!r}; it must be one of {get_args(Name)}")
    template = chat_template(tokenizer.folder)
    if template in (None, TEMPLATE) and name in ("plain", "auto"):
        return Plain(tokenizer, _words(tokenizer))
    if name == "plain":
        return Plain(tokenizer)
    candidates = list(_candidates(tokenizer, name, template))
    fitting = (each for each in candidates if template is not None and writes(each, template, tokenizer))
    renderer = next(fitting, None)
    if name != "auto":
        return renderer or candidates[0]
    if template is None:
        raise several_turns(tokenizer.folder)
    sees = image_token(tokenizer.folder) is not None
    if renderer and turns == 1 and not sees:
        return renderer
    derived = derived_of(tokenizer, template)
    if derived and sees:
        return derived  # A family's own format has no place for an image.
    if renderer:
        return derived if derived and not agrees(renderer, derived) else renderer
    if derived is None and turns > 1:
        raise several_turns(tokenizer.folder, proof_of(tokenizer, template)[1].refusal)
    return derived or Published(tokenizer, template)


def departure(tokenizer: Tokenizer, name: Name) -> str:
    """How a named renderer differs from what the model folder asks for, as a sentence; empty where it does not.

    Raises: ModelError, as in `choose`.
    """
    if name == "auto":
        return ""
    template, usual, forced = chat_template(tokenizer.folder), choose(tokenizer), choose(tokenizer, name)
    if template is None:
        asks = "" if isinstance(forced, Plain) else (
            "the model folder has no chat template, so nothing says that the model knows these markers"
        )  # fmt: skip
    elif (template == TEMPLATE and isinstance(forced, Plain)) or writes(forced, template, tokenizer):
        asks = ""
    elif isinstance(usual, Published | type(forced)):
        asks = "its prompts differ from those of the chat template of the model folder"
    else:
        asks = f"the chat template of the model folder asks for {type(usual).__name__}"
    return asks and f"policy.renderer={name} is forced, and {asks}"


def _candidates(tokenizer: Tokenizer, name: Name, template: str | None) -> Iterator[Renderer]:
    """Every variant of the named family, the usual one first; for `auto`, of every family whose tokens exist."""
    system, opening = ("", "") if template is None else _chatml_parts(template, tokenizer)
    variants: dict[str, list[Callable[[Tokenizer], Renderer]]] = {
        "qwen3": [Qwen3, partial(Qwen3, opened=True), partial(Qwen3, thinking=False)],
        "chatml": [ChatML, partial(ChatML, system=system, opening=opening)],
        "gemma": [Gemma, partial(Gemma, system=False)],
        "llama3": [Llama3, partial(Llama3, dated=False)],
        "harmony": [Harmony],
    }
    for family, makes in variants.items():
        if name in (family, "auto"):
            for make in makes:
                try:
                    yield make(tokenizer)
                except ModelError:
                    if name != "auto":
                        raise


def _chatml_parts(template: str, tokenizer: Tokenizer) -> tuple[str, str]:
    """The default system message of a template in the format of ChatML, and how it begins the policy's turn."""
    text = _published_text(template, tokenizer, ASKED[:1], ()) or ""
    system = SYSTEM.match(text)
    return system[1] if system else "", text.rpartition(TURN)[2] if TURN in text else ""


def writes(renderer: Renderer, template: str, tokenizer: Tokenizer) -> bool:
    """Whether renderer and template write the same text: for a chat, with a system message, spaces, and tools."""
    probes: list[tuple[Sequence[Message], Sequence[Tool]]] = [(ASKED, ()), (WITH_SYSTEM, ()), (SPACED, ())]
    if isinstance(renderer, Harmony):
        # The template of gpt-oss reads the clock, and its end of instructions differs from openai-harmony's.
        renderer, probes = Harmony(tokenizer, date=f"{NOW:%Y-%m-%d}"), [(ASKED[:1], ()), (ASKED[:1], (TOOL,))]
    elif "tools" in template and not isinstance(renderer, Gemma):
        probes += [(ASKED[:1], (TOOL,)), (WITH_SYSTEM, (TOOL,))]
    return all(_text(renderer, tokenizer, *probe) == _published_text(template, tokenizer, *probe) for probe in probes)


def _text(renderer: Renderer, tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Tool]) -> str | None:
    """The renderer's text; None if it refuses the messages."""
    try:
        return tokenizer.spell(joined(renderer.start(messages, tools)))
    except ModelError:
        return None


def _published_text(
    template: str, tokenizer: Tokenizer, messages: Sequence[Message], tools: Sequence[Tool]
) -> str | None:
    """The template's text; None if it refuses the messages."""
    try:
        return render(template, tokenizer.folder, messages, tools)
    except ModelError:
        return None


def _words(tokenizer: Tokenizer) -> list[str]:
    """Added tokens that are not special. Without markup they are ordinary words of the text."""
    return [token.content for token in tokenizer.added_tokens.values() if not token.special]
