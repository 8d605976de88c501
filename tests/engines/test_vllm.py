"""vLLM itself, where an environment has it: `GNOMON_VLLM_PYTHON=PATH/bin/python pytest tests/engines/test_vllm.py`."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

import gnomon
from engines.asking import ask
from engines.test_served import moved as moved_folder
from engines.test_worker import gone_soon
from gnomon.engines import sample_all
from gnomon.engines.served import Answer
from gnomon.engines.threaded import Threaded
from gnomon.engines.vllm import VLLM
from gnomon.engines.vllm.engine import WORKER
from gnomon.errors import NumericsError, ResourceError
from gnomon.keys import Key
from gnomon.learners.local import LocalLearner
from gnomon.models.adapter import Adapter
from gnomon.models.folder import model_folder
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.run.sample_stats import sample_stats
from gnomon.types import Finish, Sampling
from models.characters import tokenizer
from models.kinds import WIDE
from models.seeing import seeing
from models.test_vision import prompts

PYTHON = os.environ.get("GNOMON_VLLM_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs vLLM: GNOMON_VLLM_PYTHON=PATH/bin/python")
Make = Callable[..., VLLM]
SMALL = {"dtype": "float32", "max_model_len": 512, "kv_cache_memory_bytes": 2**26}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """The shipped policy, and a random model whose vocabulary projection is tied to its embedding."""
    torch.manual_seed(3)
    tied = Qwen3Config(**WIDE, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)
    folder = tmp_path_factory.mktemp("models") / "tied"
    AutoModelForCausalLM.from_config(tied).save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return {"tiny": model_folder("tiny"), "tied": folder}


@pytest.fixture()
def make() -> Iterator[Make]:
    engines: list[VLLM] = []

    def made(folder: Path, worker: Path = WORKER, adapter: Adapter | None = None, sleeps: bool = False) -> VLLM:
        command, own = (PYTHON, str(worker)), {"adapter": adapter, "sleeps": sleeps}
        engines.append(VLLM(folder, command, arguments=SMALL, bound=1e-3, patience=600.0, **own))
        return engines[-1]

    yield made
    for engine in engines:
        engine.close()


def moved(learner: LocalLearner, scale: float = 0.9) -> None:
    """Another version: every parameter is smaller."""
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.mul_(scale)
    learner.version += 1


@pytest.mark.parametrize("kind", ["tiny", "tied"])
def test_it_samples_from_the_weights_of_each_version_and_ends_as_we_do(make, folders, kind):
    learner = LocalLearner(Policy.load(folders[kind]))
    engine = make(folders[kind])
    prompts = [
        learner.policy.tokenizer.encode(text) for text in ("Compute 12 + 30.\n", 'How many "a" are in "banana"?\n')
    ]
    for version in range(3):
        engine.load(learner.publish())
        stats = sample_stats(engine, learner, prompts * 16, Sampling(max_tokens=64, temperature=0.8), Key(version))
        assert stats["logp_mismatch"].value < 1e-3 and stats["mismatch/outside"].value == 0
        requests = [ask(learner.policy, "Compute 12 + 30.\n", sample, 40, stop=("1",)) for sample in range(8)]
        found = asyncio.run(sample_all(engine, requests))
        for completion in found:
            assert completion.version == version
            assert completion.finish is not Finish.STOP or ("1" in completion.text and "1" not in completion.text[:-1])
        moved(learner)


def adapted(folder: Path, rank: int) -> tuple[LocalLearner, Adapter]:
    """A learner of an adapter that adds something from the start."""
    adapter = Adapter(rank=rank, key=Key(5), blank=False)
    return LocalLearner(Policy.load(folder, adapter=adapter)), adapter


@pytest.mark.needs("PIL")
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "idefics3", "smolvlm"])
def test_it_samples_with_images_and_with_the_vision_tower_of_each_version(make, tmp_path, family, rank):
    """Its environment needs torchvision, and num2words. Several requests share an image. An adapter is on the language
    model alone."""
    folder = seeing(tmp_path / family, family, width=64)  # On a CPU, vLLM has no heads of less than 32.
    adapter = Adapter(rank=rank, key=Key(5), blank=False) if rank else None
    policy = Policy.load(folder, adapter=adapter, whole=Padded, trains_vision=not rank)
    learner, engine = LocalLearner(policy), make(folder, adapter=adapter)
    for version in range(2):
        engine.load(learner.publish())
        stats = sample_stats(engine, learner, prompts(policy) * 4, Sampling(max_tokens=8), Key(version))
        assert stats["logp_mismatch"].value < 1e-5
        moved(learner, 0.5)


@pytest.mark.parametrize("rank", [1, 3, 32])
@pytest.mark.parametrize("kind", ["tiny", "tied"])
def test_it_samples_with_the_adapter_of_each_version(make, folders, kind, rank):
    """Also after a worker was killed, which starts from the model without the adapter."""
    learner, adapter = adapted(folders[kind], rank)
    engine = make(folders[kind], adapter=adapter)
    prompts = [learner.policy.tokenizer.encode("Compute 12 + 30.\n")]
    for version in range(3):
        engine.load(learner.publish())
        if version == 2:
            os.killpg(engine.pid, signal.SIGKILL)
        stats = sample_stats(engine, learner, prompts * 16, Sampling(max_tokens=64, temperature=0.8), Key(version))
        assert stats["logp_mismatch"].value < 1e-3
        moved(learner, 0.5)
    assert len(list(engine.place.glob("weights-*"))) == 1


@pytest.mark.parametrize(("what", "told"), [("adapter", "differ from the learner's"), ("cache", "decodes with other")])
def test_an_old_adapter_or_its_cache_is_found(make, folders, monkeypatch, what, told):
    monkeypatch.setenv("GNOMON_TEST_STALE", what)
    learner, adapter = adapted(folders["tied"], 4)
    engine = make(folders["tied"], Path(__file__).with_name("stale_worker.py"), adapter)
    engine.load(learner.publish())
    moved(learner, 0.25)
    with pytest.raises(NumericsError, match=rf"E201.*{told}"):
        engine.load(learner.publish())


def test_a_layer_that_was_left_old_is_found(make, folders):
    learner = LocalLearner(Policy.load(folders["tiny"]))
    engine = make(folders["tiny"])
    old = learner.publish().copy()
    engine.load(old)
    moved(learner)
    new = learner.publish().copy()
    mixed = {name: old.read()[name] if ".layers.1." in name else value for name, value in new.read().items()}
    with pytest.raises(NumericsError, match=r"E201.*differ from the learner's"):
        engine.load(replace(new, tensors=mixed))
    engine.load(new)
    assert engine.version == 1


@pytest.mark.parametrize(
    ("what", "told"), [("head", "differ from the learner's"), ("cache", "decodes with other weights")]
)
def test_a_stale_head_or_cache_is_found(make, folders, monkeypatch, what, told):
    monkeypatch.setenv("GNOMON_TEST_STALE", what)
    learner = LocalLearner(Policy.load(folders["tied"]))
    engine = make(folders["tied"], Path(__file__).with_name("stale_worker.py"))
    engine.load(learner.publish())
    moved(learner, 0.5)
    with pytest.raises(NumericsError, match=rf"E201.*{told}"):
        engine.load(learner.publish())


def test_an_engine_sleeps_and_wakes_up(make, folders):
    """On a CPU, vLLM stops its scheduler and forgets its prefixes, but frees nothing; so it is refused there."""
    learner, engine = LocalLearner(Policy.load(folders["tied"])), make(folders["tied"])
    requests = [ask(learner.policy, "Compute 12 + 30.\n", sample, 12) for sample in range(4)]
    engine.load(learner.publish())
    if engine.versions["device"] == "cpu":
        engine.sleeps = True
    else:
        engine.close()
        engine = make(folders["tied"], sleeps=True)
        engine.load(learner.publish())
    for version in range(3):
        expected = [len(found.token_ids) for found in asyncio.run(sample_all(engine, requests))]
        engine.sleep()
        found = asyncio.run(sample_all(engine, requests))
        assert [len(each.token_ids) for each in found] == expected and {each.version for each in found} == {version}
        engine.sleep()
        moved(learner)
        engine.load(learner.publish())
    assert engine.counts()["engine/restarts"].value == 0
    if engine.versions["device"] == "cpu":
        with pytest.raises(ResourceError, match=r"E543(.|\n)*engine.sleep=false"):
            make(folders["tied"], sleeps=True).load(learner.publish())


def test_a_worker_killed_while_it_samples_is_replaced(make, folders):
    learner = LocalLearner(Policy.load(folders["tiny"]))
    engine = make(folders["tiny"])
    engine.load(learner.publish())
    pid = engine.pid
    requests = [ask(learner.policy, "Compute 12 + 30.\n", sample, 200) for sample in range(64)]
    killer = threading.Timer(0.3, os.killpg, (pid, signal.SIGKILL))
    killer.start()
    found = asyncio.run(sample_all(engine, requests))
    assert len(found) == 64 and all(completion.token_ids for completion in found)
    assert engine.counts()["engine/restarts"].value == 1 and engine.pid != pid
    assert gone_soon(pid)


def children(pid: int) -> list[int]:
    """Of all threads of a process, and theirs."""
    text = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [child for own in map(int, text.split()) for child in (own, *children(own))]


def commandline(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def test_no_process_is_left(make, folders):
    engine = make(folders["tiny"])
    engine.load(LocalLearner(Policy.load(folders["tiny"])).publish())
    pids = [engine.pid, *children(engine.pid)]
    assert len(pids) > 1  # The engine core is a process of its own.
    engine.close()
    assert gone_soon(*pids)


def test_a_run_learns_although_its_worker_is_killed(tmp_path):
    """Kills the worker's group once, in the middle of the run."""
    killed: list[int] = []

    class Kills:
        def start(self, manifest): ...
        def evaluation(self, record): ...
        def finish(self, status): ...
        def step(self, record):
            if record.step == 10:
                (leader,) = (pid for pid in children(os.getpid()) if str(WORKER) in commandline(pid))
                killed.append(leader)
                os.killpg(leader, signal.SIGKILL)

    run = gnomon.train(
        "char_count",
        run=tmp_path / "run",
        quiet=True,
        steps=24,
        engine={"type": "vllm", "python": PYTHON, "cache_gib": 0.0625},
        rollout={"prompts": 16, "group": 8, "max_tokens": 48, "context": 256},
        eval={"tasks": 64, "every": 100},
        observers=[Kills()],
    )
    with run:
        metrics = [step["metrics"] for step in run.metrics()]
        assert run.status == "finished" and len(metrics) == 24 and len(killed) == 1
        assert sum(step["engine/restarts"] for step in metrics) == 1
        first, last = (sum(step["reward"] for step in part) / 6 for part in (metrics[:6], metrics[-6:]))
        assert last > first + 0.05
        assert max(step["logp_mismatch"] for step in metrics) < 1e-3


def test_weights_change_while_it_samples(make, folders):
    """Two policies take turns. vLLM stamps each token; the tokens before the first change are scored the same by the
    policy of that stamp, and so is a whole request after the last one, whose prompt both have computed before."""
    learners = [LocalLearner(Policy.load(folders["tiny"])) for _ in range(2)]
    moved(learners[1])
    weights = [learner.publish().copy() for learner in learners]
    threaded = Threaded(make(folders["tiny"]))
    try:
        threaded.load(weights[0])
        prompt = learners[0].policy.tokenizer.encode("Compute 12 + 30.\n")
        requests = [ask(learners[0].policy, "Compute 12 + 30.\n", n, 440, temperature=2.0) for n in range(64)]
        sampling, loads = threaded.thread.submit(sample_all(threaded, requests)), 0
        while not sampling.done():
            loads += 1
            threaded.load(replace(weights[loads % 2], version=loads))
        found = [completion for completion in sampling.result() if completion.changes]
        late = asyncio.run(sample_all(threaded, requests[:8]))
    finally:
        threaded.close()
    assert found and {version for completion in late for version in completion.versions()} == {loads}
    for completion in (*found, *late):
        sampled_with = learners[completion.version % 2].policy
        scored = score(sampled_with, [prompt], [(0, completion.token_ids)], 2.0)
        gap = (scored - torch.tensor(completion.logprobs)).abs()[: completion.versions().count(completion.version)]
        assert float(gap.max()) < 1e-3


@pytest.mark.parametrize("rank", [0, 8])
def test_a_run_learns_while_its_weights_change(tmp_path, rank):
    run = gnomon.train(
        "char_count",
        run=tmp_path / "run",
        quiet=True,
        steps=16,
        engine={"type": "vllm", "python": PYTHON, "cache_gib": 0.0625},
        rollout={"prompts": 16, "group": 8, "max_tokens": 48, "context": 256, "lag": 1, "in_flight": True},
        eval={"tasks": 64, "every": 100},
        objective="tis",
        policy={"lora": {"rank": rank}},
        lr=3e-3 if rank else 1e-3,
    )
    with run:
        metrics = [step["metrics"] for step in run.metrics()]
        first, last = (sum(step["reward"] for step in part) / 4 for part in (metrics[:4], metrics[-4:]))
        assert last > first + 0.05 and max(step["staleness_max"] for step in metrics) <= 1


@pytest.mark.parametrize("kind", ["tiny", "tied"])
@pytest.mark.parametrize(
    ("learner", "own"), [("float32", "bfloat16"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")]
)
def test_the_projection_has_the_learners_dtype(tmp_path, folders, kind, learner, own):
    """Also one that is tied to the embedding, which has the dtype of all else.

    In six runs of two steps, the mean difference of a step was at most .020 nats, and the largest .081.
    """
    run = gnomon.train(
        "char_count",
        run=tmp_path / "run",
        quiet=True,
        steps=2,
        engine={"type": "vllm", "python": PYTHON, "cache_gib": 0.0625, "dtype": own},
        rollout={"prompts": 4, "group": 4, "max_tokens": 24, "context": 256},
        eval={"tasks": 4, "every": 100},
        policy={"path": str(folders[kind]), "dtype": learner},
    )
    with run:
        metrics = [step["metrics"] for step in run.metrics()]
        assert run.manifest["engine"]["head"] == learner
        assert all(step["mismatch/mean"] < 0.05 and step["logp_mismatch"] < 0.5 for step in metrics)


@contextmanager
def api_server(folder: Path, log: Path) -> Iterator[str]:
    """The address of vLLM's own server of a model folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", folder, "--dtype", "float32", "--host", "127.0.0.1", "--port", port, "--enforce-eager"]
    words += ["--max-model-len", 1024, "--kv-cache-memory-bytes", 2**26]
    command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", *map(str, words)]
    alone = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **alone}, start_new_session=True)
        try:
            while not healthy(port):
                assert server.poll() is None, log.read_text()[-3000:]
                time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@pytest.mark.long
def test_its_server_is_compared_with_folders(folders, tmp_path):
    """With the old folder, a change of the weights by a ten-thousandth is told from none."""
    old, near, far = folders["tiny"], moved_folder(tmp_path / "near", 1e-4), moved_folder(tmp_path / "far", 0.5)
    with api_server(old, tmp_path / "log") as url:
        same, other = gnomon.check_weights(url, old), gnomon.check_weights(url, far)
        stale = gnomon.check_weights(url, near, old=old)
    assert same.answer is Answer.SERVED and same.difference < 1e-4
    assert other.answer is Answer.NOT_SERVED
    assert stale.answer is Answer.NOT_SERVED and stale.share is not None and abs(stale.share.value) < 0.05
