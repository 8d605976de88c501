"""Requests as a tree of recorded turns: what is sampled and delivered is trained once, by the sampled tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from endpoint.programs import ADD, Harness, renderer_of, sampled, tree_of
from gnomon.agents.exchange import ChatRequest, in_call_order, reply_message
from gnomon.agents.tree import Node, Tree
from gnomon.rendering import Renderer
from gnomon.rollout.packing import sequences
from gnomon.store.codec import decode, encode
from gnomon.types import Completion, Finish, Group, Message, Part, Rollout, Status, Stop, Task, ToolCall, Turn, Verdict

FAMILIES = ("chatml", "qwen3")
VERDICT = Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=1.0),))
SYSTEM, ASKED = Message(role="system", content="s"), Message(role="user", content="q")


@pytest.fixture(scope="module", params=FAMILIES)
def renderer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return renderer_of(request.param, tmp_path_factory.mktemp("family"))


def rollout_of(turns: tuple[Turn, ...]) -> Rollout:
    task = Task(id="0", messages=(), answer=None)
    return Rollout(task=task, sample=0, turns=turns, verdict=VERDICT, stop=Stop.DONE)


def answered(tree: Tree, renderer: Renderer, text: str, *messages: Message, stop: tuple[str, ...] = ()) -> Node:
    """A call whose reply is this text, delivered."""
    encoding = renderer.encoding  # type: ignore[attr-defined]
    node = tree.draw(tree.prompt(messages, (ADD,)))
    ids = [i for sign in text for i in encoding.tokenizer.encode(sign)] + [encoding.control["<|im_end|>"]] * (not stop)
    finish = Finish.STOP if stop else Finish.EOS
    done = Completion(token_ids=tuple(ids), logprobs=(0.0,) * len(ids), text=text, finish=finish, version=0)
    request = ChatRequest(messages=messages, tools=(ADD,), stop=stop)
    reply, _, stopped = reply_message(renderer.parse(ids, node.prompt.token_ids), done, "00", request, False)
    tree.record(node, done, reply, stopped)
    node.delivered = True
    return node


@pytest.mark.every
@pytest.mark.parametrize("seed", range(40))
def test_of_random_trees_every_delivered_token_is_trained_once(renderer: Renderer, seed: int):
    harness = Harness(renderer, random.Random(seed))
    for _ in range(25):
        harness.step()
    delivered = {id(node): node for node in harness.tree.nodes if node.delivered}
    assert all(id(node) in delivered for node in harness.received)
    turns = harness.tree.turns()
    assert sorted(id(turn.completion) for turn in turns) == sorted(id(n.completion) for n in delivered.values())
    rollout = rollout_of(turns)
    trained = list(sequences(rollout, number=0, group=0))
    wanted = sorted(p for n in delivered.values() for p in n.completion.logprobs)  # type: ignore[union-attr]
    assert sorted(p for sequence in trained for p in sequence.behavior_logp.tolist()) == wanted
    for sequence in trained:
        chosen = sequence.token_ids[sequence.trainable].tolist()
        places = sequence.turn.unique().tolist()
        assert chosen == [token for place in places for token in turns[place].completion.token_ids]
    (group,) = decode(list(encode(Group(task=rollout.task, index=0, rollouts=(rollout,)), kind="rollout", step=0)))
    assert group.rollouts[0].turns == turns
    for node in delivered.values():
        if node.prompt.continues:
            parent = node.prompt.parent
            assert parent is not None and parent.completion is not None
            seen = parent.prompt.token_ids + parent.completion.token_ids
            assert node.prompt.token_ids[: len(seen)] == seen


def test_arrival_order_changes_nothing(renderer: Renderer):
    """Three conversations of two calls each, two of them with the same first request, in every order."""
    found = set()
    for order in sorted(set(permutations([0, 0, 1, 1, 2, 2])))[::6]:
        harness = Harness(renderer, random.Random(0))
        histories = [[SYSTEM, Message(role="user", content=word)] for word in ("x", "y", "z")]
        for place in order:
            node = harness.call(histories[place])
            assert node.reply is not None
            histories[place] = [*histories[place], node.reply, ASKED]
        found.add(harness.tree.turns())
    assert len(found) == 1


def test_what_was_not_received_is_served_again_and_trained_once(renderer: Renderer):
    harness = Harness(renderer, random.Random(0))
    lost = harness.call([SYSTEM, ASKED], lose=True)
    assert harness.tree.turns() == ()
    again = harness.call([SYSTEM, ASKED])
    assert again is lost and len(harness.tree.turns()) == 1
    other = harness.call([SYSTEM, ASKED])
    assert other is not lost and other.completion != lost.completion and len(harness.tree.turns()) == 2


def test_a_marked_retry_gets_the_same_completion_also_after_delivery(renderer: Renderer):
    harness = Harness(renderer, random.Random(0))
    node = harness.call([SYSTEM, ASKED])
    assert harness.tree.draw(harness.tree.prompt([SYSTEM, ASKED], (ADD,)), retry=True) is node


def test_an_equal_request_during_another_is_a_draw_of_its_own(renderer: Renderer):
    tree = tree_of(renderer)
    first = tree.draw(tree.prompt([SYSTEM, ASKED]))
    first.waiting = 1
    second = tree.draw(tree.prompt([SYSTEM, ASKED]))
    second.waiting = 1
    assert (first.number, second.number) == (0, 1)
    assert tree.draw(tree.prompt([SYSTEM, ASKED]), retry=True) is first


@pytest.mark.parametrize(
    "arguments", ['{"b": 1.5, "a": "é"}', '{"a":"\\u00e9","b":1.50}', '{"a":0, "a":"é","b":15e-1}']
)
def test_arguments_are_compared_as_values(renderer: Renderer, arguments: str):
    tree = tree_of(renderer)
    text = '<tool_call>\n{"name": "add", "arguments": {"a": "é",   "b": 1.50}}\n</tool_call>'
    encoding = renderer.encoding  # type: ignore[attr-defined]
    node = tree.draw(tree.prompt([SYSTEM, ASKED], (ADD,)))
    begin, end = encoding.control["<tool_call>"], encoding.control["</tool_call>"]
    inner = encoding.tokenizer.encode(text[len("<tool_call>") : -len("</tool_call>")])
    ids = (begin, *inner, end, encoding.control["<|im_end|>"])
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), text=text, finish=Finish.EOS, version=0)
    request = ChatRequest(messages=(SYSTEM, ASKED), tools=(ADD,))
    reply, finish, _ = reply_message(renderer.parse(ids), done, "00", request, False)
    assert finish == "tool_calls" and reply.calls[0].arguments == '{"a": "é",   "b": 1.50}'
    tree.record(node, done, reply)
    echoed = replace(reply, calls=(ToolCall(id="other", name="add", arguments=arguments),))
    prompt = tree.prompt([SYSTEM, ASKED, echoed, Message(role="tool", content="2", call_id="other")], (ADD,))
    assert prompt.parent is node and prompt.token_ids[: len(node.prompt.token_ids) + len(ids)][-len(ids) :] == ids


def test_reasoning_may_be_left_out_and_not_altered(tmp_path: Path):
    renderer = renderer_of("qwen3", tmp_path)
    tree = tree_of(renderer)
    encoding = renderer.encoding  # type: ignore[attr-defined]
    node = tree.draw(tree.prompt([SYSTEM, ASKED]))
    think = [encoding.control["<think>"], *encoding.tokenizer.encode("\nhm\n"), encoding.control["</think>"]]
    ids = (*think, *encoding.tokenizer.encode("\n\nyes"), encoding.control["<|im_end|>"])
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), text="", finish=Finish.EOS, version=0)
    request = ChatRequest(messages=(SYSTEM, ASKED))
    reply, _, _ = reply_message(renderer.parse(ids), done, "00", request, False)
    assert (reply.reasoning, reply.content) == ("hm", "yes")
    tree.record(node, done, reply)
    result = Message(role="tool", content="2")
    for reasoning, extends in (("hm", True), (None, True), ("other", False)):
        prompt = tree.prompt([SYSTEM, ASKED, replace(reply, reasoning=reasoning), result])
        assert (prompt.parent is node) is extends
    # The template removes the reasoning when a user message follows: the same turn extended, by another sequence.
    later = tree.prompt([SYSTEM, ASKED, reply, ASKED])
    assert later.parent is node and not later.continues


@pytest.mark.parametrize("echo", ["code", "code</code>", " code\n"])
def test_a_stop_string_may_be_written_back(renderer: Renderer, echo: str):
    tree = tree_of(renderer)
    node = answered(tree, renderer, "code</code>", SYSTEM, ASKED, stop=("</code>",))
    assert node.reply is not None and node.reply.content == "code"
    prompt = tree.prompt([SYSTEM, ASKED, replace(node.reply, content=echo), ASKED], (ADD,))
    assert prompt.parent is node and prompt.continues


def test_an_edit_begins_a_branch_in_which_other_replies_keep_their_tokens(renderer: Renderer):
    tree = tree_of(renderer)
    first = answered(tree, renderer, "fox", SYSTEM, ASKED)
    assert first.reply is not None and first.completion is not None
    second = answered(tree, renderer, "dog", SYSTEM, ASKED, first.reply, ASKED)
    assert second.reply is not None and second.completion is not None
    edited = replace(first.reply, content="wolf")
    third = answered(tree, renderer, "end", SYSTEM, ASKED, edited, ASKED, second.reply, ASKED)
    assert third.prompt.parent is None
    text = " ".join(map(str, third.prompt.token_ids))
    assert " ".join(map(str, second.completion.token_ids)) in text
    assert " ".join(map(str, first.completion.token_ids)) not in text
    turns = tree.turns()
    assert [turn.fork for turn in turns] == [0, 0, 1] and len(turns) == 3


@pytest.mark.parametrize("other", [{"system": "t"}, {"tools": ()}])
def test_another_system_prompt_or_tool_list_begins_a_branch(renderer: Renderer, other: dict[str, object]):
    tree = tree_of(renderer)
    first = answered(tree, renderer, "fox", SYSTEM, ASKED)
    assert first.reply is not None
    system = replace(SYSTEM, content=str(other.get("system", "s")))
    tools = (ADD,) if "system" in other else ()
    assert tree.prompt([system, ASKED, first.reply, ASKED], tools).parent is None
    assert tree.prompt([SYSTEM, ASKED, first.reply, ASKED], (ADD,)).parent is first


def test_a_truncated_turn_is_extended(renderer: Renderer):
    rng = random.Random(1)
    tree = tree_of(renderer)
    node = tree.draw(tree.prompt([SYSTEM, ASKED], (ADD,)))
    done = next(c for c in (sampled(renderer, rng) for _ in range(99)) if c.finish is Finish.LENGTH)
    request = ChatRequest(messages=(SYSTEM, ASKED), tools=(ADD,))
    reply, finish, _ = reply_message(renderer.parse(done.token_ids), done, "00", request, False)
    tree.record(node, done, reply)
    assert finish == "length"
    assert tree.prompt([SYSTEM, ASKED, reply, Message(role="tool", content="3")], (ADD,)).continues


def test_results_of_parallel_calls_stand_in_the_order_of_the_calls():
    own = f"call_{'0f' * 12}_2"

    def conversation(ids: list[str], order: Sequence[int]) -> list[Message]:
        calls = tuple(ToolCall(id=each, name="add", arguments="{}") for each in ids)
        results = [Message(role="tool", content=f"r{place}", call_id=ids[place]) for place in order]
        return [ASKED, Message(role="assistant", calls=calls), *results, ASKED]

    wanted = tuple(conversation(["call_0", "call_1", own], range(3)))
    for order in permutations(range(3)):
        for made in (["a", "b"], ["b", "a"], ["7f3c", "call_0"]):  # A program makes other ids in every run.
            assert in_call_order(conversation([*made, own], order)) == wanted
