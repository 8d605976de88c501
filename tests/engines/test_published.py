"""Weights for vLLM have the names and the cuts of the model's own files, also where transformers joins experts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.engines.vllm.files import model_file
from gnomon.errors import ModelError
from gnomon.learners.local import LocalLearner
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy
from gnomon.models.published import as_published, names
from gnomon.models.weights import WeightsRef
from models.seeing import FAMILIES as SEEING
from models.seeing import seeing
from models.test_families import FAMILIES, model_of

MIXTURES = ("mixtral", "qwen3 experts")


def moved(folder: Path, *, trains_vision: bool = False) -> tuple[WeightsRef, dict[str, Tensor]]:
    """A version with other weights than the folder has, and what the folder's files would hold then."""
    policy = Policy.load(folder, whole=Padded if trains_vision else None, trains_vision=trains_vision)
    with torch.no_grad():
        for value in policy.model.parameters():
            value.mul_(2)  # No rounding.
    weights = LocalLearner(policy).publish()
    return weights, {name: value * 2 for name, value in load_file(folder / "model.safetensors").items()}


@pytest.mark.parametrize("in_a_file", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_file_is_the_one_that_the_base_model_would_have(name: str, in_a_file: bool, tmp_path: Path) -> None:
    folder = model_of(FAMILIES[name], tmp_path / "model")
    weights, expected = moved(folder)
    assert (set(weights.read()) == set(expected)) == (name not in MIXTURES), "transformers joins the experts of these"
    if in_a_file:
        weights = weights.write(tmp_path / "published.safetensors")
    found = load_file(model_file(weights, tmp_path / "weights.safetensors", folder))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


@pytest.mark.needs("PIL")
@pytest.mark.parametrize("name", SEEING)
def test_a_tower_has_the_names_of_its_folder(name: str, tmp_path: Path) -> None:
    """Also those of folders on the hub, which an older transformers wrote."""
    folder = seeing(tmp_path / "model", name)
    file = folder / "model.safetensors"
    old = {key.replace("vision_tower.", "vision_tower.vision_model."): value for key, value in load_file(file).items()}
    save_file(old, file, metadata={"format": "pt"})
    weights, expected = moved(folder, trains_vision=True)
    found = load_file(model_file(weights, tmp_path / "weights.safetensors", folder))
    assert found.keys() == expected.keys() and all(torch.equal(found[key], expected[key]) for key in found)


@pytest.mark.parametrize("name", MIXTURES)
def test_experts_with_no_way_back_are_refused_with_what_works(name: str, tmp_path: Path) -> None:
    """Of a folder whose files have other names for them, which transformers does not know."""
    folder = model_of(FAMILIES[name], tmp_path / "model")
    state = dict(Policy.load(folder).state())
    file = folder / "model.safetensors"
    save_file({key.replace("experts", "specialists"): value for key, value in load_file(file).items()}, file)
    names.cache_clear()
    with pytest.raises(ModelError, match=r"E339(.|\n)*experts(.|\n)*engine=embedded"):
        as_published(folder, state)
