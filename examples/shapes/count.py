"""A program without packages: it shows the policy the drawing of the task, and prints the reply."""

import json
import os
import sys
from base64 import b64encode
from pathlib import Path
from urllib.request import Request, urlopen


def main():
    url = f"data:image/png;base64,{b64encode(Path('images/0.png').read_bytes()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": sys.stdin.read()}]
    body = {"model": os.environ["MODEL"], "messages": [{"role": "user", "content": content}]}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode(), headers)
    with urlopen(request) as response:
        print(json.load(response)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
