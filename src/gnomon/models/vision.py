"""What a policy sees: the features of each image, computed once, and the inputs of passes with images.

The vision tower and what projects its features are not trained. So features never change, and all rollouts of a group
and all steps share them.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnomon.images import SHELF
from gnomon.models.folder import image_token
from gnomon.models.image_reader import ImageReader, reader_of

__all__ = ["Vision"]

MOST = 2**28
"""Bytes of features that are kept: those of the images that were used last."""
PARTS = ("pooler_output", "deepstack_features")
"""What of a vision tower's output the models of transformers read."""
TYPES = ("mm_token_type_ids", "token_type_ids")
"""What they call a mask of the tokens of images."""


class Features(NamedTuple):
    """What the model reads of one image."""

    output: Any
    """Of the vision tower, projected, as `mm_encoder_outputs` has it."""
    grid: Tensor | None
    """[1, 3] the image's parts in time, height and width; None for a model that takes no grid."""
    tokens: int


class Vision:
    """The images of a policy's passes.

    Args: model: of transformers; folder: has the configuration of its image processor.
    """

    def __init__(self, model: Any, folder: Path) -> None:
        self.model, self.folder, self._token = model, folder, image_token(folder) or 0
        self._features: OrderedDict[int, Features] = OrderedDict()
        """By the token id that names the image."""
        self._takes = frozenset(inspect.signature(type(model).forward).parameters)

    @property
    def reader(self) -> ImageReader:
        reader = reader_of(self.folder)
        assert reader is not None
        return reader

    @property
    def in_grid(self) -> bool:
        """Whether the parts of an image have positions in a grid, so that a later token's is not its index."""
        return hasattr(self.model.base_model, "get_rope_index")

    def inputs(self, ids: Tensor) -> dict[str, Any]:
        """What the model takes for tokens [B, L] of which some name images; `input_ids` alone where none does.

        Raises: RunError E441 for an image that this process does not have; as `Image.pixels`.
        """
        image_mask = ids < 0
        # The token of an image that a policy samples would take the place of a feature. It is read as another token.
        ids = ids.masked_fill(ids == self._token, 0)
        if not bool(image_mask.any()):
            return {"input_ids": ids}
        features = [self.of(name) for row in ids.tolist() for name in self._images(row)]
        inputs: dict[str, Any] = {
            "input_ids": ids.masked_fill(image_mask, self._token),
            "mm_encoder_outputs": {"image": joined([each.output for each in features])},
        }
        grids = [each.grid for each in features if each.grid is not None]
        if grids:
            inputs["image_grid_thw"] = torch.cat(grids)
        return inputs | {name: image_mask.long() for name in TYPES if name in self._takes}

    def positions(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[3, B, L] positions of the tokens of prompts, and [B, 1] what later tokens add to their index.

        Args: ids: as of `inputs`; mask: [B, L] whether a place has a token.
        """
        inputs = self.inputs(ids)
        places, delta = self.model.base_model.get_rope_index(
            inputs["input_ids"],
            mm_token_type_ids=inputs.get(TYPES[0], torch.zeros_like(ids)),
            image_grid_thw=inputs.get("image_grid_thw"),
            attention_mask=mask,
        )
        return places, delta

    def _images(self, row: Sequence[int]) -> Iterator[int]:
        """The images in a row of tokens, in order. An image has as many tokens as it has features."""
        remaining = 0
        for token in row:
            if token < 0 and not remaining:
                remaining = self.of(token).tokens
                yield token
            remaining -= token < 0

    def of(self, name: int) -> Features:
        """The features of an image. Raises: as `inputs`."""
        if name not in self._features:
            self._features[name] = self._computed(name)
            while len(self._features) > 1 and sum(size_of(each.output) for each in self._features.values()) > MOST:
                self._features.popitem(last=False)
        self._features.move_to_end(name)
        return self._features[name]

    @torch.inference_mode(False)
    @torch.no_grad()
    def _computed(self, name: int) -> Features:
        device = self.model.get_output_embeddings().weight.device
        inputs = {key: value.to(device) for key, value in self.reader.inputs(SHELF.get(name)).items()}
        whole = self.model.base_model.get_image_features(**inputs, return_dict=True)
        output = type(whole)(**{part: whole[part] for part in PARTS if whole.get(part) is not None})
        tokens = sum(part.shape[:-1].numel() for part in output["pooler_output"])
        return Features(output, inputs.get("image_grid_thw"), tokens)


def joined(outputs: Sequence[Any]) -> Any:
    """The output of a vision tower for several images, from its output for each."""
    pooled, layers = ([out[part] for out in outputs if part in out] for part in PARTS)
    values: dict[str, Any] = {
        PARTS[0]: torch.cat(pooled) if isinstance(pooled[0], Tensor) else [part for each in pooled for part in each]
    }
    if layers:
        values[PARTS[1]] = [[part for each in layer for part in each] for layer in zip(*layers, strict=True)]
    return type(outputs[0])(**values)


def size_of(value: Any) -> int:
    """Bytes of the tensors in a value."""
    if isinstance(value, Tensor):
        return value.nbytes
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, list | tuple) else ()
    return sum(map(size_of, parts))
