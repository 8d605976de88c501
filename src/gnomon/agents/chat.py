"""The dialect of `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gnomon.agents.dialect import Dialect, Event
from gnomon.agents.exchange import ChatReply, ChatRequest, Refused, in_call_order
from gnomon.agents.fields import Body, absent, choice, entries, number, stops, table, text_of, tool_of
from gnomon.agents.pictures import content_of
from gnomon.types import Message, Tool, ToolCall

__all__ = ["CHAT", "openai_error"]


def read(body: Body) -> ChatRequest:
    """Raises: Refused."""
    if body.get("n") not in (None, 1):
        raise Refused(
            "n is not supported: a request samples one reply; send it again for another", code="unsupported_n"
        )
    absent(body, "functions", "function_call", why="use tools")
    absent(body, "audio", "web_search_options", "prediction", why="only text that the policy samples can be trained")
    absent(body, "logit_bias", why="it would change the distribution that is trained")
    absent(body, "top_logprobs", why="only the log-probability of the sampled token is known")
    shape = body.get("response_format")
    if shape and (not isinstance(shape, Mapping) or shape.get("type") != "text"):
        raise Refused(
            "response_format is not supported: constrained replies are not sampled from the policy",
            code="unsupported_response_format",
        )
    calls, required = choice(body.get("tool_choice"))
    options = table(body, "stream_options")
    return ChatRequest(
        messages=in_call_order(message_of(entry) for entry in entries(body.get("messages"), "messages")),
        tools=tuple(tool(entry) for entry in entries(body.get("tools") or [], "tools")),
        model=str(body.get("model", "")),
        max_tokens=number(body, "max_completion_tokens", "max_tokens"),
        stop=stops(body.get("stop")),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        seed=number(body, "seed", least=None),
        calls=calls,
        required=required,
        stream=bool(body.get("stream")),
        usage=bool(options.get("include_usage")),
        logprobs=bool(body.get("logprobs")),
    )


def message_of(entry: Body) -> Message:
    role = entry.get("role")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise Refused(f"the role {role!r} is not supported", code="invalid_request")
    reasoning = entry.get("reasoning_content") or entry.get("reasoning")
    content = entry.get("content")
    return Message(
        role="system" if role == "developer" else role,
        **(content_of(content) if role in ("user", "tool") else {"content": text_of(content)}),
        reasoning=reasoning if isinstance(reasoning, str) and role == "assistant" else None,
        calls=tuple(tool_call(call) for call in entries(entry.get("tool_calls") or [], "tool_calls")),
        call_id=str(entry.get("tool_call_id") or ""),
    )


def tool_call(call: Body) -> ToolCall:
    function = call.get("function")
    if not isinstance(function, Mapping):
        raise Refused(f"a tool call of type {call.get('type')!r} is not supported", code="unsupported_tool")
    return ToolCall(
        id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=str(function.get("arguments") or "")
    )


def tool(entry: Body) -> Tool:
    function = entry.get("function")
    if entry.get("type") != "function" or not isinstance(function, Mapping):
        raise Refused(
            f"a tool of type {entry.get('type')!r} is not supported: nothing runs tools here but the program",
            code="unsupported_tool",
        )
    return tool_of(function.get("name"), function.get("description"), function.get("parameters"))


def write(request: ChatRequest, reply: ChatReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.message.content or None}
    if not reply.message.calls:
        message["content"] = reply.message.content
    if reply.message.reasoning is not None:
        message["reasoning_content"] = reply.message.reasoning
    if reply.message.calls:
        message["tool_calls"] = [call_entry(call) for call in reply.message.calls]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": logprobs(reply)}
    return {**head(request, reply, "chat.completion"), "choices": [choice], "usage": usage(reply)}


def events(request: ChatRequest, reply: ChatReply) -> Iterator[Event]:
    base = head(request, reply, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> Event:
        return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}

    yield chunk({"role": "assistant", "content": ""})
    if reply.message.reasoning:
        yield chunk({"reasoning_content": reply.message.reasoning})
    if reply.message.content:
        yield chunk({"content": reply.message.content}, logprobs=logprobs(reply))
    for index, call in enumerate(reply.message.calls):
        yield chunk({"tool_calls": [{"index": index, **call_entry(call)}]})
    yield chunk({}, reply.finish)
    if request.usage:
        yield "", {**base, "choices": [], "usage": usage(reply)}


def call_entry(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def head(request: ChatRequest, reply: ChatReply, kind: str) -> dict[str, Any]:
    # The time is the same in every run, as the ids are.
    return {"id": f"chatcmpl-{reply.name}", "object": kind, "created": 0, "model": request.model or "policy"}


def usage(reply: ChatReply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.tokens,
        "total_tokens": reply.prompt_tokens + reply.tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }


def logprobs(reply: ChatReply) -> dict[str, Any] | None:
    if not reply.pieces:
        return None
    content = [
        {"token": text, "logprob": logp, "bytes": list(text.encode()), "top_logprobs": []}
        for text, logp in reply.pieces
    ]
    return {"content": content, "refusal": None}


def openai_error(refused: Refused) -> dict[str, Any]:
    kind = "invalid_request_error" if refused.status < 500 else "server_error"
    return {"error": {"message": refused.message, "type": kind, "param": None, "code": refused.code}}


CHAT = Dialect(
    path="/chat/completions", read=read, write=write, events=events, error=openai_error, end="data: [DONE]\n\n"
)
