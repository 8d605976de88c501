"""The images of prompts on their way to a worker: files that it reads, and the places of their tokens."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon.images import SHELF
from gnomon.models.folder import image_token

__all__ = ["Pictures", "sight_arguments"]

Seen = tuple[str, int, int]
"""The file of an image, the place of its first token in the prompt, and that behind its last one."""


class Pictures:
    """Args: model: the folder of the policy; folder: the one that takes the files."""

    def __init__(self, model: Path, folder: Path) -> None:
        self.model, self.folder, self._token = model, folder, image_token(model)
        self.ends = frozenset[int]() if self._token is None else frozenset({self._token})
        """Tokens that end a reply. vLLM would go on from the embedding of a sampled token of images, and the learner
        from another token's."""

    def split(self, prompt: Sequence[int]) -> tuple[array[int], list[Seen]]:
        """A prompt with the model's own token in the place of every part of an image, and its images.

        As in the passes of the learner, a token of this id that was sampled before is read as another one.
        Raises: as `ImageReader.images`.
        """
        if self._token is None:
            return array("i", prompt), []
        ids = array("i", [self._token if token < 0 else 0 if token == self._token else token for token in prompt])
        if min(prompt) >= 0:
            return ids, []
        # Imported where there is an image, because it needs transformers.
        from gnomon.models.image_reader import reader_of

        reader = reader_of(self.model)
        assert reader is not None
        return ids, [(self._file(name), first, end) for name, first, end in reader.images(prompt)]

    def _file(self, name: int) -> str:
        """The pixels of an image as the learner's processor reads them."""
        path = self.folder / f"image{name}.png"
        if not path.exists():
            fresh = path.with_suffix(".writing")
            SHELF.get(name).pixels().save(fresh, "PNG")
            fresh.replace(path)
        return str(path)


def sight_arguments(model: Path) -> dict[str, Any]:
    """Arguments of vLLM for a model that sees. Images reach it one by one, and each with its pixels."""
    if image_token(model) is None:
        return {}
    return {"mm_processor_cache_gb": 0, "limit_mm_per_prompt": {"image": 1, "video": 0}}
