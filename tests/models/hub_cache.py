"""A cache of the Hugging Face hub, and a hub, with copies of the shipped model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from gnomon.models.folder import TINY

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
ONE, TWO = "1" * 40, "2" * 40
"""Commits."""
REPO = "owner/small.model"


def contents(**changed: bytes) -> dict[str, bytes]:
    """The files of the shipped model by name. Args: changed: by the name without its suffix."""
    found = {name: (TINY / name).read_bytes() for name in FILES}
    return {name: changed.get(name.partition(".")[0], body) for name, body in found.items()}


def put(cache: Path, commit: str, files: Mapping[str, bytes], *refs: str) -> Path:
    """Write a commit into a cache as the hub's library does: names are links to blobs. Returns: its folder."""
    place = cache / f"models--{REPO.replace('/', '--')}"
    folder = place / "snapshots" / commit
    for part in (folder, place / "blobs", place / "refs"):
        part.mkdir(parents=True, exist_ok=True)
    for name, body in files.items():
        blob = place / "blobs" / sha256(body).hexdigest()
        blob.write_bytes(body)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(f"../../blobs/{blob.name}")
    for ref in refs:
        (place / "refs" / ref).write_text(commit)
    return folder


def forget(cache: Path) -> None:
    shutil.rmtree(cache, ignore_errors=True)


@contextmanager
def serving(commits: Mapping[str, Mapping[str, bytes]], refs: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """A hub on this machine. Args: commits: files by commit; refs: commits by branch. Yields: its address, and the
    requests that it gets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def send(self, body: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            asked.append(f"{self.command} {path}")
            api = path.removeprefix(f"/api/models/{REPO}").strip("/").split("/")
            if not path.startswith((f"/api/models/{REPO}", f"/{REPO}/resolve/")):
                return self.send(b"{}", 404, X_Error_Code="RepoNotFound")
            revision = path.split("/")[4] if "/resolve/" in path else api[1] if len(api) > 1 else "main"
            commit = refs.get(revision, revision)
            if commit not in commits:
                return self.send(b"{}", 404, X_Error_Code="RevisionNotFound")
            files = commits[commit]
            if "/resolve/" in path:
                body = files[path.split("/", 5)[5]]
                return self.send(body, ETag=f'"{sha256(body).hexdigest()}"', X_Repo_Commit=commit)
            if api[0] == "tree":
                entries = [
                    {"type": "file", "path": name, "size": len(body), "oid": sha256(body).hexdigest()[:40]}
                    for name, body in files.items()
                ]
                return self.send(json.dumps(entries).encode(), Content_Type="application/json")
            facts = {"id": REPO, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
            return self.send(json.dumps(facts).encode(), Content_Type="application/json")

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
