"""The image processor of a model folder: the text that stands for an image, and what the vision tower reads of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import transformers
from transformers import AutoImageProcessor, AutoTokenizer
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

from gnomon.errors import GnomonError, ModelError
from gnomon.images import SHELF, Image
from gnomon.models.folder import image_token, table

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ImageReader", "reader_of"]

TEXT = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids", "text_replacement_offsets")
"""What a processor returns beside the inputs of the vision tower."""


RECENT = 64
"""Images whose inputs are kept: each rollout of a group asks again."""
COUNTS = 2**16
"""Images whose number of tokens is kept."""


class ImageReader:
    """Transformers' processor of a model family, with the image processor that needs Pillow alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token_id = image_token(folder) or 0
        """Of the tokens in whose place the model puts the features of an image."""
        try:
            self._own = load_own(folder)
        except GnomonError:
            raise
        except Exception as error:  # A folder may hold anything.
            raise self._error(error) from error
        self._lock = Lock()
        """Its tokenizer can be used by one thread, and one large picture at a time fits into memory."""
        self.mark = str(self._own.image_token)
        """What a chat template writes for an image."""
        self._part = str(self._own.tokenizer.convert_ids_to_tokens(self.token_id))

    def text(self, image: Image) -> str:
        """What stands in the place of the mark. Raises: as `Image.pixels`; ModelError E331."""
        return self.read(image)[0]

    def inputs(self, image: Image) -> Mapping[str, Tensor]:
        """What the model takes for an image, by name. Raises: as `text`."""
        return self.read(image)[1]

    def images(self, ids: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """The images in the tokens of a prompt, in order: the id that names it, the place of its first token, and that
        behind its last one. Raises: RunError E441 for an image that this process does not have; as `text`."""
        indices = [index for index, token in enumerate(ids) if token < 0]
        while indices:
            name = ids[indices[0]]
            own, indices = indices[: self._count(name)], indices[self._count(name) :]
            yield name, own[0], own[-1] + 1

    @lru_cache(maxsize=COUNTS)  # noqa: B019 - a process has one or two of these objects, for its whole life.
    def _count(self, name: int) -> int:
        """Tokens of an image, by the id that names it."""
        return self.text(SHELF.get(name)).count(self._part)

    @lru_cache(maxsize=RECENT)  # noqa: B019
    def read(self, image: Image) -> tuple[str, Mapping[str, Tensor]]:
        """Text and inputs of an image. Raises: as `text`."""
        with self._lock:
            picture = image.pixels()
            try:
                output = self._own(
                    text=[self.mark], images=[picture], return_tensors="pt", return_text_replacement_offsets=True
                )
            except Exception as error:
                raise self._error(error) from error
        return output["text_replacement_offsets"][0][0]["replacement"], {
            name: value for name, value in output.items() if name not in TEXT
        }

    def _error(self, error: Exception) -> ModelError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return ModelError(
            "E331", "the image processor of the model fails", where=str(self.folder), why=reason,
            fix="use the folder of the model with its preprocessor_config.json, processor_config.json and tokenizer",
        )  # fmt: skip


@lru_cache(maxsize=2)
def reader_of(folder: Path) -> ImageReader | None:
    """The processor of a model folder; None for a model that does not see."""
    return ImageReader(folder) if image_token(folder) is not None else None


def load_own(folder: Path) -> Any:
    """Transformers' processor, without the parts for videos and sounds."""
    kind = getattr(transformers, PROCESSOR_MAPPING_NAMES[table(folder / "config.json")["model_type"]])
    module: Any = sys.modules[kind.__module__]
    if getattr(module, "num2words", kind) is None:
        module.num2words = str  # SmolVLM's processor asks for a package that only videos need.
    own = {"local_files_only": True, "trust_remote_code": False}
    parts = {
        "image_processor": AutoImageProcessor.from_pretrained(folder, backend="pil", **own),
        "tokenizer": AutoTokenizer.from_pretrained(folder, **own),
    }
    parameters = inspect.signature(kind.__init__).parameters
    values = {name: value for name, value in table(folder / "processor_config.json").items() if name in parameters}
    parts |= dict.fromkeys({"video_processor", "feature_extractor"} & parameters.keys())
    partial = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lambda *_: None})
    return partial(**values | parts)
