"""Read the images of a request. They travel in its body, and nothing is fetched."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from gnomon.agents.exchange import Refused
from gnomon.agents.fields import Body, entries, text_of
from gnomon.errors import ConfigError
from gnomon.images import OTHERS, Image

__all__ = ["content_of", "refused_image"]

KINDS = ("image_url", "input_image", "image")
"""Types of an image in chat completions, Responses and Messages."""


def content_of(content: Any) -> dict[str, Any]:
    """Text and images of a message, by the names that they have in `Message`. Raises: Refused."""
    if not isinstance(content, list):
        return {"content": text_of(content)}
    parts = entries(content, "content")
    texts = [part for part in parts if part.get("type") not in KINDS]
    return {"content": text_of(texts), "images": tuple(image_of(part) for part in parts if part.get("type") in KINDS)}


def image_of(part: Body) -> Image:
    """The image of a part. Raises: Refused."""
    match part:
        case {"image_url": {"url": str(url)} | str(url)} | {"source": {"url": str(url)}}:
            kind, _, text = url.partition(",")
            inline = kind.startswith("data:") and kind.endswith(";base64")
        case {"source": {"type": "base64", "data": str(text)}}:
            inline = True
        case _:
            inline = False
    if not inline:
        raise refused_image("images are not fetched; send it as base64 in the request", code="unsupported_image")
    try:
        data = b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise refused_image(f"it is not base64: {error}") from None
    try:
        return Image.of(data)
    except ConfigError as error:
        other = data.startswith(tuple(OTHERS))
        raise refused_image(error.why, code="unsupported_image" if other else "invalid_image") from None


def refused_image(why: str, code: str = "invalid_image") -> Refused:
    return Refused(f"an image cannot be used: {why}", code=code)
