"""A tokenizer.json restricted to some of its tokens, so that what was encoded with these tokens still is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from gnomon.errors import ModelError

__all__ = ["needed", "restricted"]

ALPHABET = 512
"""Single characters below this code are kept: ASCII, and those that stand for bytes in a byte-level vocabulary."""
Pair = tuple[str, str]


def needed(tokenizer: Mapping[str, Any], used: Collection[int]) -> list[int]:
    """The ids to keep, in order: those used, what they are merged from, every byte, and tokens that mark or stand in.

    Args: tokenizer: content of a tokenizer.json; used: ids that texts were encoded to, and that mark their parts.
    Raises: ModelError E327 for a vocabulary that is neither BPE nor one of words.
    """
    table = vocabulary(tokenizer)
    names = {place: token for token, place in table.items()}
    ranks = {pair: rank for rank, pair in enumerate(merges(tokenizer))}
    kept = {token for token in table if len(token) == 1 and ord(token) < ALPHABET}
    kept |= {token for token in table if len(token) == 6 and token.startswith("<0x") and token.endswith(">")}
    unknown = tokenizer["model"].get("unk_token")
    kept |= {unknown} & table.keys()
    for place in used:
        if place in names:
            kept.update(token for token in built(names[place], ranks) if token in table)
    return sorted({table[token] for token in kept} | set(used))


def built(token: str, ranks: Mapping[Pair, int]) -> Iterator[str]:
    """The token, and all that its characters are merged to on the way to it.

    These merges are the ones that every text takes which has the token: none of its neighbours took part in one.
    """
    parts = list(token)
    yield from (token, *parts)
    while len(parts) > 1:
        pairs = [(ranks.get(pair, len(ranks)), place) for place, pair in enumerate(pairwise(parts))]
        rank, place = min(pairs)
        if rank == len(ranks):
            return  # An added token, or one that stands in the vocabulary alone.
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
        yield parts[place]


def restricted(tokenizer: Mapping[str, Any], kept: Collection[int]) -> dict[str, Any]:
    """The same tokenizer with these tokens alone, numbered from 0 in their order."""
    new = {old: place for place, old in enumerate(sorted(kept))}
    table = {token: new[place] for token, place in vocabulary(tokenizer).items() if place in new}
    pairs = [list(pair) for pair in merges(tokenizer) if {*pair, "".join(pair)} <= table.keys()]
    model = {**tokenizer["model"], "vocab": table, **({"merges": pairs} if "merges" in tokenizer["model"] else {})}
    added = [{**entry, "id": new[entry["id"]]} for entry in tokenizer.get("added_tokens") or () if entry["id"] in new]
    after = renumbered(tokenizer.get("post_processor"), new)
    return {**tokenizer, "model": model, "added_tokens": added, "post_processor": after}


def renumbered(post: Any, new: Mapping[int, int]) -> Any:
    """What puts marks around a text, with their new ids; nothing where a mark is no longer there."""
    if not post or post["type"] == "ByteLevel":
        return post
    if post["type"] == "Sequence":
        parts = [part for each in post["processors"] if (part := renumbered(each, new))]
        return {**post, "processors": parts} if parts else None
    marks = post.get("special_tokens", {}).values() if post["type"] == "TemplateProcessing" else [{"ids": [-1]}]
    if any(place not in new for mark in marks for place in mark["ids"]):
        return None
    known = post["special_tokens"]
    return {**post, "special_tokens": {k: {**m, "ids": [new[i] for i in m["ids"]]} for k, m in known.items()}}


def vocabulary(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Ids by token. Raises: ModelError E327."""
    model = tokenizer["model"]
    if model.get("type") not in ("BPE", "WordLevel"):
        raise ModelError(
            "E327",
            f"a vocabulary of the type {model.get('type')} cannot be trimmed",
            where="tokenizer.json",
            why="only BPE and WordLevel are known to encode a text as before when other tokens are taken away",
            fix="use the whole vocabulary",
        )
    return dict(model["vocab"])


def merges(tokenizer: Mapping[str, Any]) -> list[Pair]:
    """Pairs of tokens that become one, the first first."""
    found = (pair.split(" ") if isinstance(pair, str) else pair for pair in tokenizer["model"].get("merges") or ())
    return [(left, right) for left, right in found]
