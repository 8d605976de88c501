"""An unknown chat template, which can write only the first turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError
from gnomon.models.folder import image_token, table
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering.base import Origin, Parsing, Reply, Segments, Tool, joined
from gnomon.rendering.encoding import Piece, encoding_of
from gnomon.rendering.jinja import compile_template
from gnomon.rendering.sight import Sight
from gnomon.rendering.turns import cut_at_end
from gnomon.types import Message

__all__ = ["Published", "render", "rendered_plain", "several_turns"]


class Published:
    """Writes the first turn with the folder's chat template, and refuses a second turn.

    The template runs once with a placeholder for every content, so that content can be distinguished from the
    template's own text. A template that depends on the contents is refused.
    """

    def __init__(self, tokenizer: Tokenizer, template: str) -> None:
        self.encoding = encoding_of(tokenizer)
        self.template = template

    @property
    def stop(self) -> frozenset[int]:
        return self.encoding.tokenizer.eos

    def start(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Segments:
        if tools:
            raise several_turns(self.encoding.tokenizer.folder)
        messages = [replace(message, content=message.text, calls=()) for message in messages]
        marks, sight = _marks(messages), Sight(self.encoding, messages)
        run = partial(render, self.template, self.encoding.tokenizer.folder)
        marked = run([replace(message, content=mark) for message, mark in zip(messages, marks, strict=True)])
        spelled = run(messages)
        for contents in ([m.content for m in messages], [m.content.strip() for m in messages]):
            pieces = _pieces(marked, marks, contents)
            if "".join(piece.text for piece in pieces) == spelled:
                return sight.encode(pieces)
        raise ModelError(
            "E316",
            "the chat template changes the text of messages",
            where=str(self.encoding.tokenizer.folder),
            why="text in a task could then be read as markup and forge a turn",
            fix="policy.renderer=plain, or a supported family: chatml, qwen3, gemma, llama3, harmony",
        )

    def extend(self, sampled_ids: Sequence[int], messages: Sequence[Message]) -> Segments:
        raise several_turns(self.encoding.tokenizer.folder)

    def fork(self, segments: Segments, messages: Sequence[Message]) -> Segments | None:
        return None

    def parse(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Reply:
        ids, ended = cut_at_end(token_ids, self.stop)
        ids = [*self.encoding.open_marker(prompt_ids or self._usual), *ids]
        return Reply(text=self.encoding.decode(ids), parsing=Parsing.OK if ended else Parsing.TRUNCATED)

    @cached_property
    def _usual(self) -> tuple[int, ...]:
        """A prompt of one user message; empty if the template refuses it."""
        try:
            return joined(self.start([Message(role="user", content="2+2?")]))
        except ModelError:
            return ()


def several_turns(folder: Path, why: str = "") -> ModelError:
    """Args: why: what stands against several turns with the template; empty for a folder without one."""
    return ModelError(
        "E313",
        "the model's chat template cannot continue a conversation",
        where=str(folder),
        why=why or "the model folder has no chat template",
        fix="policy.renderer=plain, or a model of a supported family: chatml, qwen3, gemma, llama3, harmony",
    )


def render(template: str, folder: Path, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
    """The text of a chat template up to the policy's turn. Raises: ModelError E310 if the template fails."""
    return rendered_plain(
        template,
        folder,
        [m.body | ({"images": len(m.images)} if m.images else {}) for m in messages],
        tools,
    )


def rendered_plain(
    template: str, folder: Path, messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool] = (), *, asks: bool = True
) -> str:
    """As `render`, of messages that may have calls. Args: asks: whether the policy's turn begins at the end."""
    marks = {name: _spelling(value) for name, value in _config(folder).items() if name.endswith("_token")}
    messages = list(shape_messages(template, folder, messages)) if image_token(folder) is not None else messages
    variables = marks | {"tools": [tool.schema for tool in tools] or None, "documents": None}
    try:
        return str(compile_template(template).render(messages=messages, add_generation_prompt=asks, **variables))
    except Exception as error:  # A template is foreign code and can raise anything.
        raise ModelError(
            "E310",
            f"the chat template fails: {error}",
            where=str(folder),
            why=f"the messages have the roles {', '.join(message['role'] for message in messages)}",
            fix="use messages that the template accepts, or policy.renderer=plain",
        ) from error


def shape_messages(template: str, folder: Path, messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Messages as the template of a model that sees takes them: with a list of parts where there is an image, and
    everywhere if it takes nothing else. Args: messages: with the number of `images` of each, if there are any."""
    listed = not _reads_text(template, folder)
    for message in messages:
        entry, images = dict(message), message.get("images", 0)
        entry.pop("images", None)
        if (images or listed) and isinstance(content := message["content"], str):
            entry["content"] = [*({"type": "image"},) * images, *_text_parts(content)]
        yield entry


def _text_parts(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}] if content else []


@lru_cache(maxsize=16)
def _reads_text(template: str, folder: Path) -> bool:
    """Whether a template writes a content that is a text and not a list of parts."""
    try:
        text = compile_template(template).render(
            messages=[{"role": "user", "content": "zquzq"}], add_generation_prompt=True, bos_token=""
        )
    except Exception:  # A template is foreign code and can raise anything.
        return False
    return "zquzq" in text


def _config(folder: Path) -> dict[str, Any]:
    return table(folder / "tokenizer_config.json")


def _spelling(token: Any) -> str:
    return str(token.get("content", "") if isinstance(token, dict) else token or "")


def _marks(messages: Sequence[Message]) -> list[str]:
    """A placeholder for every message; none occurs in any message."""
    text = "\n".join(message.content for message in messages)
    stem = "content"
    while stem in text:
        stem += "x"
    return [f"{stem}{index}_" for index in range(len(messages))]


def _pieces(marked: str, marks: Sequence[str], contents: Sequence[str]) -> list[Piece]:
    """The template's output, with every placeholder replaced by its content."""
    pieces: list[Piece] = []
    for mark, content in zip(marks, contents, strict=True):
        before, _, marked = marked.partition(mark)
        pieces += [Piece(Origin.TEMPLATE, before), Piece(Origin.TASK, content)]
    return [*pieces, Piece(Origin.TEMPLATE, marked)]
