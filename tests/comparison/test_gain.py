"""The card of `gnomon gain`: numbers by hand, replies of evaluations, and words that say no more than the numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gnomon
from commands import command
from gnomon.comparison.gain import Sizes, gain, open_runs
from gnomon.comparison.gain_card import Card, Interval, card_of, card_text, sentences
from gnomon.comparison.gain_replies import USUAL, Part, recorded_groups, sample_missing
from gnomon.comparison.gain_scores import Played, Replies, Sample, format_of, gain_of
from gnomon.comparison.readings import readings
from gnomon.errors import ConfigError, RunError
from gnomon.stats import difference_interval
from gnomon.store import RunReader
from gnomon.store.audit import verify
from rewards import right

SMALL: dict[str, Any] = {"prompts": 4, "group": 4, "max_tokens": 12, "quiet": True, "workers": {"count": 1}}


def replies(**tasks: str) -> Replies:
    """A letter is a reply: upper case is right, `x` has no answer; `*` after a wrong one: right in another form."""
    return {
        task: tuple(
            Sample(
                letter.isupper(), None if letter == "x" else letter, letter.isupper() or text[place + 1 :][:1] == "*"
            )
            for place, letter in enumerate(text)
            if letter != "*"
        )
        for task, text in tasks.items()
    }


BEFORE = replies(one="Abbb", two="xxxx", three="AAbc", four="x*aab")
AFTER = replies(one="AAAb", two="xxxx", three="AAAA", four="BaBB")


def test_the_numbers_of_a_run_by_hand() -> None:
    shown = replies(one="AAbb", two="Axxx", three="aaab", four="abcd")
    found = gain_of(Played(before=[BEFORE], after=[AFTER], examples=shown), "own", "shown")
    base, examples, trained = found.rows
    assert (found.k, found.tasks) == (4, 4)
    assert [base.pass_1.value, base.pass_k.value, base.majority.value] == [
        0.1875,
        0.5,
        0.25,
    ]  # 3 of 16; b, -, A, a win.
    assert [examples.pass_1.value, examples.pass_k.value, examples.majority.value] == [0.1875, 0.5, 0.5]
    assert [trained.pass_1.value, trained.pass_k.value, trained.majority.value] == [0.625, 0.75, 0.75]
    assert found.pass_1 == difference_interval([0.5, 0.0, 0.5, 0.75])
    assert found.pass_k == difference_interval([0.0, 0.0, 0.0, 1.0])
    assert found.beside_1.prompt == "own" and found.beside_1.difference == found.pass_1
    assert found.beside_k is not None and found.beside_k.prompt == "shown"
    assert found.beside_k.difference == difference_interval([0.0, -1.0, 1.0, 1.0])
    assert found.by_run == (0.4375,) and found.over_runs is None


def test_runs_are_pooled_by_task() -> None:
    again = replies(one="AAAA", two="Axxx", three="AAAA", four="bbbb")
    found = gain_of(Played(before=[BEFORE, BEFORE], after=[AFTER, again]), "own", "shown")
    assert found.pass_1 == difference_interval([0.625, 0.125, 0.5, 0.375])
    assert found.by_run == (0.4375, 0.375) and found.over_runs == difference_interval([0.4375, 0.375])
    assert [row.prompt for row in found.rows] == ["own", "own"] and found.rows[0].pass_1.n == 4


def test_a_task_that_was_not_judged_everywhere_is_left_out() -> None:
    after = {name: samples for name, samples in AFTER.items() if name != "four"}
    found = gain_of(Played(before=[BEFORE], after=[after]), "own", "shown")
    assert found.tasks == 3 and found.pass_1 == difference_interval([0.5, 0.0, 0.5])


def test_the_gain_is_format_and_answers() -> None:
    found = format_of(Played(before=[BEFORE], after=[AFTER]))
    assert found.before.value == 0.25 and found.after.value == 0.625
    assert found.form == difference_interval([0.0, 0.0, 0.0, 0.25])
    assert found.answers == difference_interval([0.5, 0.0, 0.5, 0.5])


def test_a_verifier_that_reads_no_answers_has_no_majority() -> None:
    none = replies(one="xxxx", two="xxxx")
    found = gain_of(Played(before=[none], after=[none]), "own", "shown")
    assert found.rows[0].majority is None and found.beside_k is None


@pytest.mark.parametrize(("reply", "right"), [
    ("49", "49"), ("The answer is 49.", "49"), ("12 + 37 = 49", "49"), ("So: **49**", "49"), (r"\boxed{49}", "49"),
    ("<answer>49", "49"), ("Sure!\n<answer>49</answer> I hope it helps", "49"), ("It is 1,049", "1049"),
    ("The word is: cat.", "cat"), ("`tac`", "tac"),
])  # fmt: skip
def test_the_last_answer_of_a_reply_is_read_in_any_usual_form(reply: str, right: str) -> None:
    assert right in readings(reply)


@pytest.mark.parametrize("reply", ["", "<think>49", "49 or 50", "What is 49 + 1? I say 51", "49\nNo, 48"])
def test_what_is_not_the_last_answer_is_not_read(reply: str) -> None:
    assert "49" not in readings(reply)


def card(pass_1: Interval, pass_k: Interval, base_k: float = 0.5) -> str:
    """The words of a card with these differences."""
    found = gain_of(Played(before=[BEFORE], after=[AFTER]), "own", "shown")
    base = replace(found.rows[0], pass_k=replace(found.rows[0].pass_k, value=base_k))
    made = replace(found, pass_1=pass_1, pass_k=pass_k, rows=(base, *found.rows[1:]))
    facts = {"asked": {}, "runs": {"0": "f"}, "env": "e", "policy": "p", "steps": 1, "format": None, "transfer": None}
    cost = {"cpu_seconds": None, "seconds": 1.0}
    from gnomon.comparison.gain_card import Cost

    return "\n".join(text for _, text in sentences(Card(**facts, gain=made, cost=Cost(**cost))))


UP, FLAT, DOWN = (Interval(value=v, low=v - 0.1, high=v + 0.1, n=9) for v in (0.2, 0.0, -0.2))


@pytest.mark.parametrize(("pass_1", "pass_k", "base", "words", "never"), [
    (UP, FLAT, 0.5, "more frequent; these tasks do not show that it solves any which", "lowered"),
    (UP, UP, 0.5, "solves tasks that the base model does not solve in 4 replies", "more frequent"),
    (UP, FLAT, 1.0, "cannot show new ones", "more frequent"),
    (UP, DOWN, 0.5, "solves fewer tasks in 4 replies", "more frequent"),
    (FLAT, FLAT, 0.5, "These tasks do not show a change.", "raised"),
    (DOWN, FLAT, 0.5, "Training lowered it.", "raised"),
])  # fmt: skip
def test_the_words_say_no_more_than_the_intervals(
    pass_1: Interval, pass_k: Interval, base: float, words: str, never: str
) -> None:
    text = card(pass_1, pass_k, base)
    assert words in text and never not in text


@pytest.mark.parametrize("lora", [0, 4])
def test_a_sampled_reply_is_that_of_an_evaluation(tmp_path: Path, lora: int) -> None:
    """The base model, and then the policy, give the first reply that the run recorded."""
    folder = tmp_path / "r"
    gnomon.train("char_count", run=folder, steps=2, lora=lora, lr=0.1, eval={"tasks": 6}, **SMALL).close()
    runs = open_runs([folder], Sizes(samples=2), trust=False)
    parts = [Part(USUAL, trained, 0) for trained in (False, True)]
    assert not any(recorded_groups(runs, part) for part in parts)
    found = sample_missing(runs, parts, lambda sentence: None)
    one = open_runs([folder], Sizes(samples=1), trust=False)
    texts = {part: [group.rollouts[0].text for group in recorded_groups(one, part)] for part in parts}
    assert {part: [group.rollouts[0].text for group in groups] for part, groups in found.items()} == texts
    assert texts[parts[0]] != texts[parts[1]]


@pytest.mark.long
def test_the_card_of_a_run(tmp_path: Path) -> None:
    for seed in (0, 1):
        gnomon.train(
            "arithmetic",
            run=tmp_path / str(seed),
            steps=1,
            seed=seed,
            lr=1e-2,
            eval={"tasks": 6, "samples": 3},
            **SMALL,
        ).close()
    folders = [str(tmp_path / str(seed)) for seed in (0, 1)]
    done = command("gain", *folders, "--shots", "2", "--transfer", "char_count", "--price", "3600", "--json")
    facts = json.loads(done.stdout)
    with RunReader(folders[0]) as reader:
        assert facts["runs"]["0"] == reader.fingerprint
        ends = [body["pass_at"]["1"]["value"] for body in (reader.baseline, reader.held_out) if body]
        seconds = sum(row["seconds"] for row in reader.timings())
    assert facts["gain"]["by_run"][0] == pytest.approx(ends[1] - ends[0])
    assert [row["prompt"] for row in facts["gain"]["rows"]] == [
        "prompt of the run",
        "2 solved examples",
        "prompt of the run",
    ]
    assert facts["transfer"]["env"] == "char_count" and facts["cost"]["money"] > seconds
    assert done.stderr.count("sampling") == 5  # Solved examples once; the other environment for each run, twice.
    assert verify(folders[0]) and card_of(Path(folders[0])) == card_of(Path(folders[1]))
    again = command("gain", *folders, "--shots", "2", "--transfer", "char_count")
    assert again.stderr == "" and "cost" in again.stdout and "at the price" not in again.stdout


def test_what_has_no_gain_is_refused(tmp_path: Path) -> None:
    for name, rate in (("a", 1e-2), ("b", 1e-3)):
        gnomon.train("arithmetic", run=tmp_path / name, steps=1, lr=rate, eval={"tasks": 2}, **SMALL).close()
    with pytest.raises(RunError, match="E440") as caught:
        gain([tmp_path / "a", tmp_path / "b"], Sizes())
    assert caught.value.fix == f"gnomon gain {tmp_path / 'b'}"
    with pytest.raises(RunError, match="E429"):
        gain([tmp_path / "a", tmp_path / "a"], Sizes())
    with pytest.raises(RunError, match="E404"):
        gain([tmp_path / "none"], Sizes())
    with pytest.raises(ConfigError, match="E021") as unknown:
        gain([tmp_path / "a"], Sizes(transfer="char_cout"))
    assert (unknown.value.where, unknown.value.fix) == ("--transfer", "--transfer char_count")


def test_a_reward_function_has_what_its_run_recorded(tmp_path: Path) -> None:
    """An environment of Python objects cannot be sampled again, nor its replies read in another form."""
    rows = [{"prompt": f"{place} + 1 = ?", "answer": str(place + 1)} for place in range(40)]
    gnomon.train(rows, reward=right, run=tmp_path / "r", steps=1, eval={"tasks": 4}, **SMALL).close()
    found = gain([tmp_path / "r"], Sizes())
    assert found.format is None and len(found.gain.rows) == 2 and found.gain.k == 1
    text = card_text(found)
    assert "one reply to each task; eval.samples=8" in text and "majority" not in text and "1 reply to each of" in text
    with pytest.raises(ConfigError, match="E025") as caught:
        gain([tmp_path / "r"], Sizes(samples=4))
    assert "leave out --samples" in caught.value.fix


@pytest.mark.parametrize("text", ["", "{", "[]", '{"gain": {"rows": []}}', "\xff"])
def test_a_broken_card_is_no_card(tmp_path: Path, text: str) -> None:
    (tmp_path / "gain.json").write_text(text, encoding="latin-1")
    assert card_of(tmp_path) is None
