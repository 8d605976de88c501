"""vLLM as an engine: in a process and an environment of its own."""

from gnomon.engines.vllm.engine import VLLM

__all__ = ["VLLM"]
