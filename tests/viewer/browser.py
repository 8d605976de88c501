"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from websockets.sync.client import connect


class Browser:
    """One browser with one page.

    Args: program: of Chromium; profile: an empty folder of its own.
    """

    def __init__(self, program: str, profile: Path) -> None:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
            "--window-size=1300,1500",
        ]
        self._process = subprocess.Popen(
            [program, *options, "--window-size=1300,1500", f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ready, deadline = profile / "DevToolsActivePort", time.monotonic() + 60
        while not (ready.is_file() and ready.read_text().count("\n")):
            assert time.monotonic() < deadline, "chromium does not start"
            time.sleep(0.1)
        port = ready.read_text().split("\n")[0]
        made = json.load(urlopen(Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT"), timeout=60))
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(made["webSocketDebuggerUrl"], max_size=None, ping_interval=None)
        )
        self._count = 0
        self.requests: list[str] = []
        """Addresses that pages asked for, or tried to."""
        self.dialogs = 0
        self.ask("Page.enable")
        self.ask("Network.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == self._count:
                return answer["result"]
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
            self.dialogs += answer.get("method") == "Page.javascriptDialogOpening"

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is worth on the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str, seconds: float = 30.0) -> float:
        """Seconds until an expression was true. Fails where it does not become true."""
        began = time.monotonic()
        while not self.value(expression):
            assert time.monotonic() < began + seconds, f"not true after {seconds} s: {expression}"
            time.sleep(0.05)
        return time.monotonic() - began

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    def click(self, selector: str) -> None:
        """A real click on the middle of an element, once the page is laid out."""
        self.wait("document.readyState === 'complete'")
        place = self.value(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + r.width / 2, r.y + r.height / 2] }})(document.querySelector({json.dumps(selector)}))"
        )
        at = {"x": place[0], "y": place[1]}
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def picture(self, file: Path, *, dark: bool = False, height: int = 850, scale: float = 0.75) -> None:
        """Write the top of the page as a PNG. Args: height: in pixels of the page, which is 1200 wide."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)
        clip = {"x": 0, "y": 0, "width": 1200, "height": height, "scale": scale}
        found = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(20)
