"""A user's note on a run and its tags, in a separate file beside the records.

Nothing that a run records or verifies depends on the file. It can be changed by hand and deleted.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["NOTE", "Note", "note_of", "write_note"]

NOTE = "note.json"
LONGEST = 10_000
"""Characters of a note."""
TAG = 40
"""Characters of a tag."""
TAGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note on a run. Falsy if nothing is written."""

    text: str = ""
    tags: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.tags)

    @classmethod
    def of(cls, text: object, tags: Sequence[object]) -> Note:
        """A note within the limits, without surrounding spaces and repeated tags."""
        words = (" ".join(str(tag).split())[:TAG] for tag in tags)
        distinct = tuple(dict.fromkeys(word for word in words if word))[:TAGS]
        return cls(text=str(text).replace("\r\n", "\n").strip()[:LONGEST], tags=distinct)


def note_of(folder: Path) -> Note:
    """The note on the run in a folder; empty if there is none or it cannot be read."""
    try:
        body = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        return Note.of(body.get("text", ""), body.get("tags", ()))
    except (OSError, ValueError, AttributeError, TypeError):
        return Note()


def write_note(folder: Path, note: Note) -> None:
    """Replace the note; an empty one deletes the file. Raises: OSError."""
    if not note:
        (folder / NOTE).unlink(missing_ok=True)
        return
    text = json.dumps(asdict(note), ensure_ascii=True, indent=1)
    fresh = folder / f".{NOTE}.{secrets.token_hex(4)}"
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(folder / NOTE)
