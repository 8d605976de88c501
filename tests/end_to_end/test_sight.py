"""A run on tasks with images: its folder has them, its checkpoint sees, and settings that do not see are refused."""

import signal
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from starlette.testclient import TestClient

import gnomon
from commands import command
from envs.test_image_rows import folder
from gnomon.config import resolve
from gnomon.config.sources import overrides
from gnomon.errors import ConfigError, ModelError, ResourceError
from gnomon.images import SHELF, Image
from gnomon.models.folder import image_token
from gnomon.run.makers.actor import make_limits
from gnomon.store import RunReader
from gnomon.store.codec import decode
from gnomon.store.layout import CHECKPOINTS, IMAGES
from gnomon.viewer.app import application
from models.seeing import seeing

pytestmark = pytest.mark.needs("PIL")
ENV = "count_shapes"
PROGRAM = """
import base64, json, os, sys, urllib.request
from PIL import Image
def ask(file, *before):
    url = "data:image/png;base64," + base64.b64encode(open(file, "rb").read()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "How many?"}]
    messages = [*before, {"role": "user", "content": content}]
    headers = {"x-api-key": os.environ["OPENAI_API_KEY"]}
    path = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(path, json.dumps({"messages": messages}).encode(), headers)
    return [*messages, json.load(urllib.request.urlopen(request))["choices"][0]["message"]]
own = os.environ["HOME"] + "/own.png"
Image.new("RGB", (16, 16), "blue").save(own)
print(ask(own, *ask("images/0.png"))[-1]["content"])
"""
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


@pytest.mark.needs("bwrap")
def test_a_run_keeps_and_shows_the_images_that_its_programs_send(tmp_path: Path) -> None:
    """One is the row's, which the program finds as a file, and one it draws itself."""
    rows = folder(tmp_path)
    (tmp_path / "agent.py").write_text(PROGRAM)
    env = {"type": "dataset", **rows, "agent": f"python {tmp_path / 'agent.py'}"}
    policy = {"policy": str(seeing(tmp_path / "qwen", "qwen3_vl")), "run": tmp_path / "run"}
    with gnomon.train(env=env, **policy, **SMALL) as run:
        first = next(iter(run.records("rollout")))
        rollouts = [rollout for group in decode(list(run.records())) for rollout in group.rollouts]
        assert all(step["metrics"]["logp_mismatch"] < 1e-4 for step in run.metrics())
    sent = {
        tuple(image.sha256 for turn in rollout.turns for message in turn.messages for image in message.images)
        for rollout in rollouts
    }
    pictures = {Image.read(path).sha256 for path in (tmp_path / "pictures").iterdir()}
    ((own,),) = {names[1:] for names in sent}
    assert len(rollouts) == 8 and {names[0] for names in sent} <= pictures and own not in pictures
    kept = {path.stem for path in (tmp_path / "run" / IMAGES).iterdir()}
    assert {own, *(name for names in sent for name in names)} <= kept <= {own, *pictures}
    client = TestClient(application([tmp_path / "run"]), base_url="http://127.0.0.1")
    page = client.get(f"/run/run/-/rollout/0:{first.task}:0").text
    assert page.count('src="/run/run/-/image/') >= 2 and f"/-/image/{own}" in page


def test_a_trained_tower_reaches_the_sampler_and_a_killed_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random replies are all wrong, so that what moves the weights is a bonus."""
    policy = seeing(tmp_path / "qwen3_vl", "qwen3_vl")
    words = [ENV, f"policy={policy}", "policy.vision=trained", "regularize.entropy=1", "optim.lr=0.01", "save.every=1"]
    words += ["steps=3", "prompts=2", "group=2", "rollout.max_tokens=4", "eval.tasks=2", "optim.warmup=0", "threads=1"]
    assert command("train", *words, f"run={tmp_path / 'whole'}").returncode == 0
    monkeypatch.setenv("GNOMON_FAILPOINT", "append:before-commit:3")
    assert command("train", *words, f"run={tmp_path / 'killed'}").returncode == -signal.SIGKILL
    monkeypatch.delenv("GNOMON_FAILPOINT")
    assert command("resume", str(tmp_path / "killed")).returncode == 0
    with RunReader(tmp_path / "whole") as whole, RunReader(tmp_path / "killed") as killed:
        assert whole.fingerprint == killed.fingerprint
        assert all(step["metrics"]["logp_mismatch"] < 1e-4 for step in whole.metrics())
    files = [max((tmp_path / run / CHECKPOINTS).iterdir()) / "model.safetensors" for run in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    after, before = load_file(files[0]), load_file(policy / "model.safetensors")
    assert after.keys() == before.keys()
    assert all((after[name] - before[name]).abs().max() > 1e-3 for name in after if "visual" in name)


def test_a_device_that_computes_other_images_is_refused_before_vllm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    values = {"policy": str(seeing(tmp_path / "gemma3", "gemma3")), "policy.attention": "transformers"}
    values |= {"engine.type": "vllm", "engine.python": sys.executable}
    with pytest.raises(ResourceError, match=r"E547(.|\n)*causal(.|\n)*fix: engine\W+embedded"):
        gnomon.train(ENV, run=tmp_path / "run", **values, **SMALL)
    config, _ = resolve([overrides([f"{name}={value}" for name, value in values.items()])])
    assert "gemma3" in make_limits(config).blind


def test_settings_and_policies_that_do_not_take_images_are_refused(tmp_path: Path) -> None:
    policy = seeing(tmp_path / "gemma3", "gemma3")
    with pytest.raises(ConfigError, match=r"E189(.|\n)*fix: policy\W+attention\W+transformers"):
        gnomon.train(ENV, policy=str(policy), run=tmp_path / "run", **SMALL)
    with pytest.raises(ModelError, match="E330"):
        gnomon.train(ENV, policy="tiny", run=tmp_path / "other", **SMALL)
