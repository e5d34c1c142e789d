"""`fuselight run [--python PATH] [-m] SCRIPT [ARGS]`: the program as it is, and what torch.compile did to it.

Invariant: to the program nothing is different: its arguments, stdin, stdout, stderr, signals and exit code are as
under `python SCRIPT ARGS`. The findings are printed on stderr after it ends, and kept in `.fuselight/`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.worker_launch import program_command
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.interrupts import INTERRUPTED
from fuselight_server.base.store import Store, read_report
from fuselight_server.base.terminal import print_error, print_untested, standard_error
from fuselight_server.cli.options import add_python_option
from fuselight_server.execution.interpreters import choose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from fuselight.shared.report import Report

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "fuselight run [-h] [--python PATH] [-m] SCRIPT [ARGS ...]"
    add_python_option(parser, "the interpreter to run it in")
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module, as in python -m"
    )
    parser.add_argument(
        "program",
        metavar="SCRIPT [ARGS ...]",
        nargs=argparse.REMAINDER,
        help="the program and its arguments",
    )


def execute(options: argparse.Namespace) -> int:
    """Run the program and print its findings; returns the program's exit code, or ends by its signal."""
    if not options.program:
        raise CommandError("no script was given. Name it, as in `fuselight run train.py`.")
    script = options.program[0]
    root = project_root(Path.cwd() if options.is_module else Path(script))
    choice = choose(options.python, root, os.environ)
    with owned_folder("run") as folder:
        report_path = Path(folder) / "report.json"
        recorder = ["--report", str(report_path), "--root", str(root), "--"]
        module = ["-m"] if options.is_module else []
        command = program_command(choice.executable, [*recorder, *module, *options.program])
        code, is_interrupted = _run_program(command)
        report = read_report(report_path)
    if report is not None:
        try:
            Store.at(root).write_report(report)
        except OSError as error:
            print_error(f"the report could not be kept in {root}: {error}")
        _show(report)
    elif is_interrupted and code in {INTERRUPTED, -signal.SIGINT}:
        print_error("stopped")
    elif code == -_SIGKILL:
        print_error(
            "the program was killed (SIGKILL), which is what happens when memory runs out. "
            "There are no findings: a killed program leaves no report."
        )
    else:
        print_error("the program left no report: it ended before it used torch, or was killed.")
    return _end_as(code)


_SIGKILL = getattr(signal, "SIGKILL", 9)


def _run_program(command: list[str]) -> tuple[int, bool]:
    """Run it with our own descriptors and pass signals on.

    Returns its code, where negative is the signal that ended it, and whether Ctrl-C was pressed. Ctrl-C reaches the
    program from the terminal itself, so we only have to survive it.
    """
    interrupts: list[int] = []
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with (
        _blocked_interrupts()
    ):  # launch.py unblocks them: until then Python's own start would print a traceback
        if not is_ignored:
            signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
        process = subprocess.Popen(command)  # noqa: S603 - the user's own program

    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    for name in _FORWARDED:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    code = process.wait()
    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return code, bool(interrupts)


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _show(report: Report) -> None:
    # Imported after the program ends, which should not wait for it.
    from fuselight_server.cli.formats.findings import print_findings  # noqa: PLC0415
    from fuselight_server.cli.problems import report_problems  # noqa: PLC0415
    from fuselight_server.commands.findings import compose_findings  # noqa: PLC0415
    from fuselight_server.commands.outcome import CheckOutcome  # noqa: PLC0415
    from fuselight_server.commands.sources import read_text  # noqa: PLC0415
    from fuselight_server.explain.findings import findings  # noqa: PLC0415
    from fuselight_server.source.document import read_source  # noqa: PLC0415

    outcome = CheckOutcome(reports=[report])
    actual_findings = findings(report, read_line=outcome.sources.line)
    readings = {}
    for path in {finding.span.path for finding in actual_findings}:
        text = read_text(Path(path))
        if isinstance(text, str):
            readings[path] = read_source(path, text)
    # One run need not reach every line, so no ignore comment counts as unused.
    outcome.findings = compose_findings(actual_findings, (), readings, is_known=lambda _code: False)
    print_findings(outcome, standard_error())
    print_untested(report.versions.torch)
    report_problems(outcome, "analyze")


def _end_as(code: int) -> int:
    """End as the program did: with its code, or of its signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0 and os.name == "posix":
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code if code >= 0 else 128 - code
