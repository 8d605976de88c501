"""A small Model Context Protocol server for the tests; `python stdio_server.py [how]` is odd in a named way."""

from __future__ import annotations

import json
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
TEXT = {"type": "string"}


def tool(name: str, description: str, *fields: str) -> dict[str, object]:
    schema = {"type": "object", "properties": dict.fromkeys(fields, TEXT), "required": fields}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [tool("echo", "Says it again.", "text"), tool("count", "Counts its calls."), tool("odd", "Goes wrong.", "how")]


def say(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def called(name: str, arguments: dict[str, str], calls: int) -> dict[str, object]:
    how = arguments.get("how", "")
    if how == "hang":
        time.sleep(600)
    if how == "die":
        sys.exit(3)
    if how == "flood":
        while True:
            sys.stdout.write("x" * 100_000)
    if how == "ask":
        say(id="own", method="roots/list")
        reply = json.loads(sys.stdin.readline())
        return {"content": [{"type": "text", "text": str(reply["error"]["code"])}]}
    if how == "error":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    if how == "image":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if how == "nonsense":
        return {"content": 3}
    if name == "count":
        return {"content": [{"type": "text", "text": str(calls)}]}
    return {"content": [{"type": "text", "text": arguments.get("text", "")}]}


def main() -> None:
    ready, calls = False, 0
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            print("a line of a log", file=sys.stderr if HOW != "chatty" else sys.stdout, flush=True)
            assert params["protocolVersion"] and params["clientInfo"]["name"]
            say(id=message["id"], result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}})
        elif method == "notifications/initialized":
            ready = True
        elif method == "tools/list" and ready:
            place = int(params.get("cursor", 0))
            more = {"nextCursor": str(place + 2)} if place + 2 < len(TOOLS) else {}
            say(id=message["id"], result={"tools": TOOLS[place : place + 2], **more})
        elif method == "tools/call" and ready:
            calls += 1
            if params["arguments"].get("how") == "refuse":
                say(id=message["id"], error={"code": -32602, "message": "no such thing"})
            else:
                say(method="notifications/progress", params={})
                say(id=message["id"], result=called(params["name"], params["arguments"], calls))


if __name__ == "__main__" and HOW != "mute":
    main()
