"""Logs of Inspect 0.3: `.eval` files, which are ZIP archives with a JSON file for each sample.

Recent logs are compressed with Zstandard, which `zipfile` reads from Python 3.14 on; before that, the package
`zstandard` is needed. Older logs are compressed with deflate. All rollouts are those of an evaluation. The first score
is the reward: `C` is 1, `P` 0.5 and `I` and `N` 0, as Inspect counts them.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from gnomon.errors import ResourceError
from gnomon.integrations.imports.files import Options, Row, files, require, unreadable
from gnomon.integrations.imports.rollout import Foreign, messages_of, number, parts_of, single_turn, task_of, turns_of

__all__ = ["read"]

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
ATTACHMENT = "attachment://"


def read(source: Path, options: Options) -> Iterator[Foreign]:
    """The samples of one log, or of all logs below a folder: the first is the evaluation at step 0, and so on."""
    for step, path in enumerate(files(source, "*.eval")):
        try:
            with ZipFile(path) as archive, path.open("rb") as file:
                for member in archive.infolist():
                    if member.filename.startswith("samples/") and member.filename.endswith(".json"):
                        address = f"{path.name}:{member.filename}"
                        yield sample(json.loads(content(archive, file, member)), address, step, options)
        except (BadZipFile, ValueError, struct.error, RecursionError) as error:
            raise unreadable(str(path), str(error)) from error


def content(archive: ZipFile, file: io.BufferedReader, member: ZipInfo) -> bytes:
    """A member of an archive. Raises: ResourceError E505 where the package zstandard is needed and missing."""
    try:
        return archive.read(member)
    except NotImplementedError:
        if find_spec("zstandard") is None:
            raise ResourceError(
                "E505", "reading this log needs the package zstandard", where=str(archive.filename),
                fix='pip install "gnomon[inspect]"',
            ) from None  # fmt: skip
    import zstandard

    file.seek(member.header_offset)
    name, extra = struct.unpack("<HH", file.read(30)[26:])
    file.seek(name + extra, io.SEEK_CUR)
    packed = io.BytesIO(file.read(member.compress_size))
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
        return bytes(reader.read())


def sample(row: Row, address: str, step: int, options: Options) -> Foreign:
    """A sample: the conversation up to its last reply, its scores, and the error that ended it."""
    row = resolve(row, row.get("attachments") or {})
    prompt_messages = messages_of(require(row, "prompt", options, address, "input"), "user")
    reply = messages_of(require(row, "reply", options, address, "messages"), "user")
    finish = next((choice.get("stop_reason") for choice in (row.get("output") or {}).get("choices", ())), None)
    prompt, turns = turns_of(reply, finish)
    scores = {name: value(score) for name, score in (row.get("scores") or {}).items()}
    first = next(iter(scores), "")
    error = row.get("error")
    return Foreign(
        task=task_of(prompt or prompt_messages, row.get("target"), str(row.get("id", ""))),
        turns=turns or single_turn(prompt_messages, "", finish=finish),
        source=address,
        step=step,
        held_out=True,
        reward=scores.get(first),
        parts=parts_of(scores.items(), {name: float(name == first) for name in scores}),
        values=scores,
        failed=str(error.get("message", error)).partition("\n")[0] if isinstance(error, Mapping) else "",
    )


def value(score: Any) -> float | None:
    """The value of a score as a number; None for one that is a text or a table."""
    raw = score.get("value") if isinstance(score, Mapping) else score
    return LETTERS.get(raw) if isinstance(raw, str) else number(raw)


def resolve(node: Any, attachments: Mapping[str, str]) -> Any:
    """Nested values with the text of an attachment where its address stands."""
    if isinstance(node, str) and node.startswith(ATTACHMENT):
        return attachments.get(node.removeprefix(ATTACHMENT), node)
    if isinstance(node, Mapping):
        return {key: each if key == "attachments" else resolve(each, attachments) for key, each in node.items()}
    return [resolve(each, attachments) for each in node] if isinstance(node, list) else node
