"""The dialect of `/v1/messages`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gnomon.agents.dialect import Dialect, Event, compact
from gnomon.agents.exchange import ChatReply, ChatRequest, Refused, in_call_order
from gnomon.agents.fields import Body, absent, choice, entries, number, stops, text_of, tool_of
from gnomon.agents.pictures import content_of
from gnomon.types import Message, Tool, ToolCall

__all__ = ["MESSAGES"]

BILLING = "x-anthropic-billing-header"
"""Begins a system block of a client that differs in every request. It is no part of the conversation."""
REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def read(body: Body) -> ChatRequest:
    """Raises: Refused."""
    absent(body, "mcp_servers", "container", why="nothing runs tools here but the program")
    absent(body, "output_format", why="constrained replies are not sampled from the policy")
    calls, required = choice(body.get("tool_choice"))
    system = system_of(body.get("system"))
    messages = [message for entry in entries(body.get("messages"), "messages") for message in messages_of(entry)]
    return ChatRequest(
        messages=in_call_order([*system, *messages]),
        tools=tuple(tool(entry) for entry in entries(body.get("tools") or [], "tools")),
        model=str(body.get("model", "")),
        max_tokens=number(body, "max_tokens"),
        stop=stops(body.get("stop_sequences")),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        calls=calls,
        required=required,
        stream=bool(body.get("stream")),
    )


def system_of(content: Any) -> list[Message]:
    if isinstance(content, list):
        content = [block for block in entries(content, "system") if not str(block.get("text", "")).startswith(BILLING)]
    text = text_of(content)
    return [Message(role="system", content=text)] if text else []


def messages_of(entry: Body) -> Iterator[Message]:
    """Yield the messages of an entry: its tool results one by one, then its text and images."""
    role, content = entry.get("role"), entry.get("content")
    if role not in ("system", "user", "assistant"):
        raise Refused(f"the role {role!r} is not supported", code="invalid_request")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else entries(content, "content")
    if role == "assistant":
        yield assistant(blocks)
        return
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        yield Message(role="tool", call_id=str(block.get("tool_use_id", "")), **content_of(block.get("content")))
    others = [block for block in blocks if block.get("type") != "tool_result"]
    if others or not results:
        yield Message(role=role, **(content_of(others) if role == "user" else {"content": text_of(others)}))


def assistant(blocks: Any) -> Message:
    thoughts = [str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking"]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    texts = [block for block in blocks if block.get("type") not in ("thinking", "tool_use")]
    return Message(
        role="assistant",
        content=text_of(texts),
        reasoning="".join(thoughts) if thoughts else None,
        calls=tuple(
            ToolCall(
                id=str(block.get("id", "")),
                name=str(block.get("name", "")),
                arguments=json.dumps(block.get("input") or {}, ensure_ascii=False),
            )
            for block in calls
        ),
    )


def tool(entry: Body) -> Tool:
    if entry.get("type") not in (None, "custom"):
        raise Refused(
            f"a tool of type {entry.get('type')!r} is not supported: describe it with an input_schema",
            code="unsupported_tool",
        )
    return tool_of(entry.get("name"), entry.get("description"), entry.get("input_schema"))


def write(request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
    return {
        **opening(request, reply),
        "content": list(blocks_of(reply)),
        "stop_reason": "stop_sequence" if reply.stop else REASONS[reply.finish],
        "stop_sequence": reply.stop,
        "usage": {**usage(reply), "output_tokens": reply.tokens},
    }


def opening(request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.name}",
        "type": "message",
        "role": "assistant",
        "model": request.model or "policy",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage(reply), "output_tokens": 0},
    }


def usage(reply: ChatReply) -> dict[str, Any]:
    return {
        "input_tokens": reply.prompt_tokens - reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
    }


def blocks_of(reply: ChatReply) -> Iterator[dict[str, Any]]:
    """Yield the content blocks of a reply."""
    message = reply.message
    if message.reasoning is not None:
        yield {"type": "thinking", "thinking": message.reasoning, "signature": reply.name}
    if message.content or not message.calls:
        yield {"type": "text", "text": message.content, "citations": None}
    for call in message.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.value}


def events(request: ChatRequest, reply: ChatReply) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    yield event("message_start", message=opening(request, reply))
    for index, block in enumerate(blocks_of(reply)):
        empty, deltas = stream(block)
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    whole = write(request, reply)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
    yield event("message_delta", delta=ended, usage=whole["usage"])
    yield event("message_stop")


def stream(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it begins, and the deltas that complete it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        return {**block, "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": compact(block["input"])}]


def error(refused: Refused) -> dict[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}
    kind = kinds.get(refused.status, "invalid_request_error" if refused.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refused.message}}


MESSAGES = Dialect(path="/messages", read=read, write=write, events=events, error=error)
