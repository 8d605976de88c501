"""An environment with tools: calls are carried out and told, the first reply without one is judged."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gnomon.doctor.evidence import has_malformed_call
from gnomon.engines.scripted import Scripted
from gnomon.envs import Arithmetic, Calculator
from gnomon.envs.check import check_env
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.reading.program import beside
from gnomon.rendering import Plain, Qwen3, joined
from gnomon.rollout import Actor
from gnomon.rollout.conversation import beginning
from gnomon.sandbox import capabilities
from gnomon.store import decode, encode
from gnomon.tools import (
    CalculatorTool,
    Outcome,
    PythonTool,
    SearchTool,
    Stateless,
    TerminalTool,
    WithTools,
    text_argument,
)
from gnomon.training.step import rollout_stats
from gnomon.types import Calls, Sampling, Status, Stop
from gnomon.verifiers import calculate
from rendering.families import tokenizer_folder

ENV = WithTools(env=Arithmetic(), lent=(CalculatorTool(),), budget=3)
TASK = ENV.tasks("train")[0]


def told(*replies: str, env: WithTools = ENV) -> tuple[list[list[str]], Any]:
    """What is said to each reply, and the verdict of the last."""
    episode = env.start(TASK, Key(0))
    steps = [episode.step(reply) for reply in replies]
    episode.close()
    return [[message.content for message in step.messages] for step in steps if not step.done], steps[-1].verdict


def counts(verdict: Any) -> dict[str, float]:
    return {part.name: part.value for part in verdict.parts if part.weight == 0 and part.value}


def right() -> str:
    return f"<answer>{TASK.answer}</answer>"


def test_the_rungs_that_tools_need_are_told_and_probed_before_any_episode():
    lent = WithTools(env=Arithmetic(), lent=(CalculatorTool(), PythonTool(), TerminalTool()))
    assert ENV.isolation == () and lent.isolation == ("session",)
    body = capabilities(lent.isolation).body()
    assert body["bubblewrap"] and all(probe["holds"] for probe in body["levels"]["session"].values() if probe["needed"])


def test_a_call_is_told_and_the_answer_is_judged_as_ever():
    said, verdict = told("<calculator>(3+4)*2</calculator>", right())
    assert said == [["14"]]
    assert (
        verdict.correct and verdict.reward == ENV.env.verify(TASK, right()).reward and counts(verdict) == {"calls": 1}
    )


def test_no_call_pays_and_none_costs():
    for calls in ("", "<calculator>1</calculator>", "<calculator>", '<tool_call>{"name": 1}</tool_call>'):
        _, verdict = told(*([calls] if calls else []), right())
        assert verdict.reward == 1.1, calls
        _, verdict = told(*([calls] if calls else []), "I do not know")
        assert verdict.reward == 0.0, calls


def test_what_cannot_be_carried_out_is_told_and_counted():
    said, verdict = told("<calculator>2+", "<calculator>2+</calculator> <calculator>7</calculator>", "none")
    assert said[0] == ["error: the call does not end: </calculator> is missing"]
    assert said[1][0].startswith("error: the expression ends") and said[1][1] == "7"
    assert verdict.status is Status.NO_ANSWER and counts(verdict) == {"calls": 3, "malformed": 1}


def test_the_budget_binds_and_the_last_reply_is_judged_whatever_it_calls():
    said, verdict = told("<calculator>1</calculator>" * 5, f"<calculator>1</calculator>{right()}")
    assert said == [["1", "1", "1", "error: no call is left for 2 more"]]
    assert verdict.correct and counts(verdict) == {"calls": 3, "refused": 3}
    assert ENV.max_turns == 4


def test_an_answer_beside_a_call_or_inside_one_is_none():
    said, _ = told(f"<calculator>1</calculator>{right()}")
    assert said == [["1"]]
    spent = "<calculator>1</calculator>" * 3
    _, verdict = told(spent, f"<calculator>{right()}</calculator>")
    assert verdict.status is Status.NO_ANSWER
    last = f"<calculator>1</calculator> so {right()}"
    _, verdict = told(spent, last)
    assert verdict.correct and last[slice(*verdict.span)] == verdict.extracted == str(TASK.answer)


@dataclass(frozen=True, kw_only=True)
class Broken(Stateless):
    """A tool whose own code raises what it is told to."""

    name: str = "broken"
    description: str = "Raises."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("what"))

    def call(self, arguments: Mapping[str, Any]) -> str:
        raise {"exit": SystemExit(3), "deep": RecursionError("deep")}.get(arguments["what"], ValueError("odd"))


@pytest.mark.parametrize(("what", "name"), [("exit", "SystemExit"), ("deep", "RecursionError"), ("", "ValueError")])
def test_a_tool_that_raises_is_an_observation(what, name):
    env = WithTools(env=Arithmetic(), lent=(Broken(),))
    ((said,),), verdict = told(f"<broken>{what}</broken>", right(), env=env)
    assert said.startswith(f"error: {name}") and counts(verdict) == {"calls": 1, Outcome.RAISED: 1} and verdict.correct


def test_tools_need_names_of_their_own():
    for lent in ((), (CalculatorTool(), CalculatorTool()), (CalculatorTool(name="answer"),)):
        with pytest.raises(ValueError, match="unique name"):
            WithTools(env=Arithmetic(), lent=lent)


def test_what_is_declared_of_the_reward_holds():
    _, verdict = told("<calculator>1</calculator>" * 9, "<calculator>1</calculator>" * 20)
    prices = {price.name: price for price in ENV.prices}
    assert {part.name for part in verdict.parts} == set(prices)
    assert all(part.value <= prices[part.name].most for part in verdict.parts)


def test_it_travels_and_passes_the_check_of_environments():
    assert pickle.loads(pickle.dumps(ENV)) == ENV
    report = check_env(ENV, tasks=20)
    assert report.passed, str(report)


# With an actor


def collected(say, env=ENV, renderer=None, tokenizer=None):
    tokenizer = tokenizer or Tokenizer(model_folder("tiny"))
    actor = Actor(
        env, tokenizer, Scripted(tokenizer, say), group=2, sampling=Sampling(max_tokens=200), renderer=renderer
    )
    try:
        (group,) = asyncio.run(actor.collect([(0, env.tasks("train")[0])], Key(0)))
    finally:
        actor.workers.close()
    return group


def test_a_base_model_is_told_by_the_messages_and_hears_results_as_text_of_a_tool():
    group = collected(lambda prompt, key: right() if "\n14\n" in prompt else "<calculator>(3+4)*2</calculator>")
    for rollout in group.rollouts:
        assert rollout.verdict.correct and rollout.stop is Stop.DONE and len(rollout.turns) == 2
        assert "<calculator>expression</calculator>" in rollout.turns[0].messages[0].content
        assert [segment.origin.value for segment in rollout.turns[1].segments] == ["template", "tool", "template"]


def test_a_chat_model_is_told_by_its_template_and_calls_in_its_own_form(tmp_path):
    tokenizer = Tokenizer(tokenizer_folder(tmp_path, "qwen3"))
    env = WithTools(env=Arithmetic(), lent=(CalculatorTool(),), brief=False)
    call = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "(3+4)*2"}}\n</tool_call><|im_end|>'

    def say(prompt: str, key: bytes) -> str:
        return right() + "<|im_end|>" if "14" in prompt.split("calculator")[-1] else call

    renderer = Qwen3(tokenizer)
    group = collected(say, env, renderer, tokenizer)
    shown = tokenizer.decode(group.rollouts[0].turns[0].prompt_ids)
    assert '"name": "calculator"' in shown and "Tools, " not in shown
    assert group.rollouts[0].turns[0].prompt_ids == joined(renderer.start(env.tasks("train")[0].messages, env.tools))
    for rollout in group.rollouts:
        assert [message.role for message in rollout.turns[1].messages] == ["tool"]
        assert rollout.verdict.correct and rollout.turns[1].messages[0].content == "14"


@pytest.mark.parametrize("call", ['{"name": "calculator"', '{"name": "calculator", "args": {}}', "calculator(1)"])
def test_a_call_that_cannot_be_read_is_counted_recorded_and_shown(tmp_path, call):
    tokenizer = Tokenizer(tokenizer_folder(tmp_path, "qwen3"))
    env = WithTools(env=Arithmetic(), lent=(CalculatorTool(),), brief=False)
    said = f"<tool_call>\n{call}\n</tool_call><|im_end|>"
    group = collected(
        lambda prompt, key: right() + "<|im_end|>" if "error" in prompt else said, env, Qwen3(tokenizer), tokenizer
    )
    assert [rollout.calls for rollout in group.rollouts] == [Calls(malformed=1)] * len(group.rollouts)
    assert all(rollout.turns[0].completion.token_ids == tokenizer.encode(said) for rollout in group.rollouts), (
        "the sampled tokens are kept"
    )
    assert rollout_stats([group])["malformed_calls"].value == 1
    records = list(encode(group, kind="rollout", step=0))
    (back,) = decode(records)
    assert [rollout.calls for rollout in back.rollouts] == [rollout.calls for rollout in group.rollouts]
    assert has_malformed_call(records[1].body)
    assert list(beside(back.rollouts[0].calls)) == ["replies with a tool call that cannot be read: 1"]


def test_plain_text_is_given_no_tools():
    tokenizer = Tokenizer(model_folder("tiny"))
    actor = Actor(ENV, tokenizer, Scripted(tokenizer, lambda *_: ""), group=1, sampling=Sampling(max_tokens=8))
    assert isinstance(actor.renderer, Plain) and beginning(ENV, actor.renderer)(TASK.messages).token_ids
    actor.workers.close()


# The calculator, and its environment


@pytest.mark.parametrize(
    ("expression", "value"),
    [("(3+4)*2", "14"), ("7/3", "7/3"), ("2*(3-5)", "-4"), ("1/0", "error: division by zero"), ("9**9", "error:"),
     ("__import__('os')", "error:"), ("", "error:"), ("(" * 10_000, "error:"), ("9" * 100, "error:"),
     ("\ud800", "error:")],
)  # fmt: skip
def test_the_calculator_has_an_answer_for_everything(expression, value):
    assert calculate(expression).startswith(value)


def test_an_expression_in_the_slot_is_worked_out_and_a_number_is_the_answer():
    env = Calculator()
    task = env.tasks("train")[3]
    text, answer = task.info["expression"], task.answer
    episode = env.start(task, Key(0))
    step = episode.step(f"<answer>{text}</answer>")
    assert [message.content for message in step.messages] == [f"={answer}"] and not step.done
    assert episode.step(f"<answer>{answer}</answer>").verdict.correct
    alone = env.start(task, Key(0))
    assert "error" in alone.step("hm").messages[0].content
    assert alone.step(f"<answer>{answer + 1}</answer>").verdict.status is Status.WRONG
    never = env.start(task, Key(0))
    assert [never.step(f"<answer>{text}</answer>").done for _ in range(env.max_turns)] == [False, False, True]
    assert check_env(env, tasks=40).passed


# Search


def corpus(tmp_path):
    (tmp_path / "birds.md").write_text("The heron stands in water.\n\nThe swift sleeps in the air.")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "fish.txt").write_text("Water water everywhere: a fish lives in water.")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG heron heron heron")
    return str(tmp_path)


def test_the_passages_that_fit_best_come_first(tmp_path):
    tool = SearchTool(corpus=corpus(tmp_path), count=2)
    assert tool.call({"query": "WATER"}).split("\n\n") == [
        "[more/fish.txt] Water water everywhere: a fish lives in water.",
        "[birds.md] The heron stands in water.",
    ]
    assert tool.call({"query": "where does the heron stand"}).startswith("[birds.md] The heron")
    assert tool.call({"query": ""}) == tool.call({"query": "zebra"}) == "nothing found"
    assert tool.call({"query": "\0" * 10_000 + "water " * 10_000}).startswith("[more/fish.txt]")


def test_scores_are_those_of_the_formula(tmp_path):
    """One word in one of two passages: ln(1 + 1.5/1.5) · 2.2 / (1 + 1.2 · (1/4 + 3/4 · 3/4.5)), by hand."""
    (tmp_path / "a.txt").write_text("one two\n\nthree four five six seven")
    from gnomon.tools.search import index

    found = index(str(tmp_path))
    assert [passage.text for passage in found.best("one", 5)] == ["one two"]
    # The title counts two words: 2 + 2 and 5 + 2.
    assert found._length == [4, 7]


def test_a_file_of_lines_is_a_corpus_and_a_bad_one_is_refused(tmp_path):
    good, bad, empty = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "empty"
    good.write_text('{"title": "T", "text": "alpha beta"}\n\n{"text": "gamma"}\n')
    bad.write_text('{"title": "T"}\n')
    empty.mkdir()
    assert SearchTool(corpus=str(good)).call({"query": "beta"}) == "[T] alpha beta"
    for path in (bad, empty, tmp_path / "none"):
        with pytest.raises(ConfigError, match="E160"):
            WithTools(env=Arithmetic(), lent=(SearchTool(corpus=str(path)),))
