"""The tokens that the tasks of an environment need of a model's vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.envs.base import Env, SingleTurn, check_isolation
from gnomon.errors import ConfigError
from gnomon.export.model import require_free
from gnomon.models.folder import model_folder, table
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.trimming import RECORD, trim, untrim
from gnomon.models.vocabulary import token_ids
from gnomon.rendering import choose, joined
from gnomon.run.find import check_env_config, check_policy_config, make_env
from gnomon.training.loop import first

__all__ = ["tokens_of", "trim_model", "untrim_model"]


def trim_model(
    policy: Path, folder: Path, envs: Sequence[str], settings: Sequence[str], tasks: int, texts: Sequence[Path]
) -> tuple[int, int]:
    """Write a model folder with the tokens that environments need.

    Args: settings: of all of them; tasks: of each split; texts: files whose tokens are kept too.
    Returns: how many tokens were kept, and of how many.
    Raises: ConfigError E050 for a folder with files, E054 where nothing says which tokens are needed.
    """
    if not envs and not texts:
        raise ConfigError("E054", "nothing says which tokens are needed", where="--for", fix="--for char_count")
    require_free(str(policy), folder)
    base, token_set = model_folder(policy), set[int]()
    for env in envs or ["countdown"]:
        source = Source({"env": env, "policy": {"path": str(policy)}}, {"env": f"--for {env}"})
        checks = [check_env_config, check_policy_config]
        config, _ = resolve([source, overrides(list(settings), 2)], checks)
        token_set |= tokens_of(config, tasks if envs else 0, texts)
    folder.mkdir(parents=True, exist_ok=True)
    return len(trim(base, folder, token_set)), len(set(token_ids(table(base / "tokenizer.json"))))


def untrim_model(policy: Path, folder: Path, base: Path | None = None, record: Path | None = None) -> None:
    """Write a trimmed model with its whole vocabulary. Args: base: by default the one that the record names."""
    require_free(str(policy), folder)
    record_body = table(record or policy / RECORD)
    untrim(policy, base or Path(record_body.get("base", "")), folder, record)


def tokens_of(config: RunConfig, tasks: int, texts: Sequence[Path] = ()) -> set[int]:
    """Ids in the prompts of an environment's first tasks and in their solutions, of both splits; and in files of text.

    Args: tasks: of each split.
    """
    env = make_env(config.env)
    check_isolation(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    result = set(renderer.stop)
    for split in ("train", "test"):
        for _, task in first(env.tasks(split), tasks):
            result.update(joined(renderer.start(task.messages)))
    for text in (*solutions(env, tasks), *(path.read_text("utf-8") for path in texts), *config.rollout.stop):
        result.update(tokenizer.encode(text))
    return result


def solutions(env: Env, tasks: int) -> Iterator[str]:
    """Replies that are right, of an environment of one turn; at the beginning of a text and after a space."""
    if not isinstance(env, SingleTurn):
        return
    for split in ("train", "test"):
        for _, task in first(env.tasks(split), tasks):
            reply = env.framed(env.solution(task))
            yield from (reply, f" {reply}")
