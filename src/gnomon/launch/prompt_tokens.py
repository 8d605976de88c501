"""The prompt of a task as the tokens that a policy reads, before a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gnomon.config import RunConfig
from gnomon.envs.base import confined
from gnomon.envs.offers import tools
from gnomon.keys import Key
from gnomon.launch.find import make_env
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Segments, choose

__all__ = ["PromptTokens", "prompt_text", "prompt_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """The prompt of one task."""

    policy: str
    renderer: str
    """The format in which messages become tokens."""
    task: str
    """Its id."""
    segments: Segments
    tokens: tuple[tuple[str, ...], ...]
    """The text of every token of every segment."""
    ends: tuple[str, ...]
    """Texts of the tokens that end a reply."""

    @property
    def count(self) -> int:
        return sum(map(len, self.tokens))

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        pieces = zip(self.segments, self.tokens, strict=True)
        segments = [{"origin": s.origin.value, "token_ids": list(s.token_ids), "tokens": list(t)} for s, t in pieces]
        known = {"policy": self.policy, "renderer": self.renderer, "task": self.task, "count": self.count}
        return {**known, "ends": list(self.ends), "segments": segments}


def prompt_tokens(config: RunConfig, split: str = "train", index: int = 0) -> PromptTokens:
    """The first prompt of a task, token for token as a run with these settings begins it.

    Raises: IndexError for an index that the split does not have; as `choose`.
    """
    env = make_env(config.env)
    confined(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    task = env.tasks(split)[index]
    episode = env.start(task, Key(config.seed).at("preview"))
    try:
        segments = renderer.start(episode.messages, tools(env))
    finally:
        episode.close()
    return PromptTokens(
        policy=config.policy.path,
        renderer=type(renderer).__name__,
        task=task.id,
        segments=segments,
        tokens=tuple(tuple(tokenizer.spell([token]) for token in segment.token_ids) for segment in segments),
        ends=tuple(tokenizer.spell([token]) for token in sorted(renderer.stop)),
    )


def prompt_text(prompt: PromptTokens) -> str:
    """For a reader: one line per segment, with a bar between two tokens."""
    return "\n".join(lines(prompt))


def lines(prompt: PromptTokens) -> Iterator[str]:
    yield f"policy     {prompt.policy}, written by {prompt.renderer}"
    yield f"task       {prompt.task}, {prompt.count} tokens"
    yield f"ends at    {' '.join(prompt.ends) or 'rollout.stop or rollout.max_tokens: the tokenizer has no end token'}"
    for segment, tokens in zip(prompt.segments, prompt.tokens, strict=True):
        yield f"{segment.origin.value:<10} {'|'.join(map(escaped, tokens))}"


def escaped(token: str) -> str:
    """A token on one line."""
    return token.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
