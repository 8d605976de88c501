"""Encode text by origin. Only text of the template can become control tokens."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from tokenizers import Tokenizer as Encoder

from gnomon.errors import ModelError
from gnomon.models.tokenizer import Tokenizer
from gnomon.reasoning import open_marker
from gnomon.rendering.base import Origin, Segment, Segments, joined

__all__ = ["Encoding", "Piece", "encoding_of", "whole"]


class Piece(NamedTuple):
    """A piece of text and its origin."""

    origin: Origin
    text: str


Stretch = tuple[Origin, list[int]]
LONGEST_MARKER = 64
"""Tokens at the end of a prompt that are searched for a reasoning marker."""
LARGEST = 2**32
"""Upper bound of token ids, which are unsigned 32-bit integers."""


class Encoding:
    """A tokenizer, and a copy of it without added tokens.

    Control tokens of the template are written by id. All other text is encoded by the copy, which treats the strings of
    added tokens (special or not) as ordinary characters.

    Args:
        words: added tokens that are ordinary words of the text, for a model without markup.
    """

    def __init__(self, tokenizer: Tokenizer, words: Iterable[str] = ()) -> None:
        self.tokenizer = tokenizer
        plain_words = frozenset(words)
        # Runs of blanks are added tokens in some families; they are not markup.
        self.control: dict[str, int] = {
            added.content: token_id
            for token_id, added in tokenizer.added_tokens.items()
            if added.content.strip("▁ \t\r\n") and added.content not in plain_words
        }
        self.ids = frozenset(self.control.values())
        longest_first = sorted(self.control, key=len, reverse=True)
        self._markup = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @cached_property
    def _view(self) -> tuple[Encoder, frozenset[int]]:
        """The encoder without control tokens, and the ids that it must not return: all of them except unknown's."""
        spec = json.loads((self.tokenizer.folder / "tokenizer.json").read_text(encoding="utf-8"))
        view = Encoder.from_str(json.dumps(_without(spec, frozenset(self.control), self.tokenizer)))
        return view, self.ids - {self.control.get(spec["model"].get("unk_token"), -1)}

    def encode(self, pieces: Iterable[Piece]) -> Segments:
        """The segments of the pieces in order.

        Text between two control tokens is encoded as a whole, as in the model's training. A token with characters of
        two origins gets the origin that is not the template.
        """
        parts: list[Stretch] = []
        run: list[Piece] = []
        for origin, text in pieces:
            if origin is not Origin.TEMPLATE:
                run.append(Piece(origin, whole(text)))
                continue
            position = 0
            for match in self._markup.finditer(text):
                parts += self._run([*run, Piece(origin, text[position : match.start()])])
                parts.append((origin, [self.control[match[0]]]))
                run, position = [], match.end()
            run.append(Piece(origin, text[position:]))
        parts += self._run(run)
        return tuple(
            Segment(origin=origin, token_ids=tuple(chain.from_iterable(ids for _, ids in stretches)))
            for origin, stretches in groupby(parts, key=itemgetter(0))
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, including control tokens. Ids outside the vocabulary are skipped."""
        return self.tokenizer.spell(token for token in token_ids if 0 <= token < LARGEST)

    def open_marker(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        """The ids of the reasoning marker with which a prompt ends; empty for a prompt that opens no reasoning."""
        marker = open_marker(self.decode(prompt_ids[-LONGEST_MARKER:]))
        return joined(self.encode([Piece(Origin.TEMPLATE, marker)])) if marker else ()

    def required_ids(self, *tokens: str) -> tuple[int, ...]:
        """The ids of required control tokens.

        Raises: ModelError E311 if the tokenizer lacks one.
        """
        missing = [token for token in tokens if token not in self.control]
        if missing:
            raise ModelError(
                "E311",
                f"the tokenizer has no token {', '.join(missing)}",
                where=str(self.tokenizer.folder),
                why="the renderer needs it to mark turns",
                fix="policy.renderer=auto selects the renderer by the folder; policy.renderer=plain needs no markup",
            )
        return tuple(self.control[token] for token in tokens)

    def _run(self, run: list[Piece]) -> Iterator[Stretch]:
        """The tokens of one run of plain text, grouped by origin."""
        pieces = [piece for piece in run if piece.text]
        view, forbidden = self._view
        encoded = view.encode("".join(piece.text for piece in pieces), add_special_tokens=False)
        ids = encoded.ids
        if not forbidden.isdisjoint(ids):
            raise AssertionError("a control token came out of plain text")
        if len(pieces) < 2:
            yield from [(pieces[0].origin, ids)] if ids else []
            return
        begins, ends = [begin for begin, _ in encoded.offsets], [end for _, end in encoded.offsets]
        index = start = 0
        for origin, text in pieces:
            start += len(text)
            if origin is not Origin.TEMPLATE:
                first = max(index, bisect_right(ends, start - len(text)))
                last = max(first, bisect_left(begins, start))
                yield from [(Origin.TEMPLATE, ids[index:first])] if index < first else []
                yield from [(origin, ids[first:last])] if first < last else []
                index = last
        yield from [(Origin.TEMPLATE, ids[index:])] if index < len(ids) else []


@lru_cache(maxsize=1)
def encoding_of(tokenizer: Tokenizer) -> Encoding:
    """The encoding without words, cached, for trying several renderers on one tokenizer."""
    return Encoding(tokenizer)


def whole(text: str) -> str:
    """The text with U+FFFD for each lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _vocabulary(spec: dict[str, Any]) -> dict[str, int]:
    vocab = spec["model"]["vocab"]
    return vocab if isinstance(vocab, dict) else {piece: index for index, (piece, _) in enumerate(vocab)}


def _without(spec: dict[str, Any], control: frozenset[str], tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer without these tokens: removed from added tokens, vocabulary and merges."""
    model = dict(spec["model"])
    inside = control.intersection(_vocabulary(spec)) - {model.get("unk_token")}
    if inside and not isinstance(model["vocab"], dict):
        raise ModelError(
            "E312",
            f"the {model['type']} vocabulary contains control tokens: {', '.join(sorted(inside)[:3])}",
            where=str(tokenizer.folder),
            why="the same characters in a task or tool output would be read as markup",
            fix="use a model whose tokenizer.json has the type BPE or WordLevel",
        )
    if inside:
        model["vocab"] = {token: token_id for token, token_id in model["vocab"].items() if token not in inside}
    if model.get("merges"):
        model["merges"] = [merge for merge in model["merges"] if not control.intersection(_result(merge))]
    words = [added for added in spec["added_tokens"] if added["content"] not in control]
    if isinstance(model["vocab"], dict):
        # An added token that is not in the vocabulary would get the first free id.
        model["vocab"] = model["vocab"] | {added["content"]: added["id"] for added in words}
    return spec | {"model": model, "added_tokens": words, "post_processor": None, "truncation": None, "padding": None}


def _result(merge: list[str] | str) -> tuple[str, str, str]:
    """Both parts of a merge and their result. None of them may be a control token."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right, left + right
