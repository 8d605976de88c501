"""The dialect of `/v1/responses`, without state on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from gnomon.agents.chat import openai_error
from gnomon.agents.dialect import Dialect, Event
from gnomon.agents.exchange import ChatReply, ChatRequest, Refused, in_call_order
from gnomon.agents.fields import Body, absent, choice, entries, number, table, text_of, tool_of
from gnomon.agents.pictures import content_of
from gnomon.types import Message, Tool, ToolCall

__all__ = ["RESPONSES"]

INSIDE = "/"
"""Between a namespace and a tool of it."""


def read(body: Body) -> ChatRequest:
    """Raises: Refused."""
    absent(body, "previous_response_id", "conversation", why="nothing is kept here; send all items as input")
    absent(body, "background", "prompt", why="a request is answered at once, from its own input")
    absent(body, "top_logprobs", why="only the log-probability of the sampled token is known")
    if table(table(body, "text"), "format").get("type", "text") != "text":
        raise Refused(
            "text.format is not supported: constrained replies are not sampled from the policy",
            code="unsupported_response_format",
        )
    calls, required = choice(body.get("tool_choice"))
    prompt = body.get("input")
    items = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else entries(prompt, "input")
    system = [Message(role="system", content=str(body["instructions"]))] if body.get("instructions") else []
    return ChatRequest(
        messages=in_call_order([*system, *messages_of(items)]),
        tools=tuple(tools_of(entries(body.get("tools") or [], "tools"))),
        model=str(body.get("model", "")),
        max_tokens=number(body, "max_output_tokens"),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        calls=calls,
        required=required,
        stream=bool(body.get("stream")),
        logprobs="message.output_text.logprobs" in str(body.get("include")),
    )


def messages_of(items: Sequence[Body]) -> list[Message]:
    """The messages of some items. Reasoning, text and calls of one reply are items of their own."""
    messages: list[Message] = []
    open_reply = False
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            messages.append(
                Message(role="tool", call_id=str(item.get("call_id", "")), **content_of(item.get("output")))
            )
            open_reply = False
        elif kind == "message" and item.get("role") != "assistant":
            messages.append(other_message(item))
            open_reply = False
        elif kind in ("message", "reasoning", "function_call"):
            part = part_of(kind, item)
            if open_reply and follows(messages[-1], part):
                messages[-1] = merge(messages[-1], part)
            else:
                messages.append(part)
            open_reply = True
        else:
            raise Refused(f"input of type {kind!r} is not supported", code="unsupported_content")
    return messages


def other_message(item: Body) -> Message:
    role = item.get("role")
    if role not in ("system", "developer", "user"):
        raise Refused(f"the role {role!r} is not supported", code="invalid_request")
    if role == "user":
        return Message(role=role, **content_of(item.get("content")))
    return Message(role="system", content=text_of(item.get("content")))


def part_of(kind: str, item: Body) -> Message:
    """One item of a reply, as a message."""
    if kind == "reasoning":
        parts = item.get("content") or item.get("summary") or []
        text = text_of(parts, ("reasoning_text", "summary_text", "text"))
        return Message(role="assistant", reasoning=text or None)
    if kind == "function_call":
        space = f"{item['namespace']}{INSIDE}" if item.get("namespace") else ""
        name, arguments = f"{space}{item.get('name', '')}", str(item.get("arguments") or "")
        call = ToolCall(id=str(item.get("call_id", "")), name=name, arguments=arguments)
        return Message(role="assistant", calls=(call,))
    return Message(role="assistant", content=text_of(item.get("content")))


def follows(before: Message, part: Message) -> bool:
    """Whether an item belongs to the same reply: reasoning comes first, then text, then calls."""
    if part.calls:
        return True
    return not before.calls and not before.content and part.reasoning is None


def merge(before: Message, part: Message) -> Message:
    return replace(before, content=before.content + part.content, calls=(*before.calls, *part.calls))


def tools_of(listed: Sequence[Body]) -> Iterator[Tool]:
    """Yield the tools; those of a namespace have its name before their own."""
    for entry in listed:
        if entry.get("type") != "namespace":
            yield tool(entry)
            continue
        for inner in map(tool, entries(entry.get("tools") or [], "tools")):
            yield replace(inner, name=f"{entry.get('name', '')}{INSIDE}{inner.name}")


def tool(entry: Body) -> Tool:
    if entry.get("type") != "function":
        raise Refused(
            f"a tool of type {entry.get('type')!r} is not supported: nothing runs tools here but the program",
            code="unsupported_tool",
        )
    return tool_of(entry.get("name"), entry.get("description"), entry.get("parameters"))


def write(request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
    cut = reply.finish == "length"
    return {
        **base(request, reply),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": list(output(reply)),
        "usage": {
            "input_tokens": reply.prompt_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": reply.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.prompt_tokens + reply.tokens,
        },
    }


def base(request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
    return {
        "id": f"resp_{reply.name}",
        "object": "response",
        "created_at": 0,
        "model": request.model or "policy",
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def output(reply: ChatReply) -> Iterator[dict[str, Any]]:
    """Yield the items of a reply."""
    message = reply.message
    status = "incomplete" if reply.finish == "length" else "completed"
    if message.reasoning is not None:
        text = {"type": "reasoning_text", "text": message.reasoning}
        yield {"id": f"rs_{reply.name}", "type": "reasoning", "summary": [], "content": [text], "status": status}
    if message.content or not message.calls:
        yield {
            "id": f"msg_{reply.name}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [text_part(reply)],
        }
    for call in message.calls:
        space, _, name = call.name.rpartition(INSIDE)
        yield {
            "id": f"fc_{call.id.removeprefix('call_')}",
            "type": "function_call",
            "call_id": call.id,
            "name": name,
            **({"namespace": space} if space else {}),
            "arguments": call.arguments,
            "status": status,
        }


def text_part(reply: ChatReply) -> dict[str, Any]:
    logprobs = [
        {"token": text, "logprob": logp, "bytes": list(text.encode()), "top_logprobs": []}
        for text, logp in reply.pieces
    ]
    return {"type": "output_text", "text": reply.message.content, "annotations": [], "logprobs": logprobs}


def events(request: ChatRequest, reply: ChatReply) -> Iterator[Event]:
    numbers = count()

    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(numbers), **data}

    yield event("response.created", response=base(request, reply))
    yield event("response.in_progress", response=base(request, reply))
    for index, item in enumerate(output(reply)):
        at = {"output_index": index, "item_id": item["id"]}
        nothing: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        empty = {**item, "status": "in_progress", **nothing}
        yield event("response.output_item.added", output_index=index, item=empty)
        if item["type"] == "function_call":
            yield event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **at, arguments=item["arguments"], name=item["name"])
        else:
            yield from part_events(event, at, item)
        yield event("response.output_item.done", output_index=index, item=item)
    whole = write(request, reply)
    yield event(f"response.{whole['status']}", response=whole)


def part_events(event: Any, at: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of an item's one part: of text or of reasoning."""
    (part,) = item["content"]
    kind = part["type"]
    more = {"logprobs": part["logprobs"]} if kind == "output_text" else {}
    yield event("response.content_part.added", **at, content_index=0, part={**part, "text": ""})
    yield event(f"response.{kind}.delta", **at, content_index=0, delta=part["text"], **more)
    yield event(f"response.{kind}.done", **at, content_index=0, text=part["text"], **more)
    yield event("response.content_part.done", **at, content_index=0, part=part)


RESPONSES = Dialect(path="/responses", read=read, write=write, events=events, error=openai_error)
