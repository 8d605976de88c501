"""An engine whose worker holds vLLM. A worker that dies or hangs is replaced, and what it owed is sampled again."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch

from gnomon.engines.base import Tier
from gnomon.engines.endings import Endings
from gnomon.engines.probe import require_equal
from gnomon.engines.receipt import Receipts
from gnomon.engines.vllm.environment import require_stamps, require_surface, require_vllm, worker_environment
from gnomon.engines.vllm.files import adapter_folder, link_folder, model_file, own_folder, remove
from gnomon.engines.vllm.frames import Arrays, Message
from gnomon.engines.vllm.pictures import Pictures, sight_arguments
from gnomon.engines.vllm.process import Gone, Refused, WorkerProcess
from gnomon.errors import ResourceError
from gnomon.models.adapter import Adapter
from gnomon.models.folder import base_hash
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import PROBE, WeightsRef, require_loadable
from gnomon.repeats import Repeats
from gnomon.stats import Stats, Sum
from gnomon.types import Completion, Finish, Request

__all__ = ["VLLM", "WORKER"]

WORKER = Path(__file__).with_name("worker.py")
DECODED = 16
"""Tokens that are sampled after every load, to compare decoding with scoring."""
CAUSES = {
    "torchvision::nms": "pip uninstall -y torchvision torchaudio torchcodec, in the environment of vLLM",
    "No module named 'torchvision'": "install torchvision for its torch, in the environment of vLLM",
    "num2words": "pip install num2words, in the environment of vLLM",
    "memory utilization": "engine.cache_gib=4, or as much as the GPU has room for beside the learner",
    "KV cache": "a larger engine.cache_gib, or a smaller rollout.context",
    "out of memory": "a smaller engine.cache_gib, or engine.gpus=1 where there is a second GPU",
    "": "remove the cause that its output names (docs/engines.md)",
}
"""Text in vLLM's output when it does not start, and the fix."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks of adapters for which vLLM can make room."""
CACHED = 192
"""Tokens of the prompt before them: more than a block of any prefix cache, so that an old one would be read."""


class VLLM:
    """Samples through a worker, which is started when it is first needed.

    The weights of every version go to a file or a folder of their own, and a probe follows. A request is answered from
    the weights alone, but its log-probabilities depend on the batch by rounding, so the tier is `measured`.

    Args:
        folder: the model that training began from.
        command: program and arguments that start a worker.
        arguments: of vLLM's `AsyncEngineArgs`, beside the model.
        adapter: is loaded in the place of the model's parameters, which stay as they are.
        bound: largest difference of a probe's log-probability, in nats.
        patience: seconds without any answer after which a worker that has work counts as hung.
        restarts: most replacements in a row, without a completion between them.
        batch_invariant: whether a row has the same bits in every batch.
        head: dtype of the vocabulary projection, which is the learner's; `model` for the dtype of all else. It also
            holds where the model's `config.json` has a `head_dtype`.
        sleeps: whether `sleep` frees its memory.
        gpus: numbers of those that it uses, as `engine.gpus`.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        arguments: Mapping[str, Any],
        bound: float,
        adapter: Adapter | None = None,
        patience: float = 600.0,
        restarts: int = 3,
        threads: int = 1,
        batch_invariant: bool = False,
        head: str = "model",
        sleeps: bool = False,
        gpus: Sequence[int] = (),
    ) -> None:
        self.tier, self.version, self.folder, self.bound = Tier.MEASURED, 0, folder, bound
        self.in_flight = False
        """Whether weights may be loaded while requests run. They go on with the keys and values that they have."""
        self.adapter = adapter
        self.command, self.patience, self.threads = tuple(command), patience, threads
        self.tokenizer, self.batch_invariant = Tokenizer(folder), batch_invariant
        self.sleeps, self.gpus, self._asleep = sleeps, gpus, False
        self._endings, self._base = Endings(self.tokenizer), base_hash(folder)
        self.place, self._lock = own_folder()
        self.arguments, self.head = arguments, head
        coarser = head not in ("model", arguments.get("dtype")) or bool(arguments.get("quantization"))
        self._receipts = Receipts(rounds=coarser)
        self._pictures = Pictures(folder, self.place)
        self._arguments = {
            **lora(adapter),
            **sight_arguments(folder),
            "hf_overrides": {"head_dtype": head},
            **arguments,
        }
        self._arguments |= {"enable_sleep_mode": True} if sleeps else {}
        self._arguments |= {"model": str(link_folder(folder, self.place / "model"))}
        self.versions: Mapping[str, str] = {}
        """Of the worker's Python, vLLM and torch, its device, and the dtype of its vocabulary projection."""
        self._worker: WorkerProcess | None = None
        self._weights: tuple[Path, int] | None = None
        """What a worker loads, a file or the folder of an adapter, and the version in it."""
        self._replacing: Future[None] | None = None
        self._changing, self._closed = threading.RLock(), False
        self._repeats = Repeats(restarts)
        self._waiting = self._files = self._replaced = self._resampled = 0
        self._started: list[WorkerProcess] = []
        """Those that have not been ended."""
        self._end = weakref.finalize(self, clear, self.place, self._started)

    @property
    def pid(self) -> int:
        """Of the worker, which leads a process group; 0 where there is none."""
        return self._worker.pid if self._worker else 0

    async def sample(self, request: Request) -> Completion:
        self._waiting += 1
        try:
            while True:
                if self._asleep:
                    await asyncio.to_thread(self._wake)
                worker = self._worker
                try:
                    if worker is None:
                        raise Gone("it has not been started")
                    message, arrays = await asyncio.wrap_future(self._begin(worker, request))
                except Gone:
                    self._resampled += worker is not None
                    await asyncio.shield(asyncio.wrap_future(self._replacement(worker)))
                except Refused as error:
                    raise self._refusal(error) from error
                else:
                    self._repeats.on_answer()
                    return self._completion(request, message, arrays)
        finally:
            self._waiting -= 1

    def _begin(self, worker: WorkerProcess, request: Request) -> Future[Any]:
        """Send a request. Its seed comes from its key, so a repeated request is the same request."""
        sampling = request.sampling
        params = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "seed": int.from_bytes(request.key[:8], "little") >> 1,
        }
        ends = sorted(self.tokenizer.eos | sampling.stop_ids | self._pictures.ends)
        prompt, images = self._pictures.split(request.prompt_ids)
        message = {"do": "sample", "sampling": params, "stop": list(sampling.stop), "stop_ids": ends, "images": images}
        return worker.begin(message, prompt=prompt)

    def _completion(self, request: Request, message: Mapping[str, Any], arrays: Mapping[str, array[Any]]) -> Completion:
        """What was sampled, up to where our own rule ends it."""
        ids, logps = arrays["token_ids"].tolist(), arrays["logprobs"].tolist()
        finish = Finish.LENGTH if message["finish"] == "length" else Finish.STOP
        grown: list[int] = []
        for token in ids:
            grown.append(token)
            if reason := self._endings.finish(grown, request.sampling):
                finish = reason
                break
        ids, logps = grown, logps[: len(grown)]
        if request.sampling.temperature == 0:
            logps = [0.0] * len(ids)
        text = self.tokenizer.decode(ids)
        (_, version), *changes = message.get("versions") or [(0, self.version)]
        return Completion(
            token_ids=tuple(ids),
            logprobs=tuple(logps),
            text=text,
            finish=finish,
            version=version,
            changes=tuple((position, later) for position, later in changes if position < len(ids)),
        )

    def load(self, weights: WeightsRef) -> None:
        require_loadable(weights, self._base, self.adapter.rank if self.adapter else 0)
        if self._waiting and not self.in_flight:
            raise RuntimeError("the engine is sampling; weights are loaded between two batches")
        old, self._weights = self._weights, (self._store(weights), weights.version)
        with self._changing:
            self._wake()
            try:
                if self._worker is None:
                    raise Gone("it has not been started")
                self._send_weights(self._worker)
            except Gone:
                self._replace(self._worker)
            if old is not None:
                remove(old[0])
            self._prove(weights)
        self.version = weights.version

    def sleep(self) -> None:
        """Have the worker free the memory of weights, keys and values until it is needed again.

        Does nothing if the worker already sleeps or there is no worker.
        """
        with self._changing:
            if not self.sleeps or self._asleep or self._worker is None:
                return
            if self._waiting:
                raise RuntimeError("the engine is sampling; it can sleep only between two batches")
            self._asleep = True  # Also if an interrupt comes before the answer.
            self._turn(self._worker, "sleep")

    def _wake(self) -> None:
        """Have a sleeping worker take its memory again. This process frees its cached GPU memory first."""
        with self._changing:
            if self._asleep and self._worker is not None:
                return_memory()
                self._turn(self._worker, "wake")
            self._asleep = False

    def _turn(self, worker: WorkerProcess, what: str) -> None:
        """Have a worker sleep or wake up. A worker that fails to is killed, and replaced when next needed."""
        with suppress(Gone):
            try:
                worker.begin({"do": what}).result()
            except Refused:
                worker.kill()

    def _store(self, weights: WeightsRef) -> Path:
        """The weights in a file or folder of our own. No version before it had its name."""
        self._files += 1
        name = f"weights-{self._files:06d}"
        if self.adapter:
            return adapter_folder(weights, self.place / name, self.adapter, self.folder)
        return model_file(weights, self.place / f"{name}.safetensors", self.folder)

    def _prove(self, weights: WeightsRef) -> None:
        """Compare the worker with the learner, and its decoding with its scoring. Raises: NumericsError E201."""
        version = f"version {weights.version}"
        scored = self._ask({"do": "score"}, weights.probe)["logprobs"]
        first = slice(PROBE - 1)
        require_equal(scored[first], weights.probe_logp[first], self.bound, version, decoding=False)
        self._receipts.check(weights, scored)
        room = int(self._arguments.get("max_model_len") or CACHED + DECODED + 1) - DECODED - 1
        prompt = (weights.probe * (CACHED // len(weights.probe) + 1))[: min(CACHED, room)]
        params = {"temperature": 1.0, "max_tokens": DECODED, "seed": 1}
        sample = self._ask({"do": "sample", "sampling": params, "stop": [], "stop_ids": []}, prompt)
        again = self._ask({"do": "score"}, (*prompt, *sample["token_ids"]))["logprobs"]
        require_equal(sample["logprobs"], again[-len(sample["token_ids"]) :], self.bound, version, decoding=True)

    def _ask(self, message: dict[str, Any], prompt: Sequence[int]) -> Arrays:
        """An answer, from another worker if need be."""
        while True:
            worker = self._worker
            try:
                if worker is None:
                    raise Gone("it has not been started")
                return self._call(worker, message, prompt=array("i", prompt))
            except Gone:
                self._replace(worker)

    def _call(self, worker: WorkerProcess, message: dict[str, Any], **arrays: array[Any]) -> Arrays:
        """An answer of this worker. Raises: Gone; ResourceError E542 for what it refuses."""
        try:
            return worker.begin(message, **arrays).result()[1]
        except Refused as error:
            raise self._refusal(error) from error

    def _replacement(self, gone: WorkerProcess | None) -> Future[None]:
        """One replacement for all who wait for it, in a thread that an interrupt does not wait for."""
        if self._replacing is None or self._replacing.done():
            done: Future[None] = Future()

            def work() -> None:
                try:
                    self._replace(gone)
                except BaseException as error:
                    done.set_exception(error)
                else:
                    done.set_result(None)

            self._replacing = done
            threading.Thread(target=work, name="engine start", daemon=True).start()
        return self._replacing

    def _replace(self, gone: WorkerProcess | None) -> None:
        """Start a worker with the present weights in the place of one that has gone, unless that was done.

        Raises: ResourceError E540 where the environment does not fit, E541 after too many in a row.
        """
        with self._changing:
            if self._worker is not gone:
                return
            while True:
                if gone is not None:
                    self._count(gone)
                gone = self._start()
                try:
                    self._prepare(gone)
                except Gone:
                    continue
                except BaseException:
                    gone.kill()
                    raise
                self._worker = gone
                return

    def _start(self) -> WorkerProcess:
        if self._closed:
            raise RuntimeError("the engine is closed")
        for worker in self._started:
            worker.kill()
        self._asleep = False
        if self.sleeps:
            return_memory()
        environment = worker_environment(os.environ, self.threads, batch_invariant=self.batch_invariant, gpus=self.gpus)
        try:
            worker = WorkerProcess(
                (*self.command, str(self.place)), environment, self.place / "worker.log", self.patience
            )
        except OSError as error:
            raise ResourceError(
                "E540",
                "the engine's interpreter cannot be started",
                where=self.command[0],
                why=str(error),
                fix="engine.python=PATH/bin/python of the environment with vLLM (docs/engines.md)",
            ) from error
        self._started[:] = [worker]
        return worker

    def _prepare(self, worker: WorkerProcess) -> None:
        """Have a new worker open the model and take over the present weights."""
        versions = worker.hello.result()[0]["hello"]
        require_vllm(versions, self.command[0])
        opened = self._open(worker)
        require_surface(opened.get("lacking", ()), versions, self.command[0])
        self.versions = {**versions, **{name: opened[name] for name in ("device", "head") if name in opened}}
        if self.in_flight:
            require_stamps(opened.get("stamps", True), versions, self.command[0])
        if self.batch_invariant and self.versions["device"] == "cpu":
            raise self._on_cpu(
                "batch_invariant", "vLLM has kernels for this mode on CUDA devices of compute capability 8.0 or more"
            )
        if self.sleeps and self.versions["device"] == "cpu":
            raise self._on_cpu("sleep", "vLLM can free the memory of CUDA devices only")
        if self.gpus and self.versions["device"] == "cpu":
            raise self._on_cpu("gpus", "vLLM in this environment is built for a CPU")
        if self.head != "model" and (head := self.versions.get("head", self.head)) != self.head:
            raise ResourceError(
                "E544",
                f"vLLM computes the vocabulary projection in {head}, and the learner in {self.head}",
                where=self.command[0],
                why="the device of vLLM has no such products; a projection that differs on one side only makes the "
                "difference of the log-probabilities larger",
                fix=f"policy.dtype={head}",
            )
        self._send_weights(worker)

    def _send_weights(self, worker: WorkerProcess) -> None:
        """Have a worker take over the present weights, if there are any."""
        if self._weights is not None:
            path, version = self._weights
            self._call(worker, {"do": "load", "path": str(path), "version": version, "in_flight": self.in_flight})

    def _count(self, gone: WorkerProcess) -> None:
        """Count a replacement. Raises: ResourceError E541."""
        if not self._repeats.another(gone.why):
            raise ResourceError(
                "E541",
                f"the engine's worker ended {self._repeats.count} times without a completion between: {gone.why}",
                where=" ".join(self.command),
                why=f"its last output was:\n{gone.tail()}",
                fix="remove the cause that its output names, then: gnomon resume RUN",
            )
        self._replaced += 1

    def _open(self, worker: WorkerProcess) -> Message:
        """Have vLLM load the model. Returns: what the worker says of it."""
        try:
            return worker.begin({"do": "open", "arguments": self._arguments}).result()[0]
        except Refused as error:
            log = worker.output()  # It has the cause: the answer does not say why vLLM's own process failed.
            fix = next((fix for sign, fix in CAUSES.items() if sign in f"{error} {log}"), CAUSES[""])
            raise ResourceError(
                "E540",
                "vLLM does not start",
                where=self.command[0],
                why=f"{error}; its last output was:\n{worker.tail()}",
                fix=fix,
            ) from error

    def _on_cpu(self, setting: str, why: str) -> ResourceError:
        return ResourceError(
            "E543",
            f"engine.{setting} needs a CUDA device, and vLLM computes on a CPU",
            where=self.command[0],
            why=why,
            fix="engine.gpus=[]" if setting == "gpus" else f"engine.{setting}=false",
        )

    def _refusal(self, error: Refused) -> ResourceError:
        return ResourceError(
            "E542",
            "the engine could not answer a request",
            where=self.command[0],
            why=str(error),
            fix="where the request is too long, lower rollout.context; other causes: docs/engines.md",
        )

    def counts(self) -> Stats:
        """What went wrong since the last call, and what the loads have proved."""
        stats: Stats = {"engine/restarts": Sum(self._replaced), "engine/resampled": Sum(self._resampled)}
        stats |= self._receipts.stats()
        self._replaced = self._resampled = 0
        return stats

    def close(self) -> None:
        """End the worker, and remove its files."""
        self._closed = True
        for worker in self._started:
            worker.close()
        self._end()
        self._lock.close()


def return_memory() -> None:
    """Return what PyTorch keeps of freed memory to the GPU, where vLLM can take it."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gc.collect()
        torch.cuda.empty_cache()


def clear(folder: Path, workers: Sequence[WorkerProcess]) -> None:
    """Leave nothing behind."""
    for worker in workers:
        worker.kill()
    rmtree(folder, ignore_errors=True)


def lora(adapter: Adapter | None) -> dict[str, Any]:
    """Arguments by which vLLM makes room for one adapter."""
    if adapter is None:
        return {}
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": next(rank for rank in RANKS if rank >= adapter.rank)}
