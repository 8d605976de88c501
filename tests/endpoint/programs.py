"""Random programs that talk to a tree of recorded turns, and a policy that writes tokens no encoder would."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gnomon.agents.exchange import ChatRequest, reply_message
from gnomon.agents.tree import Node, Tree, sampling_key
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import ChatML, Qwen3, Renderer, Transcript
from gnomon.types import Completion, Finish, Message, Tool
from rendering.families import tokenizer_folder

ADD = Tool(name="add", description="Adds.")
WORDS = ["fox", "dog", " lazy", "the\n", "quick  brown", "é", " ", "<|im_end|>"]


def renderer_of(family: str, folder: Path) -> Renderer:
    tokenizer = Tokenizer(tokenizer_folder(folder / family, family))
    return Qwen3(tokenizer) if family == "qwen3" else ChatML(tokenizer)


def tree_of(renderer: Renderer) -> Tree:
    return Tree(partial(Transcript.begin, renderer))


def sampled(renderer: Renderer, rng: random.Random) -> Completion:
    """Words spelled letter by letter, now and then a call or a thought; ended by the end token, or truncated."""
    encoding = renderer.encoding  # type: ignore[attr-defined]
    control, ids = encoding.control, list[int]()
    if "<think>" in control and rng.random() < 0.4:
        ids += [control["<think>"], *spelled(encoding.tokenizer, "\nhm\n"), control["</think>"]]
    for _ in range(rng.randint(1, 3)):
        ids += spelled(encoding.tokenizer, rng.choice(WORDS[:-1]))
    for _ in range(rng.choice([0, 0, 1, 2])):
        arguments = rng.choice(['{"a":1,  "b": 1.50}', '{"b":"\\u00e9", "a": []}', "{}", '{"a": 1'])
        text = f'\n{{"name": "add", "arguments": {arguments}}}\n'
        ids += [control["<tool_call>"], *spelled(encoding.tokenizer, text), control["</tool_call>"]]
    ended = rng.random() < 0.8
    ids += [control["<|im_end|>"]] if ended else []
    return Completion(
        token_ids=tuple(ids),
        logprobs=tuple(-rng.random() for _ in ids),
        text=encoding.tokenizer.decode(ids),
        finish=Finish.EOS if ended else Finish.LENGTH,
        version=0,
    )


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """The text in one token for each byte."""
    return [token for sign in text for token in tokenizer.encode(sign)]


@dataclass
class Harness:
    """Extends, edits, compacts, spawns, repeats: a program with conversations, and what it has received."""

    renderer: Renderer
    rng: random.Random
    conversations: list[list[Message]] = field(default_factory=list)
    received: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree = tree_of(self.renderer)
        self.lost: list[Node] = []

    def call(self, messages: list[Message], *, tools: tuple[Tool, ...] = (ADD,), lose: bool = False) -> Node:
        """One call. The completion is a function of the draw's name."""
        prompt = self.tree.prompt(messages, tools)
        node = self.tree.draw(prompt)
        if node.completion is None:
            completion = sampled(self.renderer, sampling_key(Key(0), node).random())
            parsed = self.renderer.parse(completion.token_ids, prompt.token_ids)
            request = ChatRequest(messages=tuple(messages), tools=tools)
            name = f"{len(self.tree.nodes)}"
            reply, _, stop = reply_message(parsed, completion, name, request, False)
            self.tree.record(node, completion, reply, stop)
        if lose:
            self.lost.append(node)
        else:
            node.delivered = True
            self.received.append(node)
        return node

    def step(self) -> None:
        rng = self.rng
        action = rng.choice(["new", "extend", "extend", "extend", "edit", "compact", "spawn", "repeat", "lose"])
        if action == "new" or not self.conversations:
            system = Message(role="system", content=rng.choice(["a", "b"]))
            self.conversations.append([system, Message(role="user", content=rng.choice(WORDS))])
        at = rng.randrange(len(self.conversations))
        messages = list(self.conversations[at])
        if action == "edit" and (places := [i for i, m in enumerate(messages) if m.role == "assistant"]):
            place = rng.choice(places)
            messages[place] = replace(messages[place], content="edited", calls=(), reasoning=None)
        elif action == "compact" and len(messages) > 3:
            messages = [messages[0], Message(role="user", content="summary"), *messages[-2:]]
        elif action == "spawn":
            messages = [messages[0], Message(role="user", content=rng.choice(WORDS))]
            self.conversations.append(messages)
            at = len(self.conversations) - 1
        if messages[-1].role == "assistant":
            messages.append(Message(role="user", content=rng.choice(WORDS)))
        node = self.call(messages, lose=action == "lose")
        if action in ("lose", "repeat"):
            return
        assert node.reply is not None
        said = node.reply if rng.random() < 0.5 else replace(node.reply, reasoning=None)
        results = [Message(role="tool", content="3", call_id=call.id) for call in said.calls]
        self.conversations[at] = [*messages, said, *results]
