"""A run on tasks with images: its folder has them, its checkpoint sees, and settings that do not see are refused."""

from pathlib import Path

import pytest

import gnomon
from gnomon.errors import ConfigError, ModelError
from gnomon.images import SHELF
from gnomon.models.folder import image_token
from gnomon.store.layout import CHECKPOINTS, IMAGES
from models.seeing import seeing

pytestmark = pytest.mark.needs("PIL")
ENV = "gnomon.envs.count_shapes:CountShapes"
SMALL = {"steps": 1, "prompts": 2, "group": 2, "rollout.max_tokens": 4, "eval.tasks": 2, "quiet": True}


def test_a_run_keeps_the_images_of_its_prompts_and_its_checkpoint_sees(tmp_path: Path) -> None:
    policy = seeing(tmp_path / "llava", "llava")
    with gnomon.train(ENV, policy=str(policy), run=tmp_path / "run", **SMALL) as run:
        tasks = [record.body for record in run.records() if record.kind == "task"]
    names = {name for body in tasks for message in body["messages"] for name in message["images"]}
    files = {path.stem for path in (tmp_path / "run" / IMAGES).iterdir()}
    assert names and files == names and SHELF.folder is None
    assert all(min(body["prompt_ids"]) < 0 for body in tasks)
    (saved,) = (tmp_path / "run" / CHECKPOINTS).iterdir()
    assert image_token(saved) == image_token(policy)


def test_settings_and_policies_that_do_not_take_images_are_refused(tmp_path: Path) -> None:
    policy = seeing(tmp_path / "gemma3", "gemma3")
    with pytest.raises(ConfigError, match=r"E189(.|\n)*fix: policy\W+attention\W+transformers"):
        gnomon.train(ENV, policy=str(policy), run=tmp_path / "run", **SMALL)
    with pytest.raises(ModelError, match="E330"):
        gnomon.train(ENV, policy="tiny", run=tmp_path / "other", **SMALL)
