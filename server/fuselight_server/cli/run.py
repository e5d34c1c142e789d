"""`fuselight run [--python PATH] [-m] SCRIPT [ARGS]`: the program as it is, and what torch.compile did to it.

Invariant: to the program nothing is different: its arguments, stdin, stdout, stderr, signals and exit code are as
under `python SCRIPT ARGS`. The findings come on stderr when it has ended, and stay in `.fuselight/`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

import fuselight
from fuselight_server.cli.outcome import Outcome
from fuselight_server.cli.sources import read_text
from fuselight_server.findings import apply_ignores, findings
from fuselight_server.interpreters import NoInterpreterError, choose
from fuselight_server.store import Store, project_root, read_report

if TYPE_CHECKING:
    from types import FrameType

    from fuselight.report import Report

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")


def run(
    context: typer.Context,
    python: Annotated[
        Optional[str],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(help="The interpreter to run it in (else: the environment, .venv, python3)."),
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as with python -m.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Run SCRIPT [ARGS] as python would, and show what torch.compile did in it when it has ended."""
    if not context.args:
        raise typer.BadParameter("give the script to run", param_hint="SCRIPT")
    script = context.args[0]
    root = project_root(Path.cwd() if module else Path(script))
    try:
        choice = choose(python, root, os.environ)
    except NoInterpreterError as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    with tempfile.TemporaryDirectory(prefix="fuselight-") as folder:
        report_path = Path(folder) / "report.json"
        command = [
            choice.executable,
            str(_launcher()),
            "run",
            "--report",
            str(report_path),
            "--root",
            str(root),
        ]
        code = _run_program([*command, "--", *(["-m"] if module else []), *context.args])
        report = read_report(report_path)
    if report is None:
        typer.echo(
            "fuselight: the program left no report (it ended before torch was used, or was killed)", err=True
        )
    else:
        _keep(report, root)
        _show(report)
    _end_as(code)


def _launcher() -> Path:
    """The file that enters the user's interpreter as a guest."""
    return Path(fuselight.__file__).resolve().parent / "worker" / "launch.py"


def _run_program(command: list[str]) -> int:
    """Run it with our own descriptors and pass signals on. Returns its code; negative is the signal that ended it.

    Ctrl-C reaches the program from the terminal itself, so we only have to survive it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The child must not inherit an ignored SIGINT: it would never see Ctrl-C.
    process = subprocess.Popen(command, preexec_fn=_default_interrupt if os.name == "posix" else None)  # noqa: S603, PLW1509 - the user's own program; one thread here

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    for name in _FORWARDED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    return process.wait()


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep(report: Report, root: Path) -> None:
    try:
        Store.at(root).write_report(report)
    except OSError as error:
        typer.echo(f"fuselight: the report could not be kept in {root}: {error}", err=True)


def _show(report: Report) -> None:
    from rich.console import Console  # noqa: PLC0415 - after the program, not before it

    from fuselight_server.cli.formats.text import print_text  # noqa: PLC0415
    from fuselight_server.static.document import read_source  # noqa: PLC0415

    outcome = Outcome(reports=[report])
    found = findings(report, read_line=outcome.sources.line)
    readings = {}
    for path in {finding.span.path for finding in found}:
        text = read_text(Path(path))
        if isinstance(text, str):
            readings[path] = read_source(path, text)
    # One run need not reach every line: nothing is known to be idle.
    outcome.findings = list(apply_ignores(found, readings, known=lambda _code: False))
    print_text(outcome, Console(stderr=True, highlight=False, emoji=False, markup=False))


def _end_as(code: int) -> None:
    """End as the program did: with its code, or of its signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0 and os.name == "posix":
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise typer.Exit(code if code >= 0 else 128 - code)
