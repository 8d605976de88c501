"""A tokenizer.json restricted to some of its tokens, so that what was encoded with these tokens still is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from gnomon.errors import ModelError

__all__ = ["needed_ids", "restrict"]

ALPHABET = 512
"""Single characters below this code are kept: ASCII, and those that stand for bytes in a byte-level vocabulary."""
Pair = tuple[str, str]


def needed_ids(tokenizer: Mapping[str, Any], used: Collection[int]) -> list[int]:
    """The ids to keep, in order: those used, what they are merged from, every byte, and tokens that mark or stand in.

    Args: tokenizer: content of a tokenizer.json; used: ids that texts were encoded to, and that mark their parts.
    Raises: ModelError E327 for a vocabulary that is neither BPE nor one of words.
    """
    table = vocabulary(tokenizer)
    names = {token_id: token for token, token_id in table.items()}
    ranks = {pair: rank for rank, pair in enumerate(merges(tokenizer))}
    tokens = {token for token in table if len(token) == 1 and ord(token) < ALPHABET}
    tokens |= {token for token in table if len(token) == 6 and token.startswith("<0x") and token.endswith(">")}
    unknown = tokenizer["model"].get("unk_token")
    tokens |= {unknown} & table.keys()
    for token_id in used:
        if token_id in names:
            tokens.update(token for token in merge_path(names[token_id], ranks) if token in table)
    return sorted({table[token] for token in tokens} | set(used))


def merge_path(token: str, ranks: Mapping[Pair, int]) -> Iterator[str]:
    """The token, and all that its characters are merged to on the way to it.

    These merges are the ones that every text takes which has the token: none of its neighbours took part in one.
    """
    parts = list(token)
    yield from (token, *parts)
    while len(parts) > 1:
        pairs = [(ranks.get(pair, len(ranks)), index) for index, pair in enumerate(pairwise(parts))]
        rank, index = min(pairs)
        if rank == len(ranks):
            return  # An added token, or one that stands in the vocabulary alone.
        parts[index : index + 2] = [parts[index] + parts[index + 1]]
        yield parts[index]


def restrict(tokenizer: Mapping[str, Any], ids: Collection[int]) -> dict[str, Any]:
    """The same tokenizer with these tokens alone, numbered from 0 in their order."""
    new = {old: token_id for token_id, old in enumerate(sorted(ids))}
    table = {token: new[token_id] for token, token_id in vocabulary(tokenizer).items() if token_id in new}
    pairs = [list(pair) for pair in merges(tokenizer) if {*pair, "".join(pair)} <= table.keys()]
    model = {**tokenizer["model"], "vocab": table, **({"merges": pairs} if "merges" in tokenizer["model"] else {})}
    added = [{**entry, "id": new[entry["id"]]} for entry in tokenizer.get("added_tokens") or () if entry["id"] in new]
    after = renumber(tokenizer.get("post_processor"), new)
    return {**tokenizer, "model": model, "added_tokens": added, "post_processor": after}


def renumber(post: Any, new: Mapping[int, int]) -> Any:
    """What puts marks around a text, with their new ids; nothing where a mark is no longer there."""
    if not post or post["type"] == "ByteLevel":
        return post
    if post["type"] == "Sequence":
        parts = [part for each in post["processors"] if (part := renumber(each, new))]
        return {**post, "processors": parts} if parts else None
    marks = post.get("special_tokens", {}).values() if post["type"] == "TemplateProcessing" else [{"ids": [-1]}]
    if any(token_id not in new for mark in marks for token_id in mark["ids"]):
        return None
    special = post["special_tokens"]
    return {**post, "special_tokens": {k: {**m, "ids": [new[i] for i in m["ids"]]} for k, m in special.items()}}


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
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in tokenizer["model"].get("merges") or ())
    return [(left, right) for left, right in pairs]
