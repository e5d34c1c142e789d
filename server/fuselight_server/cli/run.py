"""`fuselight run [--python PATH] [-m] SCRIPT [ARGS]`: the program as it is, and what torch.compile did to it.

Invariant: to the program nothing is different but a few variables for the processes that it starts, and a thread of
those that are ranks: its arguments, stdin, stdout, stderr, signals and exit code are as under `python SCRIPT ARGS`. The
findings are printed on stderr after it ends; those of its own process are kept in `.fuselight/`. Of ranks under one
launcher, one prints for all. With `--accuracy` some of its calls are also made in eager mode.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.shadow_files import DEFAULT_SHARE, ShadowPlan, read_shadows, write_recording
from fuselight.shared.started_processes import (
    MEMORY,
    RUN,
    TRACE,
    added_logs,
    logs_in,
    named_dumps,
    process_variables,
    read_ends,
    snapshots_in,
)
from fuselight.shared.worker_launch import program_command
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.interrupts import INTERRUPTED
from fuselight_server.base.store import Store, read_report
from fuselight_server.base.terminal import print_error, print_untested, standard_error
from fuselight_server.cli.options import add_python_option
from fuselight_server.execution.interpreters import choose
from fuselight_server.execution.launched_ranks import LaunchedRank, SharedRun, launched_rank
from fuselight_server.execution.programs import EndedProgram, end_started, run_program

if TYPE_CHECKING:
    from collections.abc import Collection

    from fuselight.shared.report import Report
    from fuselight.shared.started_processes import ProcessEnd
    from fuselight_server.commands.opened_job import OpenedJob


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = (
        "fuselight run [-h] [--python PATH] [--memory] [--accuracy] [--accuracy-budget PERCENT] [--record FILE] [-m] "
        "SCRIPT [ARGS ...]"
    )
    add_python_option(parser, "the interpreter to run it in")
    parser.add_argument(
        "--memory",
        action="store_true",
        help="record what the allocator of a GPU does: the peak by line, what grows, where memory runs out",
    )
    parser.add_argument(
        "--accuracy",
        action="store_true",
        help="also make some calls of compiled code in eager mode, and compare",
    )
    parser.add_argument(
        "--accuracy-budget",
        metavar="PERCENT",
        type=_percentage,
        default=DEFAULT_SHARE,
        help="the part of the time that comparing may take (default: 20%%)",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        type=Path,
        help="with --accuracy, write checksums and statistics of the compared calls by line, for `fuselight open FILE "
        "--against OTHER`",
    )
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
    if not options.is_module:
        _check_script(options.program[0])
    if options.record is not None:
        _check_record(options.record, is_compared=options.accuracy)
    root = project_root(Path.cwd() if options.is_module else Path(options.program[0]))
    executable = choose(options.python, root, os.environ).executable
    words = ["-m", *options.program] if options.is_module else options.program
    share = options.accuracy_budget if options.accuracy else None
    record = options.record.absolute() if options.record is not None else None
    program = _Program(words, root, executable, share, record, records_memory=options.memory)
    launched = launched_rank(os.environ)
    if RUN in os.environ:  # another `fuselight run` has started this one, and prints for both
        return _end_as(run_program(program.command).code)
    if launched is not None and launched.shares_folder:
        shared = _shared_run(launched)
        if shared is not None:
            return _end_as(_run_rank(shared, launched, program))
    return _end_as(_run_alone(program, launched))


def _percentage(text: str) -> float:
    """A type of argument: `20%` or `20` as 0.2."""
    with contextlib.suppress(ValueError):
        number = float(text.removesuffix("%"))
        if 0 < number <= 100:  # noqa: PLR2004 - percent
            return number / 100
    raise argparse.ArgumentTypeError(f"`{text}` is not a percentage above 0 and up to 100")


def _check_record(path: Path, *, is_compared: bool) -> None:
    """Raise CommandError for a recording that could not be written, before a process starts."""
    if not is_compared:
        raise CommandError("`--record` keeps what `--accuracy` compares. Add `--accuracy`.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CommandError(f"`{path}` cannot be written. Name a file in a folder that exists.")


def _check_script(name: str) -> None:
    """Raise CommandError for what Python cannot run, before a process starts."""
    path = Path(name)
    if name.startswith("-"):  # Python's own options
        return
    if not path.exists():
        raise CommandError(
            f"`{name}`: there is no such file. Name the program, as in `fuselight run train.py`."
        )
    if path.is_dir() and not (path / "__main__.py").exists():
        raise CommandError(f"`{name}` is a folder without `__main__.py`. Name the program in it.")


def _shared_run(launched: LaunchedRank) -> SharedRun | None:
    """What the ranks of this machine share; None without a folder: then each rank prints a report of its own."""
    try:
        return SharedRun(launched, os.environ)
    except OSError:
        return None


_LONGEST_NAME = 80


@dataclass(frozen=True)
class _Program:
    """The program as the user named it."""

    words: list[str]
    """Script and arguments, or `-m`, module and arguments."""
    root: Path
    executable: str
    share: float | None = None
    """The part of the time in which calls are compared with eager mode; None: none is compared."""
    record: Path | None = None
    """The file for what compared calls compute."""
    started: float = field(default_factory=time.time)
    records_memory: bool = False

    @property
    def command(self) -> list[str]:
        """Its command line without a recorder."""
        return [self.executable, *self.words]

    @property
    def source(self) -> tuple[Path, ...]:
        """Folders with the user's files: a launcher's script may be in another project."""
        scripts = [Path(word) for word in self.words if word.endswith(".py")]
        roots = (project_root(script.absolute()) for script in scripts if script.is_file())
        return tuple(dict.fromkeys((self.root, *roots)))

    def variables(self, run: Path) -> dict[str, str]:
        """The variables that ask its processes to compare their calls or to record memory; perhaps none."""
        asked = {MEMORY: self.memory_folder(run)} if self.records_memory else {}
        if self.share is None:
            return asked
        roots = tuple(map(str, self.source))
        return asked | ShadowPlan(str(run), self.share, roots, records=self.record is not None).variables

    def memory_folder(self, run: Path) -> str:
        """Where snapshots are written: to the folder for logs, which the user may have named."""
        return str(Path(os.environ.get(TRACE) or run).absolute())

    def snapshots(self, run: Path) -> tuple[Path, ...]:
        """The snapshots that its processes have written. Prints why there are none if they were asked for."""
        if not self.records_memory:
            return ()
        names = snapshots_in(self.memory_folder(run), self.started)
        if not names:
            print_error("no memory was recorded: no process of the program used an NVIDIA GPU.")
        return tuple(map(Path, names))

    def show_accuracy(self, run: Path) -> None:
        """Print what its processes compared, if they were asked to."""
        if self.share is not None:
            from fuselight_server.cli.formats.shadow import print_shadows  # noqa: PLC0415 - after the program

            shadows = read_shadows(str(run))
            print_shadows(shadows, self.share, standard_error())
            if self.record is not None:
                try:
                    write_recording(str(self.record), shadows)
                except OSError as error:
                    print_error(f"the recording could not be written: {error}")

    def run_folder(self, parent: str) -> Path:
        """Make the folder for what processes record, named after the program as a job is."""
        own = self.words[1] if self.words[0] == "-m" else self.words[0]
        script = next((word for word in self.words if word.endswith(".py")), own)
        run = Path(parent, Path(script).stem[:_LONGEST_NAME] or "program")
        run.mkdir(mode=0o700, exist_ok=True)
        return run


def _run_alone(program: _Program, launched: LaunchedRank | None) -> int:
    """Run a program under the recorder, and print what it and the processes that it has started recorded."""
    with owned_folder("run") as folder:
        report_path, run = Path(folder) / "report.json", program.run_folder(folder)
        logs = _NewLogs(run)
        recorder = ["--report", str(report_path), "--root", str(program.root), "--processes", str(run), "--"]
        command = program_command(program.executable, [*recorder, *program.words])
        ended = run_program(command, {**os.environ, **program.variables(run)}, unblocks=True)
        if ended.is_stopped:
            end_started(str(run))
        report = read_report(report_path)
        recorded = _Recorded(report, logs.added(ended.pid), read_ends(str(run)), program.snapshots(run))
        if launched is not None:
            standard_error().print((f"[{launched.label}]", "bold"))
        _show_all(program, ended, recorded)
        program.show_accuracy(run)
    return ended.code


def _run_rank(shared: SharedRun, launched: LaunchedRank, program: _Program) -> int:
    """Run a rank of a launcher; one of the ranks of this machine prints what all of them recorded."""
    run = program.run_folder(shared.folder)
    logs = _NewLogs(run)
    variables = process_variables(os.environ, str(run), str(launched.local_rank))
    ended = run_program(program.command, {**os.environ, **variables, **program.variables(run)})
    if ended.is_stopped:
        end_started(variables[RUN])
    shared.end(ended.pid, ended.code)
    if not shared.prints:
        return ended.code
    shared.wait()
    if not shared.prints:  # the first rank has started late
        return ended.code
    added, ends, snapshots = logs.added(), shared.ends(), program.snapshots(run)
    if added or ends or snapshots:
        _show_processes(program, ended, _Recorded(None, added, ends, snapshots))
    else:
        print_error(_NOTHING_RECORDED)
    program.show_accuracy(run)
    shared.remove()
    return ended.code


_SIGKILL = getattr(signal, "SIGKILL", 9)
_KILLED = "the program was killed (SIGKILL), which is what happens when memory runs out"
_NOTHING_RECORDED = (
    "nothing was recorded: neither the program nor a process that it started used torch.compile before "
    "it ended."
)


class _NewLogs:
    """The logs that a run adds to the folder for logs, which a user may have named."""

    def __init__(self, run: Path) -> None:
        self._folder = str(Path(process_variables(os.environ, str(run))[TRACE]).absolute())
        # A folder of the run itself is new, but another rank may have begun before this one.
        self._before = logs_in(self._folder) if os.environ.get(TRACE) else frozenset()

    def added(self, process: int | None = None) -> tuple[Path, ...]:
        """Those that are new, without that of `process`."""
        return tuple(map(Path, added_logs(self._folder, self._before, process)))


def _keep(report: Report, root: Path) -> None:
    try:
        Store.at(root).write_report(report)
    except OSError as error:
        print_error(f"the report could not be kept in {root}: {error}")


@dataclass(frozen=True)
class _Recorded:
    """What was recorded of a program."""

    report: Report | None
    """Of its own process."""
    logs: tuple[Path, ...]
    """Of the processes that it started."""
    ends: Collection[ProcessEnd]
    snapshots: tuple[Path, ...] = ()
    """Of the allocator, of all processes."""

    @property
    def has_processes(self) -> bool:
        """Whether processes that it started have left something."""
        return bool(self.logs or self.ends or self.snapshots)

    @property
    def is_launcher(self) -> bool:
        """Whether only the processes that it started have compiled anything: its own report has nothing."""
        if self.report is None or not (self.logs or self.ends):
            return False
        has_failed = (
            bool(self.report.failures) and not self.ends
        )  # else it only reports that a process failed
        return not (self.report.compiles or has_failed or self.report.problems)


def _show_all(program: _Program, ended: EndedProgram, recorded: _Recorded) -> None:
    """Print one report: of the program, of the processes that it started, or of both."""
    report = recorded.report
    if report is not None and not recorded.is_launcher:
        _keep(report, program.root)
        _show(report)
        if ended.code == -_SIGKILL:
            print_error(f"{_KILLED}. The findings are those from before.")
    if recorded.has_processes:
        _show_processes(program, ended, recorded)
    elif report is None:
        _explain_nothing(ended)


def _show_processes(program: _Program, ended: EndedProgram, recorded: _Recorded) -> None:
    # Imported after the program ends, which should not wait for it.
    from fuselight_server.cli.formats.run import print_run  # noqa: PLC0415
    from fuselight_server.cli.progress import complete_work  # noqa: PLC0415
    from fuselight_server.commands.run import open_run  # noqa: PLC0415

    jobs: tuple[OpenedJob, ...] = ()
    try:
        if recorded.logs or recorded.snapshots:
            jobs = complete_work(
                lambda show, token: open_run(
                    recorded.logs,
                    program.source,
                    program.started,
                    show,
                    token,
                    dumps=named_dumps(os.environ),
                    snapshots=recorded.snapshots,
                )
            )
    except CommandError as error:
        print_error(str(error))
    print_run(jobs, recorded.ends, standard_error(), ended.interrupted_at)


def _explain_nothing(ended: EndedProgram) -> None:
    if ended.interrupted_at is not None and ended.code in {INTERRUPTED, -signal.SIGINT}:
        print_error("stopped")
    elif ended.code == -_SIGKILL:
        print_error(f"{_KILLED}. There are no findings: a killed program leaves no report.")
    else:
        print_error(_NOTHING_RECORDED)


def _show(report: Report) -> None:
    # Imported after the program ends, which should not wait for it.
    from fuselight_server.cli.formats.findings import print_findings  # noqa: PLC0415
    from fuselight_server.cli.formats.jobs_caches import print_start  # noqa: PLC0415
    from fuselight_server.cli.problems import report_problems  # noqa: PLC0415
    from fuselight_server.commands.recording import recording_outcome  # noqa: PLC0415
    from fuselight_server.jobs.caches.recorded_start import recorded_start  # noqa: PLC0415

    outcome = recording_outcome(report)
    print_findings(outcome, standard_error())
    start = recorded_start(report)
    if start is not None:
        standard_error().print("start:")
        print_start(start, standard_error())
    print_untested(report.versions.torch)
    report_problems(outcome, "analyze")


def _end_as(code: int) -> int:
    """End as the program did: with its code, or of its signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0 and sys.platform != "win32":
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code if code >= 0 else 128 - code
