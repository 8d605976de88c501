"""A cache of the Hugging Face hub with copies of the shipped model, and a hub of models and data sets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote

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


class Stored(NamedTuple):
    """What a hub has under a name."""

    commits: Mapping[str, Mapping[str, bytes]]
    """Files by commit."""
    refs: Mapping[str, str]
    """Commits by branch."""


@contextmanager
def serving(repos: Mapping[str, Stored]) -> Iterator[tuple[str, list[str]]]:
    """A hub on this machine. Args: repos: by `models/OWNER/NAME` or `datasets/OWNER/NAME`. Yields: its address, and the
    requests that it gets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def send(self, body: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_json(self, value: object) -> None:
            self.send(json.dumps(value).encode(), Content_Type="application/json")

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            asked.append(f"{self.command} {path}")
            length = int(self.headers.get("Content-Length", 0))
            wanted = json.loads(self.rfile.read(length))["paths"] if length else []
            kind, verb, repo, revision, rest = requested(path)
            if f"{kind}/{repo}" not in repos:
                return self.send(b"{}", 404, X_Error_Code="RepoNotFound")
            commits, refs = repos[f"{kind}/{repo}"]
            commit = refs.get(revision, revision)
            if commit not in commits:
                return self.send(b"{}", 404, X_Error_Code="RevisionNotFound")
            files = commits[commit]
            if verb == "resolve":
                if rest not in files:
                    return self.send(b"{}", 404, X_Error_Code="EntryNotFound")
                body = files[rest]
                return self.send(body, ETag=f'"{sha256(body).hexdigest()}"', X_Repo_Commit=commit)
            if verb == "paths-info":
                return self.send_json([entry for entry in entries(files) if entry["path"] in wanted])
            if verb == "tree":
                return self.send_json([entry for entry in entries(files) if within(str(entry["path"]), rest)])
            self.send_json({"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]})

        do_HEAD = do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def requested(path: str) -> tuple[str, str, str, str, str]:
    """Of a request: `models` or `datasets`, the verb, the repository, the revision and the file or folder."""
    words = path.strip("/").split("/")
    if len(words) < 4:
        return "", "", "", "", path
    if words[0] == "api":
        _, kind, owner, name, verb, revision, *rest = words if len(words) > 5 else [*words, "revision", "main"]
    elif words[0] == "datasets":
        kind, owner, name, verb, revision, *rest = words
    else:
        kind, (owner, name, verb, revision, *rest) = "models", words
    return kind, verb, f"{owner}/{name}", revision, "/".join(rest)


def entries(files: Mapping[str, bytes]) -> list[dict[str, object]]:
    """Files and folders, as the hub describes them."""
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents} - {"."}
    found: list[dict[str, object]] = [{"type": "directory", "path": name, "oid": ONE, "size": 0} for name in folders]
    for name, body in files.items():
        found.append({"type": "file", "path": name, "size": len(body), "oid": sha256(body).hexdigest()[:40]})
    return found


def within(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
