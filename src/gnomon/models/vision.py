"""What a policy sees: the features of each image, and the inputs of passes with images.

A vision tower is frozen together with what projects its features. Then features never change, and all steps share them.
Those of a trained tower are computed in every pass, once for all its rows.
"""

from __future__ import annotations

import inspect
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnomon.images import SHELF, Image
from gnomon.models.folder import image_token
from gnomon.models.image_reader import ImageReader, reader_of

__all__ = ["Vision"]

MOST = 2**28
"""Bytes of features that are kept: those of the images that were used last."""
PARTS = ("pooler_output", "deepstack_features")
"""What of a vision tower's output the models of transformers read."""
TYPES = ("mm_token_type_ids", "token_type_ids")
"""What they call a mask of the tokens of images."""
BLANK = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAD0lEQVR42mNgGAWjgHwAAAJAAAHgTR1EAAAAAElFTkSuQmCC"
"""A PNG file of 64 x 64 pixels. It shows which parameters an image passes through."""


class Features(NamedTuple):
    """What the model reads of one image."""

    output: Any
    """Of the vision tower, projected, as `mm_encoder_outputs` has it."""
    grid: Tensor | None
    """[1, 3] the image's parts in time, height and width; None for a model that takes no grid."""


Known = OrderedDict[int, Features]
"""By the token id that names the image."""


class Vision:
    """The images of a policy's passes.

    Args: model: of transformers; folder: has the configuration of its image processor; trainable: whether the vision
        tower is.
    """

    def __init__(self, model: Any, folder: Path, *, trainable: bool = False) -> None:
        self.model, self.folder, self.trainable, self._token = model, folder, trainable, image_token(folder) or 0
        self._features: Known = OrderedDict()
        """Those of a frozen tower."""
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
        cache = Known() if self.trainable else self._features
        features = [self._of(name, cache) for row in ids.tolist() for name, *_ in self.reader.images(row)]
        inputs: dict[str, Any] = {
            "input_ids": ids.masked_fill(image_mask, self._token),
            "mm_encoder_outputs": {"image": join_outputs([each.output for each in features])},
        }
        grids = [each.grid for each in features if each.grid is not None]
        if grids:
            inputs["image_grid_thw"] = torch.cat(grids)
        return inputs | {name: image_mask.long() for name in TYPES if name in self._takes}

    def positions(self, inputs: dict[str, Any], mask: Tensor) -> tuple[Tensor, Tensor]:
        """[3, B, L] positions of the tokens of prompts, and [B, 1] what later tokens add to their index.

        Args: inputs: what `inputs` returns; mask: [B, L] whether a place has a token.
        """
        places, delta = self.model.base_model.get_rope_index(
            inputs["input_ids"],
            mm_token_type_ids=inputs.get(TYPES[0], torch.zeros_like(mask)),
            image_grid_thw=inputs.get("image_grid_thw"),
            attention_mask=mask,
        )
        return places, delta

    def blank(self) -> list[Tensor]:
        """The features of an empty image, with gradients."""
        return tensors_of(self._compute(Image.of(b64decode(BLANK))).output)

    def _of(self, name: int, cache: Known) -> Features:
        """The features of an image. Raises: as `inputs`."""
        if name not in cache:
            cache[name] = (self._compute if self.trainable else self._compute_frozen)(SHELF.get(name))
            while not self.trainable and len(cache) > 1 and sum(map(size_of, cache.values())) > MOST:
                cache.popitem(last=False)
        cache.move_to_end(name)
        return cache[name]

    @torch.inference_mode(False)
    @torch.no_grad()
    def _compute_frozen(self, image: Image) -> Features:
        return self._compute(image)

    def _compute(self, image: Image) -> Features:
        device = self.model.get_output_embeddings().weight.device
        with torch.inference_mode(False):  # They are kept, and a backward pass may read them.
            inputs = {key: value.to(device) for key, value in self.reader.inputs(image).items()}
        whole = self.model.base_model.get_image_features(**inputs, return_dict=True)
        output = type(whole)(**{part: whole[part] for part in PARTS if whole.get(part) is not None})
        return Features(output, inputs.get("image_grid_thw"))


def join_outputs(outputs: Sequence[Any]) -> Any:
    """The output of a vision tower for several images, from its output for each."""
    pooled, layers = ([out[part] for out in outputs if part in out] for part in PARTS)
    values: dict[str, Any] = {
        PARTS[0]: torch.cat(pooled) if isinstance(pooled[0], Tensor) else [part for each in pooled for part in each]
    }
    if layers:
        values[PARTS[1]] = [[part for each in layer for part in each] for layer in zip(*layers, strict=True)]
    return type(outputs[0])(**values)


def size_of(features: Features) -> int:
    """In bytes."""
    return sum(value.nbytes for value in tensors_of(features.output))


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors in a value."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, list | tuple) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]
