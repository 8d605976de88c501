"""Images of a prompt as vLLM takes them, in the worker's environment. Imports Pillow and vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["Sight"]

RECENT = 64
"""Images whose inputs are kept: each rollout of a group asks again."""


class Sight:
    """Args: engine: vLLM's `AsyncLLM`."""

    def __init__(self, engine: Any) -> None:
        from transformers import AutoImageProcessor

        self._reader = engine.renderer.get_mm_processor()
        # The learner's one. That of torchvision makes other pixels of an image that it resizes.
        own = AutoImageProcessor.from_pretrained(engine.model_config.model, backend="pil", local_files_only=True)
        self._reader.info.get_hf_processor().image_processor = own

    def prompt(
        self, ids: Sequence[int], images: Sequence[tuple[str, int, int]], version: str, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A prompt with images, which vLLM takes as it is: no token is written anew.

        Args: images: file, place of the first token and place behind the last one; version: of the weights, since vLLM
            keeps features by the name of their image; more: options of the prompt.
        Raises: ValueError for an image to which vLLM gives another number of tokens.
        """
        import torch
        from vllm.multimodal.inputs import MultiModalKwargsItems, PlaceholderRange

        items, ranges = [], []
        for path, first, end in images:
            item, count = self._read(path)
            parts = torch.tensor(ids[first:end]) == ids[first]
            if count != int(parts.sum()):
                raise ValueError(f"an image has {int(parts.sum())} tokens in the prompt, and {count} in vLLM")
            items.append(item)
            ranges.append(PlaceholderRange(offset=first, length=end - first, is_embed=None if parts.all() else parts))
        return {
            "type": "multimodal",
            "prompt_token_ids": list(ids),
            "mm_kwargs": MultiModalKwargsItems({"image": items}),
            "mm_hashes": {"image": [f"{path}@{version}" for path, *_ in images]},
            "mm_placeholders": {"image": ranges},
            **more,
        }

    @lru_cache(maxsize=RECENT)  # noqa: B019 - a process has one.
    def _read(self, path: str) -> tuple[Any, int]:
        """What the model reads of an image, and its number of tokens."""
        from PIL import Image

        with Image.open(path) as picture:
            items = self._reader.info.parse_mm_data({"image": [picture.convert("RGB")]})
        output = self._reader(self._reader.dummy_inputs.get_dummy_text({"image": 1}), items)
        return output["mm_kwargs"]["image"][0], output["mm_placeholders"]["image"][0].get_num_embeds()
