"""What a run did to its model, held to plain passes of transformers and to whole matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import gnomon
from commands import command
from gnomon.comparison.change import change, singular_values, stable_rank
from gnomon.comparison.change_card import FILE
from gnomon.errors import RunError
from gnomon.export.model import export
from gnomon.models.folder import TINY
from gnomon.run.saved import checkpoint
from gnomon.store import RunReader
from gnomon.store.audit import verify
from gnomon.viewer.report import report

SMALL: dict[str, Any] = {"steps": 1, "eval": {"tasks": 4, "samples": 2}, "rollout": {"prompts": 4, "group": 4}}
SMALL |= {"quiet": True, "workers": {"count": 1}, "optim": {"lr": 3e-3, "warmup": 0}}


@pytest.fixture(scope="module", params=["all weights", "adapter"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step that trained all weights, or an adapter of rank 3."""
    folder = tmp_path_factory.mktemp("change") / "run"
    lora: dict[str, Any] = {}
    if request.param == "adapter":
        pytest.importorskip("peft")
        lora = {"policy": {"lora": {"rank": 3}}, "optim": {"lr": 0.03, "warmup": 0}}
    gnomon.train("char_count", run=folder, seed=3, **{**SMALL, **lora}).close()
    return folder


def weights(run: Path, aside: Path) -> tuple[Any, Any]:
    """The first model and the trained one, an adapter merged, as transformers reads them."""
    adapter = "adapter_model.safetensors" in {path.name for path in checkpoint(run).iterdir()}
    exported = export(str(run), aside / "model", merged=adapter).folder
    found = [AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32) for place in (TINY, exported)]
    return found[0].eval(), found[1].eval()


@torch.no_grad()
def test_the_divergence_and_the_likeliest_tokens_are_those_of_plain_passes(run: Path, tmp_path: Path) -> None:
    first, trained = weights(run, tmp_path)
    tasks: dict[str, list[float]] = {}
    flipped = tokens = 0
    with RunReader(run) as reader:
        for group in reader.groups(1, "held_out"):
            for rollout in group.rollouts:
                turn = rollout.turns[0]
                ids = torch.tensor([turn.prompt_ids + turn.completion.token_ids])
                places = slice(len(turn.prompt_ids) - 1, -1)
                now, was = (model(ids).logits[0, places].double().log_softmax(-1) for model in (trained, first))
                tasks.setdefault(group.task.id, []).append(float((now.exp() * (now - was)).sum()))
                flipped += int((now.argmax(-1) != was.argmax(-1)).sum())
                tokens += now.shape[0]
    card = change(str(run))
    mean = sum(sum(own) / len(own) for own in tasks.values()) / len(tasks)
    assert (card.step, card.sampled, card.replies, card.tokens, card.kl.n) == (1, 1, 8, tokens, len(tasks))
    assert card.kl.value == pytest.approx(mean, rel=1e-3) and card.kl.value > 1e-4
    assert card.kl_token == pytest.approx(sum(map(sum, tasks.values())) / tokens, rel=1e-3)
    assert card.flipped == flipped > 0


@torch.no_grad()
def test_the_weights_are_those_of_whole_matrices(run: Path, tmp_path: Path) -> None:
    first, trained = (dict(model.named_parameters()) for model in weights(run, tmp_path))
    card = change(str(run))
    kinds = {each.name: each for each in card.kinds}
    for kind in ("query_key_value", "dense_4h_to_h"):
        names = [name for name in first if name.endswith(f"{kind}.weight")]
        deltas = [(trained[name] - first[name]).double() for name in names]
        norm = sum(float(delta.square().sum()) for delta in deltas) ** 0.5
        base = sum(float(first[name].double().square().sum()) for name in names) ** 0.5
        ranks = sorted(float(delta.square().sum() / torch.linalg.matrix_norm(delta, 2) ** 2) for delta in deltas)
        middle = (ranks[(len(ranks) - 1) // 2] + ranks[len(ranks) // 2]) / 2
        found = kinds[kind]
        assert (found.norm, found.relative) == pytest.approx((norm, norm / base), rel=1e-3)
        assert found.stable_rank == pytest.approx(middle, rel=1e-2) and found.stable_rank >= 1
    assert [each.name for each in card.layers if each.name.startswith("layer")] == [f"layer {n}" for n in range(4)]
    assert all(each.stable_rank is None for each in card.kinds if each.name.endswith(("layernorm", ".bias")))


def test_the_stable_rank_of_matrices_by_hand() -> None:
    assert stable_rank(singular_values(torch.diag(torch.tensor([2.0, 2.0, 1.0])).double())) == pytest.approx(9 / 4)
    assert stable_rank(singular_values(torch.ones(3, 5).double())) == pytest.approx(1)
    assert stable_rank(singular_values(torch.zeros(2, 4).double())) == 0


def test_the_card_is_shown_beside_the_run_and_changes_nothing_of_it(run: Path) -> None:
    files = {path: path.read_bytes() for path in run.rglob("*.safetensors")}
    said = command("probe", "change", str(run)).stdout
    assert said.startswith("After step 1, the policy differs from the first one by a KL of ")
    facts = json.loads(command("show", str(run), "--json").stdout)["change"]
    assert facts["whole"]["norm"] > 0 and facts["cpu_seconds"] > 0
    assert "stable rank, median" in report(run) and "<td>layer 3</td>" in report(run)
    assert not verify(run).problems and all(path.read_bytes() == was for path, was in files.items())
    stale = json.loads((run / FILE).read_text()) | {"run": "another"}
    (run / FILE).write_text(json.dumps(stale))
    assert "change" not in json.loads(command("show", str(run), "--json").stdout)


def test_what_cannot_be_measured_is_refused(tmp_path: Path, run: Path) -> None:
    with pytest.raises(RunError) as caught:
        change(f"{run}:0")
    assert caught.value.code == "E185"
