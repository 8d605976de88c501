"""A program: the policy with a shell. It needs only the standard library."""

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

RULES = "Reply with one ```bash block, and you see its output. A reply without a block ends the work."
BLOCK = re.compile(r"```(?:bash|sh)\s(.*?)```", re.DOTALL)
SECONDS, LONGEST = 20, 2000


def complete(messages: list[dict[str, str]]) -> str:
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
    messages = [{"role": "user", "content": f"{sys.stdin.read()} {RULES}"}]
    try:
        while (reply := complete(messages)) and (block := BLOCK.search(reply)):
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": run(block[1])}]
    except urllib.error.HTTPError as error:
        print(error.read().decode())


if __name__ == "__main__":
    main()
