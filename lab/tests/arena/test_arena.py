"""Matches in both orders, ratings, and the strategy of a policy."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import gnomon
from gnomon.engines import sample_all
from gnomon.envs import KuhnPoker
from gnomon.envs.kuhn_value import STATES, equilibrium, value
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import RunError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.rollout.runner import LocalRunner
from gnomon.run.saved import saved_policy
from gnomon.store import RunReader
from gnomon.types import Request, Sampling
from gnomon_lab.arena import contests
from gnomon_lab.match import Match
from gnomon_lab.rating import SCALE, fit, intervals, p_value
from gnomon_lab.strategy import REPLIES, prompts, read
from rollout.test_players import SAMPLING, SMALL, TOKENIZER, player


def match() -> Match:
    env = KuhnPoker()
    runner = LocalRunner(env, TOKENIZER, player(equilibrium()), workers=EnvWorkers(env, workers=1))
    return Match(env, runner, SAMPLING)


@pytest.mark.long
def test_the_better_player_wins_and_the_gain_is_the_value_of_the_game():
    """What every pair gains is known by enumeration. Nobody beats an equilibrium, but who robs the weak more rates
    higher."""
    wild = {state: 1.0 for state in STATES}
    timid = {state: 0.0 for state in STATES}
    engines = {"sound": player(equilibrium(), 1), "wild": player(wild, 2), "timid": player(timid, 3)}
    table = match()
    result = contests(table, engines, games=1200, key=Key(0), progress=lambda done, total: None)
    table.runner.workers.close()
    assert result.standings[-1].player == "timid"
    assert all(met.gain > 0 for met in result.meetings if met.one == "sound")
    known = {"sound": equilibrium(), "wild": wild, "timid": timid}
    for met in result.meetings:
        one, other = known[met.one], known[met.other]
        exact = value(one, other) - value(other, one)
        assert abs(met.gain - exact) <= 4 * met.error, (met, exact)
        assert met.games == 1200 and met.p < 0.05 and (met.gain > 0) == (exact > 0)
    for standing in result.standings:
        assert standing.low < standing.elo < standing.high and standing.games == 2400
    assert sum(standing.elo for standing in result.standings) == pytest.approx(0, abs=1e-6)


def test_a_match_is_the_same_every_time_and_equals_are_not_told_apart():
    def played() -> object:
        table = match()
        engines = {"a": player(equilibrium(0.1), 1), "b": player(equilibrium(0.1), 2)}
        result = contests(table, engines, games=200, key=Key(3), progress=lambda done, total: None)
        table.runner.workers.close()
        return result

    result = played()
    assert result == played() and result.meetings[0].p > 0.05


def test_bradley_terry_is_the_maximum_of_its_likelihood():
    rng = np.random.default_rng(0)
    truth = np.array([0.8, 0.0, -0.8])
    scores = {
        (i, j): (rng.random(4000) < 1 / (1 + math.exp(truth[j] - truth[i]))).astype(float)
        for i, j in ((0, 1), (0, 2), (1, 2))
    }
    ratings = fit(3, scores)
    assert np.abs(ratings / SCALE - truth).max() < 0.1

    def likelihood(theta: np.ndarray) -> float:
        total = sum(0.5 * (np.log(1 / (1 + np.exp(-t))) + np.log(1 / (1 + np.exp(t)))) for t in theta)
        for (i, j), values in scores.items():
            p = 1 / (1 + np.exp(theta[j] - theta[i]))
            total += values.sum() * np.log(p) + (1 - values).sum() * np.log(1 - p)
        return float(total)

    best = likelihood(ratings / SCALE)
    for place in range(3):
        for step in (-0.01, 0.01):
            assert likelihood(ratings / SCALE + step * np.eye(3)[place]) < best
    spans = intervals(3, scores, Key(0), rounds=200)
    assert spans == intervals(3, scores, Key(0), rounds=200) != intervals(3, scores, Key(1), rounds=200)
    assert all(low < rating < high for (low, high), rating in zip(spans, ratings, strict=True))
    assert np.isfinite(fit(2, {(0, 1): np.ones(50)})).all()


def test_random_signs_find_no_difference_where_there_is_none():
    assert p_value([1.0, -1.0] * 20, Key(0)) == 1.0 and p_value([0.0] * 9, Key(0)) == 1.0
    assert p_value([1.0] * 20, Key(0)) == 1e-4
    rng = np.random.default_rng(1)
    low = [p_value(rng.normal(size=30).tolist(), Key(seed), rounds=199) <= 0.05 for seed in range(300)]
    # A level of 5 % over 300 trials: 15 are expected, and more than 27 come once in a thousand times.
    assert 4 <= sum(low) <= 27


def test_a_strategy_is_what_the_policy_says(tmp_path):
    """Against sampling: the share of bets among legal first replies, within four standard errors."""
    from gnomon.engines.embedded import Embedded

    policy = Policy.load("tiny")
    asked = prompts(policy)
    assert set(asked) == set(STATES)
    text = policy.tokenizer.decode(asked["q", "pb"])
    assert text.index("Card Q") < text.index(REPLIES["p"]) < text.index("They bet.")
    taught(policy, asked, bet=0.75)
    play = read(policy)
    assert play.least_legal > 0.5
    sampling = Sampling(max_tokens=8, stop=("</answer>",))
    requests = [
        Request(prompt_ids=asked["k", "p"], key=Key(0).at("x", n=n).bytes, sampling=sampling) for n in range(400)
    ]
    said = [c.text for c in asyncio.run(sample_all(Embedded(policy), requests))]
    counts = [sum(text == reply for text in said) for reply in REPLIES.values()]
    share, chance = counts[1] / sum(counts), play.bets["k", "p"]
    assert abs(share - chance) <= 4 * math.sqrt(chance * (1 - chance) / sum(counts))
    assert abs(sum(counts) / 400 - play.legal["k", "p"]) <= 4 * math.sqrt(0.25 / 400)
    assert 0 < play.exploitability < 1


def taught(policy: Policy, asked: dict[tuple[str, str], tuple[int, ...]], bet: float) -> None:
    """A few steps towards replies that bet this often."""
    from gnomon.models.scoring import packed_logp

    optimizer = torch.optim.Adam(policy.state().values(), lr=2e-3)
    replies = [policy.tokenizer.encode(text) for text in REPLIES.values()]
    rows = [(place, reply) for place in range(len(asked)) for reply in replies]
    weight = torch.tensor([w for _, reply in rows for w in [bet if reply == replies[1] else 1 - bet] * len(reply)])
    for _ in range(25):
        logp, _ = packed_logp(policy, list(asked.values()), rows)
        loss = -(weight * logp).sum() / len(asked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def place_of(name: str) -> Path:
    """The folder that the policy of a name is read from."""
    folder = saved_policy(name, Precision()).folder
    assert folder
    return folder


def test_players_are_found_by_run_and_step_and_told_when_they_are_not(tmp_path):
    with gnomon.train("kuhn_poker", run=tmp_path / "r", quiet=True, steps=2, save={"every": 1, "keep": 9}, **SMALL):
        pass
    assert place_of(str(tmp_path / "r")).name == "000002" and place_of(f"{tmp_path}/r:1").name == "000001"
    assert place_of("tiny") == model_folder("tiny")
    with pytest.raises(RunError, match=r"E185.*7"):
        place_of(f"{tmp_path}/r:7")
    (tmp_path / "r/checkpoints/000002/model.safetensors").write_bytes(b"torn")
    assert place_of(str(tmp_path / "r")).name == "000001"
    with RunReader(tmp_path / "r") as reader:
        assert reader.status == "finished"
    from typer.testing import CliRunner

    from gnomon.cli import app

    words = ["arena", f"{tmp_path}/r:1", "tiny", "--games", "8", "--json", "threads=1", "rollout.max_tokens=8"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert {s["player"] for s in body["standings"]} == {f"{tmp_path}/r:1", "tiny"} and body["meetings"][0]["games"] == 8
    assert not (tmp_path / "r/ratings.json").exists()
    words = ["arena", f"{tmp_path}/r:1", f"{tmp_path}/r", "--games", "8", "--keep", "threads=1", "rollout.max_tokens=8"]
    assert CliRunner().invoke(app, words).exit_code == 0
    shown = CliRunner().invoke(app, ["show", f"{tmp_path}/r"])
    assert "ratings      Elo" in shown.stdout and "after step 1" in shown.stdout
    (tmp_path / "r/ratings.json").write_text('{"steps": 3}')
    assert "ratings" not in CliRunner().invoke(app, ["show", f"{tmp_path}/r"]).stdout
