"""Models of the Hugging Face hub by their names: from the hub's cache on this machine, else fetched. Needs no torch.

The package huggingface_hub keeps the cache. It reads HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gnomon.errors import ModelError

__all__ = ["HubName", "at_commits", "cache_folder", "commit_of", "fetch", "hub_name", "parse_name", "present"]

NAME = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@((?!.*\.\.)[A-Za-z0-9][\w./-]*))?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
SMALL = ["*.json", "*.jinja", "LICENSE*", "NOTICE*", "USE_POLICY*"]
"""Files that are fetched beside weights: no pickles and no code."""
ELSEWHERE = ["*/*", "consolidated*"]
"""Files that are not fetched: weights in other formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubName:
    """`OWNER/NAME` or `OWNER/NAME@REVISION`."""

    repo: str
    """OWNER/NAME."""
    revision: str = ""
    """A branch, a tag or a commit; empty for the default branch."""

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}" if self.revision else self.repo

    @property
    def download(self) -> str:
        """The command that puts it into the cache, where there is a hub."""
        return f"hf download {self.repo}" + (f" --revision {self.revision}" if self.revision else "")


def parse_name(text: str) -> HubName | None:
    """The hub name that a text can be; None for another form."""
    match = NAME.fullmatch(text)
    return HubName(repo=match[1], revision=match[2] or "") if match else None


def hub_name(text: str) -> HubName | None:
    """The hub name that a text is. None for a local path: one that exists, or that is not of the form."""
    return None if Path(text).exists() else parse_name(text)


def at_commits(settings: Mapping[str, Any], commits: Any) -> dict[str, Any]:
    """Settings by dotted key, in which every model of the hub has the commit that a run recorded.

    Args: commits: `hub` of the run's manifest, by key.
    """
    by_key = commits if isinstance(commits, Mapping) else {}
    pinned_settings = dict(settings)
    for key, commit in by_key.items():
        name = parse_name(str(pinned_settings.get(key, "")))
        if name and COMMIT.fullmatch(str(commit)):
            pinned_settings[key] = f"{name.repo}@{commit}"
    return pinned_settings


def commit_of(folder: Path) -> str:
    """The commit of a folder of the cache."""
    return folder.name


def cache_folder(name: HubName) -> Path | None:
    """The folder of a model in the cache, which may be incomplete; None where there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(name.repo, revision=name.revision or None, local_files_only=True, allow_patterns=[])
    except (LocalEntryNotFoundError, ValueError):
        return None
    return Path(folder)


def present(name: HubName) -> Path:
    """The same. Raises: ModelError E335 where there is none: nothing is fetched."""
    from huggingface_hub import constants

    if folder := cache_folder(name):
        return folder
    raise absent(
        name, constants.HF_HUB_CACHE, "it is not in the cache of the hub, and a reading command fetches nothing"
    )


def fetch(name: HubName, *, weights: bool = True) -> Path:
    """The folder of a model: as it is in the cache if it is complete there, else fetched.

    A name is one commit for as long as the process lives, also if somebody fetches a newer one meanwhile.

    Args: weights: whether they are needed, beside configuration and tokenizer.
    Raises: ModelError E335 where it is not in the cache and the hub cannot be reached, E336 where the hub refuses it.
    """
    from huggingface_hub import constants

    return _fetch(name, weights, constants.HF_HUB_CACHE)


@cache
def _fetch(name: HubName, weights: bool, where: str) -> Path:
    there = cache_folder(name)
    missing = lacking(there, weights) if there else []
    if there and not missing:
        return there
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    revision, patterns = name.revision or None, SMALL + ["*.safetensors"] * weights
    try:
        HfApi().model_info(name.repo, revision=revision)  # It raises where a download would return what is there.
        return Path(snapshot_download(name.repo, revision=revision, allow_patterns=patterns, ignore_patterns=ELSEWHERE))
    except GatedRepoError as error:
        raise ModelError(
            "E336",
            f"the hub does not let you read {name}",
            where=constants.ENDPOINT,
            why="its owner must accept your account, and HF_TOKEN must be a token of that account",
            fix="hf auth login",
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise ModelError(
            "E336",
            f"{name} is not a folder, and the hub has no such model",
            where=constants.ENDPOINT,
            why=reason(error),
            fix="check the name and the revision, or use a local model folder: policy=FOLDER",
        ) from error
    except Exception as error:  # Connections, proxies and full disks raise many types.
        gap = f"the cache lacks {', '.join(missing)} of it" if missing else "it is not in the cache of the hub"
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else reason(error)
        raise absent(name, where, f"{gap}, and {why}") from error


def absent(name: HubName, where: str, why: str) -> ModelError:
    return ModelError(
        "E335",
        f"{name} is not a folder, and it was not fetched from the hub",
        where=where,
        why=why,
        fix=f"where there is a hub: {name.download}; or policy=FOLDER, a local model folder",
    )


def lacking(folder: Path, weights: bool) -> list[str]:
    """The files that a folder of the cache lacks."""
    patterns = ["config.json", "tokenizer.json"]
    if weights:
        index = folder / "model.safetensors.index.json"
        shards = json.loads(index.read_text("utf-8"))["weight_map"].values() if index.is_file() else ()
        patterns += sorted(set(shards)) or ["*.safetensors"]
    return [name for name in patterns if not any(path.is_file() for path in folder.glob(name))]


def reason(error: BaseException) -> str:
    """The first line of an error of the hub."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = next(iter(str(error).strip().splitlines()), "")
    return line or type(error).__name__
