"""A prompt that has opened reasoning: what is sampled is inside it until it closes, wherever it is judged."""

from __future__ import annotations

import asyncio
import json

import pytest

from gnomon.config import overrides, resolve
from gnomon.engines.scripted import Scripted
from gnomon.envs import Dataset
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.reasoning import after_reasoning, open_marker
from gnomon.rejudge.imported import replies
from gnomon.rejudge.stored import reading
from gnomon.rendering import ChatML, Published, Qwen3, Transcript, choose, joined
from gnomon.rendering.transcript import reply_text
from gnomon.rollout.actor import Actor
from gnomon.types import Completion, Finish, Message, Origin, Rollout, Sampling, Status, Stop, Task, Turn, Verdict
from gnomon.verifiers import Math, Number

TURNS = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
ASKED = [Message(role="user", content="2+2?")]
TASK = Task(id="1", messages=(), answer="4")
KINDS = [
    # what the template has written, how the reasoning closes
    ("<think>\n", "</think>"),
    ("<think>", "</think>\n\n"),
    ("<think>\nOkay,", "</think>"),
    ("<think>\nLet me see. First,\n", "</think>"),
    ("[THINK]\nOkay", "[/THINK]"),
    ("<thinking>\n\n", "</thinking>"),
    ("<thought>\n", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]


def templated(marker: str) -> str:
    return TURNS + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n" + marker + "' }}{% endif %}"


@pytest.mark.parametrize(("marker", "closing"), KINDS)
@pytest.mark.parametrize("spaced", ["", "\n"], ids=["as ChatML", "unknown"])
def test_an_answer_counts_only_after_the_reasoning(marker, closing, spaced, folder_of):
    """Both where the family is known, and where the template alone writes the prompt."""
    tokenizer = Tokenizer(folder_of("qwen3", spaced + templated(marker)))
    renderer = choose(tokenizer)
    assert isinstance(renderer, Published if spaced else ChatML)
    prompt = joined(renderer.start(ASKED))
    assert tokenizer.spell(prompt).endswith(marker)
    for verifier, answer in ((Number(), "<answer>4</answer>"), (Math(), r"\boxed{4}")):
        for sampled, status in (
            (f"perhaps {answer}", Status.NO_ANSWER),
            (f"perhaps {answer}<|im_end|>", Status.NO_ANSWER),
            (f"perhaps {answer}{closing}", Status.NO_ANSWER),
            (f"hm{closing}{answer}", Status.CORRECT),
            (f"hm{closing}{answer}<|im_end|>", Status.CORRECT),
            (f"hm{closing}{answer.replace('4', '5')}", Status.WRONG),
        ):
            text = reply_text(renderer, prompt, sampled, tokenizer.encode(sampled))
            assert verifier.verify(TASK, text).status is status, sampled
            assert renderer.parse(tokenizer.encode(sampled)) == renderer.parse(tokenizer.encode(sampled), prompt)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "<think>\n\n</think>\n\n",
        "</think>",
        "Do not write <think>.\n",
        "[/THINK]",
        "<thinks>",
        "think>",
        "<THINK>",
        "Write <think>\nbefore it.",
        "<think> is a marker.",
        "<think>\nno\n</think>\n",
        "<think>\nIn <answer>:",
    ],
)
def test_a_prompt_that_opens_nothing_leaves_replies_as_they_are(written, folder_of):
    tokenizer = Tokenizer(folder_of("qwen3", "\n" + templated(written)))
    renderer = choose(tokenizer)
    text = reply_text(renderer, joined(renderer.start(ASKED)), "", tokenizer.encode("<answer>4</answer>"))
    assert text == "<answer>4</answer>" and open_marker(written) == ""


def test_text_of_a_task_opens_nothing_in_a_chat(folder_of):
    tokenizer = Tokenizer(folder_of("qwen3", templated("")))
    prompt = joined(choose(tokenizer).start([Message(role="user", content="Write <think>")]))
    assert reply_text(choose(tokenizer), prompt, "", tokenizer.encode("4")) == "4"


def test_a_template_may_open_reasoning_for_some_messages_only(folder_of):
    """As a template that a system message switches off. What counts is the prompt that was written."""
    marker = "{{ '' if messages[0].role == 'system' else '<think>\n' }}"
    tokenizer = Tokenizer(folder_of("qwen3", "\n" + TURNS + "<|im_start|>assistant\n" + marker))
    renderer, ids = choose(tokenizer), tokenizer.encode("<answer>4</answer>")
    off = joined(renderer.start([Message(role="system", content="no"), *ASKED]))
    assert Number().verify(TASK, renderer.parse(ids, off).text).correct
    assert not Number().verify(TASK, renderer.parse(ids, joined(renderer.start(ASKED))).text).correct


@pytest.mark.parametrize("make", [ChatML, Qwen3])
def test_every_turn_begins_inside_its_reasoning(make, tokenizers):
    tokenizer = tokenizers["qwen3"]
    renderer = ChatML(tokenizer, opening="<think>\n") if make is ChatML else Qwen3(tokenizer, opened=True)
    talk = Transcript.begin(renderer, ASKED).with_completion(tokenizer.encode("hm</think>5<|im_end|>"))
    for _ in range(2):
        talk = talk.observe([Message(role="user", content="No.")])
        assert tokenizer.spell(talk.token_ids).endswith("assistant\n<think>\n")
        assert renderer.parse(tokenizer.encode("so 4<|im_end|>"), talk.token_ids).text == ""
        talk = talk.with_completion(tokenizer.encode("so</think>\n4<|im_end|>"))
    kept = "".join(tokenizer.spell(s.token_ids) for s in talk.segments if s.origin is Origin.POLICY)
    assert ("hm" in kept) is (make is ChatML), "Qwen3 removes earlier reasoning"
    if make is Qwen3:
        assert "assistant\n5<|im_end|>" in tokenizer.spell(talk.token_ids), "with the marker before it"


def played(env, folder, said):
    tokenizer = Tokenizer(folder)
    actor = Actor(env, tokenizer, Scripted(tokenizer, lambda *_: said), group=1, sampling=Sampling(max_tokens=200))
    try:
        (group,) = asyncio.run(actor.collect([(0, env.tasks("train")[0])], Key(0)))
    finally:
        actor.workers.close()
    return group.rollouts[0]


@pytest.mark.parametrize("case", ["ChatML", "unknown", "plain text"])
def test_a_rollout_and_its_replay_know_it(case, folder_of, tmp_path):
    """In plain text the task itself may open the reasoning, as prompts for base models do."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"prompt": "{n}+0?", "answer": "4"}}\n' for n in range(40)))
    plain = case == "plain text"
    env = Dataset(path=str(rows), template="{prompt} <answer>...</answer>" + " <think>" * plain)
    template = None if plain else "\n" * (case == "unknown") + templated("<think>\n")
    folder = folder_of("qwen3", template)
    known = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(known | {"model_type": "qwen3"}))
    config, _ = resolve([overrides([f"policy={folder}"])])
    for said, correct in (("perhaps <answer>4</answer>", False), ("hm</think> <answer>4</answer>", True)):
        rollout = played(env, folder, said)
        assert rollout.verdict.correct is correct
        (text,) = reading(config, 1)(rollout)
        assert env.verify(rollout.task, text).correct is correct
        if correct and case != "ChatML":
            assert rollout.text[slice(*rollout.verdict.span)] == "4", "the span is one of what was sampled"


def test_an_imported_rollout_knows_it_from_the_text_of_its_prompt():
    completion = Completion(token_ids=(), logprobs=(), text="<answer>4</answer>", finish=Finish.UNKNOWN, version=0)
    for prompt, expected in (("2+2?", "<answer>4</answer>"), ("2+2?\n<think>\n", "<think>\n<answer>4</answer>")):
        turn = Turn(prompt_ids=(), completion=completion, messages=(Message(role="user", content=prompt),))
        verdict = Verdict(status=Status.CORRECT, parts=())
        assert replies(Rollout(task=TASK, sample=0, turns=(turn,), verdict=verdict, stop=Stop.DONE)) == (expected,)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("4", 0),
        ("<think>a</think>4", 16),
        ("a</think>4", 9),
        ("<think>a", None),
        ("<think>a</think>b<think>", None),
        ("<think>a[/THINK]4", None),
        ("[THINK]a[/THINK]<think>b</think>4", 32),
        ("<|channel|>analysis<|message|>a<|end|>4", None),
        ("4<|end|>", 0),
    ],
)
def test_reasoning_closes_only_with_its_own_marker(text, begin):
    assert after_reasoning(text) == begin
