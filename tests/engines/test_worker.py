"""The engine with a worker of its own: a real process behind the real channel, which dies, hangs and loads half."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from socket import socketpair
from threading import Thread

import pytest
import torch

from gnomon.api import configure
from gnomon.config import overrides, resolve
from gnomon.engines import sample_all
from gnomon.engines.base import Tier
from gnomon.engines.vllm import VLLM
from gnomon.engines.vllm.environment import worker_environment
from gnomon.engines.vllm.frames import receive, send
from gnomon.engines.vllm.process import WorkerProcess
from gnomon.engines.vllm.surface import absent
from gnomon.engines.vllm.worker import beside_others
from gnomon.errors import ConfigErrors, ModelError, NumericsError, ResourceError
from gnomon.keys import Key
from gnomon.models.folder import base_hash, model_folder
from gnomon.models.weights import Kind, WeightsRef
from gnomon.run.makers.engine import make_vllm
from gnomon.types import Finish, Request, Sampling

WORKER = Path(__file__).with_name("unigram_worker.py")
TINY = model_folder("tiny")
PROBE = tuple(range(2, 26))
Make = Callable[..., VLLM]


def weights(version: int, kind: Kind = Kind.FULL) -> WeightsRef:
    logits = torch.randn(102, generator=torch.Generator().manual_seed(version))
    logp = torch.log_softmax(logits.double(), 0)
    return WeightsRef(
        kind=kind,
        base=base_hash(TINY),
        version=version,
        tensors={"logits": logits},
        probe=PROBE,
        probe_logp=tuple(logp[list(PROBE[1:])].tolist()),
    )


def ask(count: int, **options: object) -> list[Request]:
    """Requests that token 1, the end of a sequence, ends at different lengths."""
    sampling = Sampling(**{"max_tokens": 40, **options})  # type: ignore[arg-type]
    keys = [Key(0).at("test", sample=sample).bytes for sample in range(count)]
    return [Request(prompt_ids=(3, 4), key=key, sampling=sampling) for key in keys]


@pytest.fixture()
def plan(tmp_path, monkeypatch) -> Callable[[str], Path]:
    path = tmp_path / "plan"
    monkeypatch.setenv("GNOMON_TEST_PLAN", str(path))

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


@pytest.fixture()
def make() -> Iterator[Make]:
    engines: list[VLLM] = []

    def made(folder: Path = TINY, **settings: object) -> VLLM:
        given = {"arguments": {"max_model_len": 512}, "bound": 1e-3, "patience": 20.0, **settings}
        engines.append(VLLM(folder, (sys.executable, str(WORKER)), **given))  # type: ignore[arg-type]
        return engines[-1]

    yield made
    for engine in engines:
        engine.close()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone_soon(*pids: int) -> bool:
    end = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_frames_carry_objects_and_arrays_of_any_size():
    here, there = socketpair()
    arrays = {"ids": array("i", range(100_000)), "none": array("d"), "logps": array("d", [-0.1, -math.inf])}
    writer = Thread(target=send, args=(here, {"id": 7, "text": "\u00e9 \n"}, arrays))
    writer.start()
    assert receive(there) == ({"id": 7, "text": "\u00e9 \n"}, arrays)
    writer.join()
    here.close()
    with pytest.raises(EOFError):
        receive(there)
    there.close()


def test_completions_come_from_the_loaded_weights_and_their_keys(make):
    engine = make()
    assert engine.tier is Tier.MEASURED
    for version in (0, 1):
        engine.load(weights(version))
        found = asyncio.run(sample_all(engine, ask(30)))
        again = asyncio.run(sample_all(engine, ask(30)[::-1]))[::-1]
        assert found == again and engine.version == version
        assert {completion.version for completion in found} == {version}
        logp = torch.log_softmax(torch.randn(102, generator=torch.Generator().manual_seed(version)).double(), 0)
        for completion in found:
            expected = logp[list(completion.token_ids)].tolist()
            assert completion.logprobs == pytest.approx(expected, abs=1e-6)  # The file has 4-byte floats.
            assert completion.finish is (Finish.EOS if completion.token_ids[-1] == 1 else Finish.LENGTH)
            assert len(completion.token_ids) == 40 or completion.token_ids[-1] == 1
    assert len({completion.token_ids for completion in found}) == 30


def test_a_completion_ends_where_our_own_rule_ends_it(make):
    engine = make()
    engine.load(weights(0))
    whole = asyncio.run(sample_all(engine, ask(8)))
    text = engine.tokenizer.decode(whole[0].token_ids[3:5])
    cut = asyncio.run(sample_all(engine, ask(8, stop=(text,))))[0]
    assert cut.finish is Finish.STOP and cut.text.endswith(text) and len(cut.token_ids) <= 5
    assert cut.token_ids == whole[0].token_ids[: len(cut.token_ids)]
    ended = asyncio.run(sample_all(engine, ask(1, stop_ids=frozenset(whole[0].token_ids[2:3]))))[0]
    assert ended.finish is Finish.EOS and len(ended.token_ids) <= 3


def test_a_greedy_completion_is_certain(make):
    """Of temperature 0 every engine reports log-probability 0."""
    engine = make()
    engine.load(weights(0))
    found = asyncio.run(sample_all(engine, ask(2, temperature=0.0, max_tokens=3)))
    assert found[0] == found[1] and found[0].logprobs == (0.0,) * 3
    assert set(found[0].token_ids) == {int(weights(0).read()["logits"].argmax())}


def test_a_request_that_the_worker_refuses_is_an_error_of_its_own(make, plan):
    engine = make()
    engine.load(weights(0))
    plan("refuse")
    with pytest.raises(ResourceError, match="E542") as error:
        asyncio.run(sample_all(engine, ask(1)))
    assert "ValueError: the prompt is too long" in error.value.why
    assert len(asyncio.run(sample_all(engine, ask(3)))) == 3


@pytest.mark.parametrize("fault", ["die 9", "hang 9", "memory 9"])
def test_what_a_worker_owes_is_sampled_again_by_key(make, plan, fault):
    whole = make()
    whole.load(weights(3))
    expected = asyncio.run(sample_all(whole, ask(30)))
    assert {name: stat.value for name, stat in whole.counts().items()} == {"engine/restarts": 0, "engine/resampled": 0}
    engine = make(patience=1.5)
    engine.load(weights(3))  # Its probe is the first sample.
    path = plan(fault)
    assert asyncio.run(sample_all(engine, ask(30))) == expected
    assert not path.exists()
    counts = {name: stat.value for name, stat in engine.counts().items()}
    assert counts["engine/restarts"] == 1 and 1 <= counts["engine/resampled"] <= 30
    assert {stat.value for stat in engine.counts().values()} == {0}


def test_a_load_that_is_out_of_memory_is_made_by_another_worker(make, plan):
    engine = make()
    engine.load(weights(0))
    path, first = plan("full"), engine.pid
    engine.load(weights(1))
    assert not path.exists() and engine.pid != first and gone_soon(first)
    expected = make()
    expected.load(weights(1))
    assert asyncio.run(sample_all(engine, ask(5))) == asyncio.run(sample_all(expected, ask(5)))
    assert engine.counts()["engine/restarts"].value == 1


def test_a_mode_that_the_device_does_not_have_is_refused(make, monkeypatch):
    """The stand-in has no device; vLLM on a CPU says `cpu`."""
    engine = make(batch_invariant=True)
    engine.load(weights(0))
    monkeypatch.setattr(VLLM, "_open", lambda self, worker: {"device": "cpu"})
    with pytest.raises(ResourceError, match=r"E543(.|\n)*batch_invariant=false"):
        make(batch_invariant=True).load(weights(0))
    with pytest.raises(ResourceError, match=r"E543(.|\n)*engine.sleep=false"):
        make(sleeps=True).load(weights(0))
    with pytest.raises(ResourceError, match=r"E543(.|\n)*engine.gpus=\[\]"):
        make(gpus=[1]).load(weights(0))


def test_an_adapter_of_the_vision_tower_is_refused():
    words = ["engine.type=vllm", "engine.python=/p/python", "policy.vision=trained"]
    with pytest.raises(ConfigErrors, match=r"E045.*adapter of the vision tower(.|\n)*policy.vision=frozen"):
        resolve([overrides([*words, "policy.lora.rank=4"])])
    assert resolve([overrides(words)])[0].policy.vision == "trained"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["engine.type=embedded"], "engine.type=embedded"),
        (["rollout.lag=1", "rollout.in_flight=true"], "rollout.lag"),
        (["launch=ray"], "launch=ray"),
        (["launch=ray", "learner=ray"], "learner=ray"),
        (["learner=http://127.0.0.1:1"], "learner=http"),
        (["learner=https://a.b"], "learner=https"),
        (["ranks=2"], "ranks"),
    ],
)
def test_an_engine_sleeps_only_beside_a_learner_of_the_same_process(words, what):
    own = ["env=char_count", "engine.sleep=true", "engine.cache_gib=1"]
    vllm = [] if words == ["engine.type=embedded"] else ["engine.type=vllm", "engine.python=/p/python"]
    with pytest.raises(
        ConfigErrors, match=rf"E045.*engine.sleep cannot be combined with {what}(.|\n)*engine.sleep=false"
    ):
        resolve([overrides([*own, *vllm, *words])])
    assert resolve([overrides([*own, "engine.type=vllm", "engine.python=/p/python"])])[0].engine.sleep


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["engine.sleep=true"], "engine.sleep needs engine.cache_gib"),
        (["engine.sleep=true", "engine.cache_gib=1", "engine.gpus=1"], "engine.sleep cannot .* engine.gpus"),
        (["engine.gpus=1", "launch=ray"], "engine.gpus cannot be combined with launch=ray"),
        (["engine.gpus=1", "engine.type=embedded"], "engine.gpus cannot be combined with engine.type=embedded"),
        (
            ["engine.gpus=0"],
            r"names a GPU that the learner uses(.|\n)*fix: engine.gpus=1, or engine.gpus=\[\] engine.sleep",
        ),
        (
            ["engine.gpus=1", "ranks=2"],
            r"names a GPU that the learner uses(.|\n)*uses GPUs 0 to 1(.|\n)*fix: engine.gpus=2\n",
        ),
        (["engine.gpus=1,0"], "fix: engine.gpus=1,2"),
        (["engine.gpus=a"], "engine.gpus"),
        (["engine.gpus=1,"], "engine.gpus"),
        (["engine.gpus=-1"], "engine.gpus"),
        (["engine.gpus=true"], "engine.gpus"),
        (["engine.gpus=[1,1]"], "a number twice"),
    ],
)
def test_gpus_that_contradict_other_settings_are_refused(words, match):
    own = ["env=char_count", "engine.type=vllm", "engine.python=/p/python"]
    with pytest.raises(ConfigErrors, match=match):
        resolve([overrides([*own, *words])])


@pytest.mark.parametrize(
    "words",
    [
        ["engine.sleep=true", "engine.arguments.gpu_memory_utilization=0.4"],
        ["engine.sleep=true", "engine.arguments.kv_cache_memory_bytes=1000000000"],
        ["engine.gpus=0", "policy.device=cpu"],
        ["engine.gpus=0", "learner=http://127.0.0.1:1"],
        ["engine.gpus=2,3", "ranks=2"],
        ["policy.attention=flex", "policy.device=cpu", "learner=http://127.0.0.1:1"],
    ],
)
def test_what_can_be_combined_is_not_refused(words):
    assert resolve([overrides(["env=char_count", "engine.type=vllm", "engine.python=/p/python", *words])])


def test_an_engine_of_its_own_gpus_sees_no_others(monkeypatch):
    """Numbers count among those that this process sees, by number or by name."""
    for seen, gpus, found in (
        (None, [1], "1"),
        (None, [2, 3], "2,3"),
        ("4,5,6,7", [1], "5"),
        ("4, 5,6,7", [3, 1], "7,5"),
        ("GPU-a,GPU-b", [0], "GPU-a"),
    ):
        present = {"CUDA_VISIBLE_DEVICES": seen} if seen is not None else {}
        assert worker_environment(present, 1, gpus=gpus)["CUDA_VISIBLE_DEVICES"] == found
        assert worker_environment(present, 1) | present == worker_environment(present, 1)
    for seen, missing, fix in (
        ("4,5", 2, "fix: engine.gpus=1"),
        ("4", 2, r"fix: engine.gpus=\[\]"),
        ("", 0, ""),
        ("-1", 0, ""),
        ("0,-1,1", 1, ""),
    ):
        with pytest.raises(ResourceError, match=rf"E545.*there is no GPU {missing}(.|\n)*{fix}"):
            worker_environment({"CUDA_VISIBLE_DEVICES": seen}, 1, gpus=[missing])
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert worker_environment({}, 1, gpus=[1])["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(ResourceError, match=r"E545.*there is no GPU 2(.|\n)*run sees: 2\n"):
        worker_environment({}, 1, gpus=[2])


@pytest.mark.parametrize(
    ("gpus", "found", "parallel"),
    [("[]", [], None), ("1", [1], None), ("[1]", [1], None), ("2,3", [2, 3], 2), ("[4,1,2,3]", [4, 1, 2, 3], 4)],
)
def test_weights_are_divided_among_the_gpus_of_an_engine(gpus, found, parallel):
    words = ["env=char_count", "engine.type=vllm", "engine.python=/p/python", f"engine.gpus={gpus}"]
    engine = make_vllm(resolve([overrides(words)])[0])
    assert engine.arguments.get("tensor_parallel_size") == parallel and engine.gpus == found
    engine.close()
    other = make_vllm(resolve([overrides([*words, "engine.arguments.tensor_parallel_size=1"])])[0])
    assert other.arguments["tensor_parallel_size"] == 1
    other.close()


def test_an_engine_with_a_fixed_cache_starts_on_a_device_that_others_use():
    """vLLM 0.32 wants a share of all memory to be free when it starts."""
    assert beside_others({"kv_cache_memory_bytes": 1})["gpu_memory_utilization"] <= 0.05
    assert beside_others({"max_model_len": 1}) == {}


@pytest.mark.parametrize(
    ("output", "fix"),
    [
        (
            "ValueError: Free memory (3 GiB) on startup is less than desired GPU memory utilization",
            "engine.cache_gib=4",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "a smaller engine.cache_gib"),
        ("ValueError: To serve a request, 3 GiB KV cache is needed", "a larger engine.cache_gib"),
        ("RuntimeError: operator torchvision::nms does not exist", "pip uninstall -y torchvision"),
        ("something else", "remove the cause"),
    ],
)
def test_what_helps_comes_from_the_output_of_vllm(make, plan, output, fix):
    """Its engine is a process of its own, whose failure the answer does not explain."""
    plan(f"broken {output}")
    with pytest.raises(ResourceError) as caught:
        make().load(weights(0))
    assert caught.value.code == "E540" and caught.value.fix.startswith(fix)
    assert output in caught.value.why and "See root cause above" in caught.value.why


@pytest.mark.parametrize("after", ["sample", "load"])
@pytest.mark.parametrize("fault", ["", "killed", "tired", "oversleep"])
def test_an_engine_that_sleeps_is_awake_when_it_is_needed(make, plan, fault, after):
    """Also if its worker dies asleep, dies when it should sleep, or has no memory when it should wake up."""
    whole, engine = make(), make(sleeps=True)
    for each in (whole, engine):
        each.load(weights(0))
    expected = asyncio.run(sample_all(whole, ask(10)))
    for round_ in range(2):
        if fault in ("tired", "oversleep"):
            plan(fault)
        engine.sleep()
        engine.sleep()
        if fault == "killed":
            os.killpg(engine.pid, signal.SIGKILL)
        if after == "load":
            whole.load(weights(round_ + 1))
            engine.load(weights(round_ + 1))
            expected = asyncio.run(sample_all(whole, ask(10)))
        assert asyncio.run(sample_all(engine, ask(10))) == expected
    assert engine.counts()["engine/restarts"].value == (2 if fault else 0)


@pytest.mark.parametrize("slow", [0.0, 0.02])
def test_no_request_reaches_a_worker_that_has_not_woken_up(make, monkeypatch, slow):
    """Memory is returned first, which may take a while on a GPU."""
    monkeypatch.setattr("gnomon.engines.vllm.engine.return_memory", lambda: time.sleep(slow))
    engine = make(sleeps=True)
    engine.load(weights(0))
    for _ in range(3):
        engine.sleep()
        assert len(asyncio.run(sample_all(engine, ask(60)))) == 60
    assert engine.counts()["engine/restarts"].value == 0


@pytest.mark.parametrize("moment", ["sleep", "wake"])
@pytest.mark.parametrize("answered", [False, True])
def test_an_engine_that_was_interrupted_while_it_turned_is_awake_when_needed(make, monkeypatch, moment, answered):
    engine, whole = make(sleeps=True), make()
    for each in (engine, whole):
        each.load(weights(0))
    real = WorkerProcess.begin

    def begin(self, message, **arrays):
        if message["do"] == moment:
            monkeypatch.setattr(WorkerProcess, "begin", real)
            if answered:
                real(self, message, **arrays).result()
            raise KeyboardInterrupt
        return real(self, message, **arrays)

    if moment == "wake":
        engine.sleep()
    monkeypatch.setattr(WorkerProcess, "begin", begin)
    with pytest.raises(KeyboardInterrupt):
        engine.sleep() if moment == "sleep" else engine.load(weights(1))
    engine.load(weights(2))
    whole.load(weights(2))
    assert asyncio.run(sample_all(engine, ask(10))) == asyncio.run(sample_all(whole, ask(10)))


def test_only_an_engine_that_can_sleeps_and_never_while_it_samples(make):
    awake, engine = make(), make(sleeps=True)
    engine.sleep()
    engine.load(weights(0))
    awake.load(weights(0))
    awake.sleep()
    assert len(asyncio.run(sample_all(awake, ask(3)))) == 3

    async def both() -> None:
        samples = asyncio.ensure_future(sample_all(engine, ask(3)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="is sampling"):
            engine.sleep()
        assert len(await samples) == 3

    asyncio.run(both())


@pytest.mark.parametrize("when", ["before the load", "between load and sampling"])
def test_a_worker_that_was_killed_while_idle_is_replaced(make, when):
    engine = make()
    engine.load(weights(0))
    os.killpg(engine.pid, signal.SIGKILL)
    if when == "before the load":
        engine.load(weights(1))
    expected = make()
    expected.load(weights(int(when == "before the load")))
    assert asyncio.run(sample_all(engine, ask(5))) == asyncio.run(sample_all(expected, ask(5)))
    assert engine.counts()["engine/restarts"].value == 1


@pytest.mark.parametrize("fault", ["stale", "half"])
def test_a_load_that_was_made_half_is_found(make, plan, fault):
    engine = make()
    engine.load(weights(0))
    plan(fault)
    with pytest.raises(NumericsError, match=r"E201.*differ from the learner's") as error:
        engine.load(weights(1))
    assert "version 1" in error.value.where and error.value.why and error.value.fix
    assert engine.version == 0
    engine.load(weights(2))
    assert engine.version == 2


def test_decoding_with_other_weights_than_are_scored_is_found(make, plan):
    """As with keys and values of an earlier version in the prefix cache, which scoring does not read."""
    engine = make()
    engine.load(weights(0))
    plan("cache")
    with pytest.raises(NumericsError, match=r"E201.*decodes with other weights"):
        engine.load(weights(1))


def test_an_update_that_the_worker_ignores_once_is_found_below_the_bound(make, plan):
    """No log-probability of the probe changes by as much as the bound."""
    engine, first = make(bound=0.5), weights(0)
    moved = first.tensors["logits"] + 1e-4 * torch.randn(102, generator=torch.Generator().manual_seed(9))
    logp = torch.log_softmax(moved.double(), 0)[list(PROBE[1:])]
    second = replace(first, version=1, tensors={"logits": moved}, probe_logp=tuple(logp.tolist()))
    engine.load(first)
    plan("stale")
    with pytest.raises(NumericsError, match=r"E201.*version 1 of the weights did not reach the engine"):
        engine.load(second)
    engine.load(second)  # The plan is over.
    counts = engine.counts()
    assert counts["weights/version"].value == 1 and abs(counts["weights/share"].value - 1) < 0.01


def test_a_worker_that_never_starts_is_given_up_with_its_output(make, plan):
    engine = make(restarts=2)
    plan("sick")
    with pytest.raises(ResourceError, match="E541") as error:
        engine.load(weights(0))
    assert "ended 3 times" in error.value.what and "no room on the device" in error.value.why


def test_a_release_that_lacks_what_the_worker_uses_is_named(make, plan):
    plan("lacks AsyncLLM.add_lora LoRARequest(load_inplace)")
    with pytest.raises(ResourceError, match="E540") as error:
        make().load(weights(0))
    assert "vLLM 0.32.0 does not have" in error.value.what and "pip install" in error.value.fix
    assert error.value.why == "it lacks AsyncLLM.add_lora, LoRARequest(load_inplace)"


def test_weights_do_not_change_in_flight_where_tokens_have_no_version(make, plan):
    plan("unstamped")
    engine = make()
    engine.load(weights(0))
    engine.close()
    engine = make()
    engine.in_flight = True
    with pytest.raises(ResourceError, match=r"E540(.|\n)*rollout.in_flight=false"):
        engine.load(weights(0))


def test_what_a_release_lacks_is_found_by_looking():
    used = {
        "json:dumps": ("obj", "anything"),  # It takes any parameter.
        "json.decoder:JSONDecoder": ("strict", "level"),
        "json:JSONDecoder.scan": (),
        "no_such_module:thing": (),
    }
    assert absent(used) == ["JSONDecoder(level)", "json.JSONDecoder.scan", "no_such_module.thing"]


@pytest.mark.parametrize("stated", [None, "float32", "bfloat16"])
@pytest.mark.parametrize("own", ["float32", "bfloat16"])
@pytest.mark.parametrize("learner", ["float32", "bfloat16", "float16"])
def test_the_vocabulary_projection_has_the_learners_dtype(make, tmp_path, learner, own, stated):
    """Whatever dtype the rest of vLLM has, and whatever `config.json` states."""
    folder = Path(shutil.copytree(TINY, tmp_path / "model"))
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | ({"head_dtype": stated} if stated else {})))
    engine = {"type": "vllm", "dtype": own, "python": sys.executable}
    settings = {"policy": {"path": str(folder), "dtype": learner}, "engine": engine}
    made = make_vllm(configure("char_count", settings)[0])
    made.close()
    found = make(folder, arguments=made.arguments, head=made.head)
    found.load(replace(weights(0), base=base_hash(folder)))
    assert found.versions["head"] == learner


def test_a_device_that_computes_the_projection_in_another_dtype_is_refused(make, plan):
    plan("only bfloat16")
    with pytest.raises(ResourceError, match=r"E544.*bfloat16, and the learner in float32(.|\n)*policy.dtype=bfloat16"):
        make(arguments={"dtype": "bfloat16"}, head="float32").load(weights(0))


def test_an_environment_without_vllm_or_without_python_is_refused():
    for command, told in ((sys.executable, "has no vLLM"), ("/nowhere/python", "cannot be started")):
        engine = VLLM(
            TINY, (command, str(WORKER.parents[2] / "src/gnomon/engines/vllm/worker.py")), arguments={}, bound=1.0
        )
        with pytest.raises(ResourceError, match=f"E540.*{told}"):
            engine.load(weights(0))
        engine.close()


def test_weights_of_another_kind_or_base_are_refused(make):
    with pytest.raises(ModelError, match="E323"):
        make().load(weights(0, Kind.ADAPTER))


def test_a_cancelled_request_is_forgotten(make):
    engine = make()
    engine.load(weights(0))

    async def cancelled() -> None:
        task = asyncio.ensure_future(engine.sample(ask(1)[0]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    engine.load(weights(1))
    assert asyncio.run(sample_all(engine, ask(2)))[0].version == 1


def test_weights_are_loaded_between_two_batches(make):
    engine = make()
    engine.load(weights(0))

    async def both() -> None:
        task = asyncio.ensure_future(engine.sample(ask(1)[0]))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="between two batches"):
            engine.load(weights(1))
        await task

    asyncio.run(both())


def test_nothing_is_left_at_the_end(make):
    engine = make()
    engine.load(weights(0))
    engine.load(weights(1))
    files = sorted(path.name for path in engine.place.glob("weights-*"))
    assert files == ["weights-000002.safetensors"]  # Every version has a name of its own; old ones are removed.
    pid, place = engine.pid, engine.place
    engine.close()
    assert gone_soon(pid) and not place.exists()


def test_folders_of_engines_that_were_killed_are_deleted_by_the_next_one(tmp_path, monkeypatch, make):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = make()
    if (owner := os.fork()) == 0:
        try:
            make()
            (tmp_path / "begun").touch()
            signal.pause()
        finally:
            os._exit(1)
    while not (tmp_path / "begun").exists():
        time.sleep(0.02)
    assert len(list(tmp_path.glob("gnomon-engine-*"))) == 2
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    newest = make()
    assert sorted(tmp_path.glob("gnomon-engine-*")) == sorted([living.place, newest.place])


def test_a_worker_ends_with_the_process_that_started_it_and_deletes_its_files(tmp_path):
    """Killed, so that nothing of its own can run."""
    told, place = tmp_path / "pid", tmp_path / "place"
    place.mkdir()
    if (owner := os.fork()) == 0:
        try:
            command = (sys.executable, str(WORKER), str(place))
            worker = WorkerProcess(command, dict(os.environ), place / "worker.log", 20.0)
            worker.hello.result()
            (tmp_path / "new").write_text(str(worker.pid))
            os.replace(tmp_path / "new", told)
            signal.pause()
        finally:
            os._exit(1)
    while not told.exists():
        time.sleep(0.02)
    pid = int(told.read_text())
    assert alive(pid) and place.exists()
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    assert gone_soon(pid) and not place.exists()


def test_variables_of_this_environment_do_not_reach_the_other():
    found = worker_environment({"PYTHONPATH": "x", "VIRTUAL_ENV": "y", "HOME": "/h"}, 3)
    assert "PYTHONPATH" not in found and "VIRTUAL_ENV" not in found and found["HOME"] == "/h"
    assert "VLLM_BATCH_INVARIANT" not in found
    assert worker_environment({}, 3, batch_invariant=True)["VLLM_BATCH_INVARIANT"] == "1"
    assert found["OMP_NUM_THREADS"] == "3" and found["HF_HUB_OFFLINE"] == "1"
