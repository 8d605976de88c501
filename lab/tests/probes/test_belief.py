"""Asking for the rewarded option: policies with known beliefs, and the shipped policy, which has none to speak of."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from commands import command
from comparison.written import write
from gnomon.errors import ConfigError, RunError
from gnomon.models.folder import TINY
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.rendering import choose, joined
from gnomon.store import RunReader
from gnomon.types import Message, Status
from gnomon_lab.probes.asking import asking
from gnomon_lab.probes.belief import Ask, Question, belief, change, from_file, pairs

RIGHT, WRONG = Status.CORRECT, Status.WRONG


def table(logits: Callable[[Question], Sequence[float]]) -> Ask:
    """A tabular policy over the options: the softmax of some logits."""

    def ask(questions: Sequence[Question]) -> list[list[float]]:
        rows = [logits(question) for question in questions]
        return [[value - math.log(sum(map(math.exp, row))) for value in row] for row in rows]

    return ask


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tasks whose rewards differ, one of them twice; one with equal rewards; one whose verifier broke."""
    steps = [
        {0: [(("good0",), RIGHT), (("bad0",), WRONG)], 1: [(("bad1",), WRONG), (("good1",), RIGHT)]},
        {0: [(("x",), RIGHT), (("y",), WRONG)], 2: [(("same",), WRONG), (("same2",), WRONG)]},
        {3: [(("a",), Status.FAILED), (("b",), WRONG)], 4: [(("bad4",), WRONG), (("good4",), RIGHT)]},
    ]
    return write(tmp_path_factory.mktemp("belief") / "r", {"type": "arithmetic"}, steps)


@pytest.fixture(scope="module")
def asked(run: Path) -> list[Question]:
    with RunReader(run) as reader:
        return pairs(reader)


def test_pairs_are_asked_in_both_orders_once_per_task(asked: list[Question]) -> None:
    assert len(asked) == 6 and len({question.about for question in asked}) == 3
    first, second = asked[:2]
    assert "A: good0\nB: bad0\nWhich" in first.text and first.rewarded == 0
    assert "A: bad0\nB: good0\nWhich" in second.text and second.rewarded == 1
    assert first.text.startswith("Compute ") and first.options == ("A", "B")


def test_a_policy_that_knows_the_reward_is_found(asked: list[Question]) -> None:
    """It has a preference for A too, which cancels in the margin."""
    found = belief(table(lambda q: [2.0 * (q.rewarded == place) + (place == 0) for place in (0, 1)]), asked)
    assert found.share.value == 1 and found.chance == 0.5 and found.first == 0.5
    assert found.margin.value == pytest.approx(2.0) and found.margin.n == 3


def test_a_policy_that_prefers_a_letter_knows_nothing(asked: list[Question]) -> None:
    found = belief(table(lambda q: [5.0, 0.0]), asked)
    assert found.share.value == 0.5 and found.margin.value == pytest.approx(0.0) and found.first == 1.0
    even = belief(table(lambda q: [0.0, 0.0]), asked)
    assert even.share.value == 0.5 and even.first == 0.5, "a tie counts as its fair share"


def test_a_policy_that_believes_the_opposite_is_below_chance(asked: list[Question]) -> None:
    found = belief(table(lambda q: [float(q.rewarded != place) for place in (0, 1)]), asked)
    assert found.share.value == 0 and found.margin.value == pytest.approx(-1.0)


def test_a_change_is_paired_by_what_was_asked_about(asked: list[Question]) -> None:
    """Margins differ between tasks by far more than they change."""
    place = {name: at for at, name in enumerate({question.about: 0 for question in asked})}

    def knowing(extra: float) -> Ask:
        return table(lambda q: [(10.0 * place[q.about] + extra) * (q.rewarded == at) for at in (0, 1)])

    grown = change(belief(knowing(0.0), asked), belief(knowing(0.25), asked))
    assert (grown.low, grown.value, grown.high) == pytest.approx((0.25, 0.25, 0.25)) and grown.n == 3


def test_more_than_two_options_and_rules_in_words(tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonl"
    rows = [
        {"text": "Which rule?\n", "options": ["long", "right", "short"], "rewarded": 1, "about": "rule"},
        {"text": "Rule?\n", "options": ["right", "wrong"], "rewarded": 0, "about": "rule"},
        {"text": "Format?\n", "options": ["yes", "no"], "rewarded": 1},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    questions = from_file(file)
    assert len(questions) == 3 and questions[2].about.endswith("line 3")
    found = belief(table(lambda q: [float(place == q.rewarded) for place in range(len(q.options))]), questions)
    assert found.share.value == 1 and found.chance == pytest.approx((1 / 3 + 1 / 2 + 1 / 2) / 3)
    assert found.margin.n == 2 and found.margin.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    "line",
    ["x", "[]", "{}", '{"text": "a", "options": ["A"], "rewarded": 0}',
     '{"text": "a", "options": ["A", "A"], "rewarded": 0}', '{"text": "a", "options": ["A", "B"], "rewarded": 2}',
     '{"text": "a", "options": ["A", ""], "rewarded": 0}', ""],
)  # fmt: skip
def test_a_line_that_is_no_question_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "q.jsonl").write_text(line)
    with pytest.raises(ConfigError, match="E083"):
        from_file(tmp_path / "q.jsonl")


def test_options_are_scored_as_the_policy_would_write_them(asked: list[Question]) -> None:
    """Every option alone, in a pass of its own, to the last bit; options of several tokens by their sum."""
    policy = Policy.load(TINY)
    questions = [*asked, Question(about="long", text="Compute 1 + 2.", options=("12", "7", "345"), rewarded=1)]
    found, renderer = asking(policy)(questions), choose(policy.tokenizer)
    for question, logps in zip(questions, found, strict=True):
        prompt = joined(renderer.start([Message(role="user", content=question.text)]))
        alone = [
            sum(score(policy, [prompt], [(0, policy.tokenizer.encode(option))]).tolist()) for option in question.options
        ]
        assert logps == alone


def test_a_run_without_a_difference_in_reward_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path / "r", {"type": "arithmetic"}, [{0: [(("a",), WRONG), (("b",), WRONG)]}])
    with RunReader(run) as reader, pytest.raises(RunError, match="E438"):
        pairs(reader)


@pytest.mark.long
def test_the_command_asks_a_run_before_and_after_training_and_the_shipped_policy(tmp_path: Path) -> None:
    """The shipped policy never read such a question: its interval holds chance."""
    words = ["steps=1", "prompts=16", "group=4", "eval.tasks=2", "workers.count=1", f"run={tmp_path}/r"]
    assert command("train", "arithmetic", *words).returncode == 0
    facts = json.loads(command("probe", "belief", f"{tmp_path}/r", "--json").stdout)
    assert set(facts) == {"before", "after"} and facts["before"]["share"]["n"] >= 5
    for each in facts.values():
        assert each["share"]["low"] <= 0.5 <= each["share"]["high"]
    text = command("probe", "belief", f"{tmp_path}/r").stdout
    assert "change of the margin" in text
    assert "E084" in command("probe", "belief", "tiny").stderr
    (tmp_path / "q.jsonl").write_text('{"text": "A or B", "options": ["A", "B"], "rewarded": 0}')
    assert "chance 0.500" in command("probe", "belief", "tiny", "--questions", f"{tmp_path}/q.jsonl").stdout
