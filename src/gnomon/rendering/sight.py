"""Images in a prompt: the text that stands for them, and token ids that name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Protocol, runtime_checkable

from gnomon.errors import ModelError
from gnomon.images import SHELF, Image
from gnomon.models.folder import image_token
from gnomon.rendering.base import Origin, Segments
from gnomon.rendering.encoding import Encoding, Piece
from gnomon.types import Message

__all__ = ["Sight", "decode_images", "no_sight", "require_sight"]


@runtime_checkable
class Templated(Protocol):
    """A renderer that writes with a chat template, which knows where an image stands."""

    encoding: Encoding
    template: str


class Sight:
    """The images of some messages, on their way into tokens.

    A token of the template that stands for a part of an image gets the id that names the image, so it is a part of the
    prompt's identity. The text of a task cannot contain such a token.
    """

    def __init__(self, encoding: Encoding, messages: Sequence[Message]) -> None:
        self.encoding = encoding
        self.images = [image for message in messages for image in message.images]

    def encode(self, pieces: Iterable[Piece]) -> Segments:
        """The segments of the pieces. Raises: as `Image.pixels`; ModelError E331."""
        if not self.images:
            return self.encoding.encode(pieces)
        # Imported where an image is rendered, because it needs transformers.
        from gnomon.models.image_reader import reader_of

        reader = reader_of(self.encoding.tokenizer.folder)
        assert reader is not None
        token = reader.token_id
        texts = [reader.text(image) for image in self.images]
        segments = self.encoding.encode(with_images(pieces, reader.mark, iter(texts)))
        part = self.encoding.tokenizer.spell([token])
        counts = [text.count(part) for text in texts]
        names = chain.from_iterable(map(repeat, map(SHELF.keep, self.images), counts))
        image_segments = tuple(
            replace(segment, token_ids=tuple(next(names) if i == token else i for i in segment.token_ids))
            if segment.origin is Origin.TEMPLATE
            else segment
            for segment in segments
        )
        if (unused := sum(1 for _ in names)) or sum(i < 0 for s in image_segments for i in s.token_ids) != sum(counts):
            raise no_sight(self.encoding, f"its chat template leaves out {unused} of {sum(counts)} tokens of images")
        return image_segments


def with_images(pieces: Iterable[Piece], mark: str, texts: Iterator[str]) -> Iterator[Piece]:
    """The pieces, with the text of the next image in the place of every mark of the template."""
    for origin, text in pieces:
        if origin is not Origin.TEMPLATE:
            yield Piece(origin, text)
            continue
        first, *rest = text.split(mark)
        yield Piece(origin, "".join([first, *(next(texts, mark) + part for part in rest)]))


def require_sight(renderer: object) -> None:
    """Raises: ModelError E330 for a renderer or a model that has no place for an image."""
    encoding = getattr(renderer, "encoding", None)
    if not isinstance(renderer, Templated) or image_token(renderer.encoding.tokenizer.folder) is None:
        raise no_sight(encoding, f"its prompts, written by {type(renderer).__name__}, have no place for one")


def decode_images(renderer: object, images: Collection[Image]) -> None:
    """Decode images for a renderer, which keeps the last ones. Raises: as `require_sight` and `Sight.encode`."""
    require_sight(renderer)
    from gnomon.models.image_reader import reader_of

    reader = reader_of(renderer.encoding.tokenizer.folder)  # type: ignore[attr-defined]
    assert reader is not None
    for image in images:
        reader.read(image)


def no_sight(encoding: Encoding | None, why: str) -> ModelError:
    return ModelError(
        "E330", "the policy cannot see the images of the task",
        where=str(encoding.tokenizer.folder) if encoding else "", why=why,
        fix="use a model that sees, with its chat template and its preprocessor_config.json, and policy.renderer=auto",
    )  # fmt: skip
