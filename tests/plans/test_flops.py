"""Operations of a run: against formulas by hand, against counted passes, and in a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.comparison.measures import at_flops, at_tokens
from gnomon.keys import Key
from gnomon.models.adapter import Adapter
from gnomon.models.folder import TINY
from gnomon.models.precision import Precision
from gnomon.models.scoring import text_pass
from gnomon.plans.count import Count
from gnomon.plans.devices import GPUS
from gnomon.plans.flops import PassFlops, Span, attended_pairs, model_flops, sampling, step_flops, training
from gnomon.plans.passes import meta_policy, texts
from gnomon.store import RunReader
from gnomon.types import Completion, Finish, Group, Rollout, Status, Stop, Task, Turn, Verdict

WIDTH, LAYERS, VOCABULARY = 128, 4, 102
"""Of the shipped policy."""
DENSE = 2 * LAYERS * (4 * WIDTH**2 + 2 * WIDTH * 4 * WIDTH)
"""Queries, keys, values and their projection; the two matrices of the feed-forward part."""


def test_a_pass_of_the_shipped_policy_is_what_its_shape_says() -> None:
    policy = meta_policy(TINY, Precision())
    forward, both = model_flops(policy, gradient=False), model_flops(policy, gradient=True)
    scores = 2 * WIDTH * VOCABULARY
    assert forward == PassFlops(token=DENSE, pair=4 * WIDTH, scored=scores, windows=(None,) * LAYERS)
    # Backward is twice forward. The scores over the vocabulary are computed once more, so that none are kept.
    assert (both.token, both.pair, both.scored) == (3 * DENSE, 3 * 4 * WIDTH, 4 * scores)


def test_activation_checkpointing_and_an_adapter_are_counted() -> None:
    plain = model_flops(meta_policy(TINY, Precision()), gradient=True)
    policy = meta_policy(TINY, Precision())
    policy.checkpoint_activations()
    again = model_flops(policy, gradient=True)
    last = 2 * LAYERS * 4 * WIDTH**2  # What the last matrix of a layer gives is not needed for a gradient.
    assert (again.token, again.pair) == (4 * DENSE - last, 4 * 4 * WIDTH) and again.windows == plain.windows
    adapter = Adapter(rank=2, alpha=4, targets=("query_key_value",), key=Key(0), blank=True)
    small = model_flops(meta_policy(TINY, Precision(), adapter), gradient=True)
    assert small.token < plain.token, "the weights that stay have no gradient"


def test_a_window_bounds_what_a_token_attends_to() -> None:
    assert [attended_pairs(length, 3) for length in range(6)] == [0, 1, 3, 6, 9, 12]
    assert attended_pairs(5, None) == 15 and attended_pairs(2, 3) == 3
    some = PassFlops(token=10.0, pair=1.0, scored=100.0, windows=(None, 2))
    assert some.of(Span(2, 4, 1)) == 2 * 10 + (3 + 4) + (2 + 2) + 100


def test_the_count_is_near_that_of_the_passes_that_are_computed() -> None:
    """Tiles of attention are filled up, to 7 % of a text of 1,024 tokens. Its backward pass computes scores again."""
    policy, device = meta_policy(TINY, Precision()), GPUS["h100"]
    both = model_flops(policy, gradient=True)
    (text,) = texts([512], 1, 512)
    with Count(device) as count:
        policy(text_pass(policy, [text])).logp.sum().backward()
    layers, width = 4, 128
    own = both.of(Span(0, 1023, 512)) + layers * 2 * width * attended_pairs(1023, None)
    assert own < count.flops < 1.07 * own


def turn(prompt: tuple[int, ...], reply: int, fork: int = 0, logp: float = -1.0) -> Turn:
    made = Completion(token_ids=(9,) * reply, logprobs=(logp,) * reply, text="", finish=Finish.EOS, version=0)
    return Turn(prompt_ids=prompt, completion=made, fork=fork)


def group(*rollouts: tuple[Turn, ...]) -> Group:
    task = Task(id="0", messages=(), answer=0)
    verdict = Verdict(status=Status.WRONG, parts=())
    made = (
        Rollout(task=task, sample=at, turns=turns, verdict=verdict, stop=Stop.DONE) for at, turns in enumerate(rollouts)
    )
    return Group(task=task, index=0, rollouts=tuple(made))


def test_a_prompt_is_read_once_for_all_replies_to_it() -> None:
    one = group((turn((1, 2, 3), 4),), (turn((1, 2, 3), 2),))
    assert sorted(sampling(one)) == [Span(0, 3, 0), Span(3, 4, 2), Span(3, 6, 4)]
    assert sorted(training(one)) == sorted(sampling(one))


def test_turns_are_sampled_one_by_one_and_trained_as_sequences() -> None:
    first, second = turn((1, 2), 2), turn((1, 2, 9, 9, 5), 3)
    both = group((first, second))
    assert sorted(sampling(both)) == [Span(0, 2, 0), Span(0, 5, 0), Span(2, 3, 2), Span(5, 7, 3)]
    assert sorted(training(both)) == [Span(0, 2, 0), Span(2, 7, 5)]
    apart = group((first, replace(second, fork=1)))
    assert sorted(training(apart)) == [Span(0, 2, 0), Span(0, 5, 0), Span(2, 3, 2), Span(5, 7, 3)]


def test_supplied_replies_are_trained_and_not_sampled() -> None:
    one = group((turn((1, 2), 2, logp=float("nan")),))
    assert not list(sampling(one)) and sorted(training(one)) == [Span(0, 2, 0), Span(2, 3, 2)]
    assert not list(training(group((turn((1, 2), 0),))))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    small: dict[str, Any] = {"prompts": 2, "group": 2, "quiet": True, "workers": {"count": 1}}
    folder = tmp_path_factory.mktemp("flops") / "r"
    gnomon.train("char_count", run=folder, steps=3, eval={"tasks": 8, "every": 1}, rollout={"max_tokens": 8}, **small)
    return folder


def test_a_run_takes_what_its_tokens_take(run: Path) -> None:
    forward = PassFlops(token=DENSE, pair=4 * WIDTH, scored=2 * WIDTH * VOCABULARY, windows=(None,) * LAYERS)
    with RunReader(run) as reader:
        found = step_flops(reader)
        for each, metrics in zip(found, reader.metrics(), strict=True):
            groups = list(reader.groups(each.step))
            assert each.sampled == sum(forward.of(span) for one in groups for span in sampling(one))
            tokens = sum(rollout.tokens for one in groups for rollout in one.rollouts)
            prompts = sum(len(one.rollouts[0].turns[0].prompt_ids) for one in groups)
            assert each.sampled > DENSE * (prompts + tokens - 4)
            share = metrics["metrics"]["trained"] / tokens
            assert (each.trained == 0) == (share == 0) and each.trained <= 4 * share * each.sampled
            assert each.total == each.sampled + each.trained


def test_pass_at_1_at_a_budget_of_operations(run: Path) -> None:
    with RunReader(run) as reader:
        steps = step_flops(reader)
        first, second, third = (each.total for each in steps)
        values = [record.body["pass_at"]["1"]["value"] for record in reader.evaluations()]
        assert at_flops(first + second)(reader) == pytest.approx(values[2])
        assert at_flops(0)(reader) == values[0] and at_flops(first / 2)(reader) == pytest.approx(sum(values[:2]) / 2)
        with pytest.raises(ValueError, match="fewer than"):
            at_flops(2 * (first + second + third))(reader)
        assert at_tokens(0)(reader) == values[0]
