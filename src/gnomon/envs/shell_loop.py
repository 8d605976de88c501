"""A program: the policy with a shell. It needs only the standard library."""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

RULES = "Reply with one ```bash block, and you see its output. A reply without a block ends the work."
BLOCK = re.compile(r"```(?:bash|sh)\s(.*?)```", re.DOTALL)
SECONDS, LONGEST = 20, 2000


def question() -> list[dict[str, object]]:
    """The images of the task, and its text."""
    text = f"{sys.stdin.read()} {RULES}"
    files = sorted(Path("images").glob("*.*"), key=lambda file: int(file.stem))
    urls = [f"data:image/png;base64,{b64encode(file.read_bytes()).decode()}" for file in files]
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [*parts, {"type": "text", "text": text}]


def complete(messages: list[dict[str, object]]) -> str:
    """The policy's reply."""
    url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
    body = json.dumps({"model": os.environ["MODEL"], "messages": messages}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"] or ""


def run(command: str) -> str:
    """The output of a shell command, and its exit status if that is not 0."""
    with tempfile.TemporaryFile() as file:
        try:
            ended = subprocess.run(
                command, shell=True, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=SECONDS
            )
            status = f"exit status {ended.returncode}" if ended.returncode else ""
        except (subprocess.TimeoutExpired, ValueError, OSError) as error:
            status = f"{type(error).__name__}"
        file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST))
        output = file.read().decode(errors="replace")
    return (output + status) or "no output"


def main() -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": question()}]
    try:
        while (reply := complete(messages)) and (block := BLOCK.search(reply)):
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": run(block[1])}]
    except urllib.error.HTTPError as error:
        print(error.read().decode())


if __name__ == "__main__":
    main()
