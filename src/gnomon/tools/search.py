"""Search a corpus on the host: the passages with the highest BM25 scores."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gnomon.errors import ConfigError
from gnomon.tools.base import Stateless, text_argument

__all__ = ["Index", "Passage", "SearchTool", "index"]

K1, B = 1.2, 0.75
WORDS = re.compile(r"\w+")
ASKED = 64
"""Largest number of words of a query that are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text with its name."""

    title: str
    text: str


class Index:
    """Passages and the words in them.

    Equation: Σ_w ln(1 + (N − n_w + ½)/(n_w + ½)) · f_w (k₁ + 1) / (f_w + k₁ (1 − b + b·|d| / mean |d|)).
    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond"; k₁ = 1.2, b = 0.75.
    """

    def __init__(self, passages: list[Passage]) -> None:
        self.passages = passages
        self.postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._length: list[int] = []
        for i, passage in enumerate(passages):
            words = split(f"{passage.title} {passage.text}")
            self._length.append(len(words))
            for word, count in Counter(words).items():
                self.postings[word].append((i, count))
        self._mean = sum(self._length) / max(1, len(passages)) or 1.0

    def best(self, query: str, count: int) -> list[Passage]:
        """The at most `count` passages with the highest scores. Ties keep the order of the corpus."""
        scores: Counter[int] = Counter()
        for word in dict.fromkeys(split(query)[:ASKED]):
            postings = self.postings.get(word, [])
            rarity = math.log(1 + (len(self.passages) - len(postings) + 0.5) / (len(postings) + 0.5))
            for i, times in postings:
                norm = K1 * (1 - B + B * self._length[i] / self._mean)
                scores[i] += rarity * times * (K1 + 1) / (times + norm)  # type: ignore[assignment]
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [self.passages[i] for i, _ in ranked[:count]]


def split(text: str) -> list[str]:
    return WORDS.findall(text.casefold())


@lru_cache(maxsize=8)
def index(corpus: str) -> Index:
    """The index of a folder of text files, split at blank lines, or of a JSON Lines file with `text` and `title`.

    Raises: ConfigError E160 if there is nothing to read.
    """
    path = Path(corpus)
    try:
        passages = list(of_folder(path) if path.is_dir() else of_lines(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(corpus, f"{type(error).__name__}: {error}") from error
    if not passages:
        raise unreadable(corpus, "it contains no passages")
    return Index(passages)


def of_folder(folder: Path) -> Iterator[Passage]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".txt", ".md", ".rst") and path.is_file():
            for part in re.split(r"\n\s*\n", path.read_text("utf-8", errors="replace")):
                if part.strip():
                    yield Passage(title=str(path.relative_to(folder)), text=part.strip())


def of_lines(path: Path) -> Iterator[Passage]:
    with path.open(encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            row = json.loads(line)
            yield Passage(title=str(row.get("title", "")), text=str(row["text"]))


def unreadable(corpus: str, why: str) -> ConfigError:
    return ConfigError(
        "E160",
        "the corpus cannot be searched",
        where=corpus,
        why=why,
        fix='use a folder of .txt and .md files, or a file with lines such as {"title": "...", "text": "..."}',
    )


@dataclass(frozen=True, kw_only=True)
class SearchTool(Stateless):
    """Finds passages in a local corpus."""

    corpus: str
    """A folder of .txt, .md and .rst files, or a file with one JSON object per line."""
    count: int = 3
    """Number of passages in a result."""
    characters: int = 600
    """Number of characters of a passage, from its beginning."""
    name: str = "search"
    description: str = "The passages of a collection of texts that fit a query best."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("query", "a few words"))

    def prepare(self) -> None:
        index(self.corpus)

    def call(self, arguments: Mapping[str, Any]) -> str:
        passages = index(self.corpus).best(arguments["query"], self.count)
        return "\n\n".join(f"[{each.title}] {each.text[: self.characters]}" for each in passages) or "nothing found"
