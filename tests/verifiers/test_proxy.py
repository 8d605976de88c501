"""The proxy is a real model: it learns, the larger the better, it is the same every time, and it can be fooled."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gnomon.errors import VerifierError
from gnomon.types import Message, Status, Task
from gnomon.verifiers.proxy import NgramModel, Proxy, train


def pairs(count: int, seed: int) -> list[tuple[str, str, bool]]:
    """Digit sums: a reply is right when it names the last digit of the sum of two."""
    rng = random.Random(seed)
    found = []
    for place in range(count):
        a, b = rng.randrange(10), rng.randrange(10)
        right = place % 2 == 0
        said = (a + b) % 10 if right else (a + b + rng.randrange(1, 10)) % 10
        filler = " ".join(rng.choice(("so", "then", "hence", "thus", "well")) for _ in range(6))
        found.append((f"{a}{b}", f"{filler} {a}+{b} gives {said}", right))
    return found


def accuracy(model: NgramModel) -> float:
    rows = pairs(1000, seed=2)
    return sum((model.score(p, r) >= 0.5) == label for p, r, label in rows) / len(rows)


def test_a_larger_model_is_a_better_proxy() -> None:
    """Collisions are what a small hash loses by: at 2^4 weights little is left, at 2^14 nearly nothing is lost."""
    rows = pairs(3000, seed=1)
    small, middle, large = (accuracy(train(rows, bits=bits, longest=3, passes=6)) for bits in (4, 9, 14))
    assert 0.4 < small < 0.62 and middle > small and large > 0.9 and large > middle


def test_training_saving_and_loading_are_exact(tmp_path: Path) -> None:
    rows = pairs(300, seed=3)
    model = train(rows, bits=8, passes=2)
    assert train(rows, bits=8, passes=2) == model
    model.save(tmp_path / "model")
    assert NgramModel.load(tmp_path / "model") == model
    assert json.loads((tmp_path / "model" / "model.json").read_text())["bits"] == 8


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "bits": 3, "longest": 1}'])
def test_a_folder_without_a_model_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(VerifierError, match=r"E112.*\n.*model\.json"):
        NgramModel.load(tmp_path)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(VerifierError, match="E112"):
        NgramModel.load(tmp_path)


def test_a_score_is_the_reward_or_decides_it() -> None:
    task = Task(id="1", messages=(Message(role="user", content="23"),), answer=None)
    model = train(pairs(3000, seed=1), bits=12, passes=6)
    graded, hard = Proxy(score=model), Proxy(score=model, graded=False)
    good, bad = graded.verify(task, "so 2+3 gives 5"), graded.verify(task, "so 2+3 gives 6")
    assert good.status is Status.CORRECT and bad.status is Status.WRONG
    assert 0 < bad.reward < 0.5 <= good.reward < 1
    assert (hard.verify(task, "so 2+3 gives 5").reward, hard.verify(task, "so 2+3 gives 6").reward) == (1, 0)
    # It never looked at the sum: naming what it was paid for, over and over, pays more than the truth.
    assert graded.verify(task, "2+3 gives 5 " * 20).reward != good.reward


@pytest.mark.parametrize("score", [float("nan"), 1.5, -0.1, None, "1"])
def test_a_score_that_is_none_is_the_proxys_own_failure(score: object) -> None:
    task = Task(id="1", messages=(), answer=None)
    with pytest.raises(ValueError, match="number from 0 to 1"):
        Proxy(score=lambda *_: score).verify(task, "")  # type: ignore[arg-type, return-value]


def test_one_kind_of_label_is_not_enough() -> None:
    with pytest.raises(ValueError, match="correct and wrong"):
        train([("a", "b", True)])
