"""Text to token ids and back, from the `tokenizer.json` of a model folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from shutil import copyfile

from tokenizers import AddedToken
from tokenizers import Tokenizer as Encoder

from gnomon.errors import ModelError
from gnomon.models.folder import table
from gnomon.models.vocabulary import copy_tokenizer, end_text, require_tokenizer

__all__ = ["Tokenizer"]

FILES = (
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json",
    "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
"""Files of a model folder that say how text and images become tokens."""


@lru_cache(maxsize=2)
def encoder(path: Path, changed: int, size: int) -> Encoder:
    """The encoder of a file, read once while it is as it was: one of 262,144 tokens takes more than 100 MiB.

    Args: changed, size: of the file.
    """
    return Encoder.from_file(str(path))


class Tokenizer:
    """The encoder of a model folder, with the ids that begin and end a text."""

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        require_tokenizer(folder)
        self.folder = folder
        try:
            changed = path.stat()
            self._encoder = encoder(path.resolve(), changed.st_mtime_ns, changed.st_size)
        except Exception as error:  # The library raises nothing more particular.
            raise ModelError(
                "E302", "tokenizer.json cannot be read", where=str(path), why=str(error), fix=copy_tokenizer(folder)
            ) from error
        config = table(folder / "config.json") | table(folder / "generation_config.json")
        eos, bos = config.get("eos_token_id"), config.get("bos_token_id")
        if eos is None:
            eos = self._encoder.token_to_id(end_text(folder))
        ends = eos if isinstance(eos, list) else [] if eos is None else [eos]
        for token in [*ends, *([] if bos is None else [bos])]:
            if type(token) is not int:
                why = f"{token!r} is not a token id"
                fix = "write the number of the token, or a list of numbers, in config.json and generation_config.json"
                raise ModelError(
                    "E303", "eos_token_id or bos_token_id cannot be read", where=str(folder), why=why, fix=fix
                )
        self.eos: frozenset[int] = frozenset(ends)
        self.bos: int | None = bos

    @property
    def added_tokens(self) -> dict[int, AddedToken]:
        """The tokens that are found in a text before it is encoded: markup, and words that are kept whole."""
        return dict(self._encoder.get_added_tokens_decoder())

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of the text alone; nothing is put before or after it."""
        return tuple(self._encoder.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without the tokens that end a sequence."""
        return self.spell(i for i in ids if i not in self.eos)

    def spell(self, ids: Iterable[int]) -> str:
        """The text of the ids, every token as it is written. Ids that name images have none."""
        return str(self._encoder.decode([i for i in ids if i >= 0], skip_special_tokens=False))

    def save(self, folder: Path) -> None:
        """Copy its files to another folder, and those of the image processor."""
        for name in FILES:
            if (self.folder / name).is_file():
                copyfile(self.folder / name, folder / name)
