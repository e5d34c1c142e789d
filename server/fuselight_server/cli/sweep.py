"""`fuselight sweep`: the models of a suite, checked, compiled, benchmarked or tuned, here or over a Ray cluster.

Invariant: each model and job ends as one row of the results folder, on disk before the next one is shown; an
interrupted sweep goes on with --resume. Exit code 0: every model that there is has its result; 1: there are
regressions against --against; 2: something has no result; 130: interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fuselight.shared import tuned_file
from fuselight.shared.codec import encode
from fuselight.shared.foreign_files import project_root
from fuselight.shared.report.tuned import TunedResult
from fuselight.shared.version import version
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.formatting import format_count
from fuselight_server.base.store import Store
from fuselight_server.base.terminal import print_error, progress_line, standard_output
from fuselight_server.cli.sweep_options import add_sweep_options, sweep_options
from fuselight_server.execution.interpreters import choose
from fuselight_server.sweep.comparison import SweepComparison, compare_sweeps
from fuselight_server.sweep.engines import Engine, EngineError, LocalEngine, default_jobs, local_gpus
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.results import (
    ABOUT,
    MODELS,
    PAGE,
    TUNED,
    ResultsError,
    ResultsFolder,
    SweepResults,
    earlier_sweep,
    has_versions,
    is_settled,
    newest,
    read_results,
)
from fuselight_server.sweep.rows import RowStatus, SweepAbout, SweepRow
from fuselight_server.sweep.runner import SweepProgress, run_tasks
from fuselight_server.sweep.suites import Suite, SuiteError, built_in_suite, is_built_in, read_suite
from fuselight_server.sweep.tasks import SweepPlan, UnknownDeviceError, plan_sweep

_SWEEPS = "sweeps"
"""Folder of the store with the results of sweeps for which the user names no folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_sweep_options(parser)


def execute(options: argparse.Namespace) -> int:
    """Run the sweep and print its rows; returns the exit code. Raises CommandError."""
    try:
        suite = None if is_built_in(options.suite) else read_suite(options.suite)
        before = read_results(options.against) if options.against else None
        engine = _engine(options)
    except (SuiteError, ResultsError, EngineError) as error:
        raise CommandError(str(error)) from None
    folder = None
    try:
        if suite is None:
            folder = _taken(options, options.suite)
            suite = built_in_suite(
                options.suite,
                folder.path / MODELS,
                size=options.size,
                training=options.train or options.step,
            )
        plan = plan_sweep(suite, sweep_options(options), has_gpu=engine.gpus > 0)
        _check_gpus(plan, engine)
        for note in plan.notes:
            print_error(note)
        folder = folder or _taken(options, suite.name)
        return _Sweep(suite, plan, engine, folder, before, options).run()
    except (SuiteError, ResultsError, EngineError, UnknownDeviceError) as error:
        raise CommandError(str(error)) from None
    finally:
        engine.close()
        if folder is not None:
            folder.close()


class _Sweep:
    """One run of the command."""

    def __init__(  # noqa: PLR0917 - the parts of the command, made one after the other
        self,
        suite: Suite,
        plan: SweepPlan,
        engine: Engine,
        folder: ResultsFolder,
        before: SweepResults | None,
        options: argparse.Namespace,
    ) -> None:
        self._suite, self._plan, self._engine = suite, plan, engine
        self._folder, self._before, self._options = folder, before, options
        self._terminal = standard_output(options.color)
        self._rows: list[SweepRow] = []

    def run(self) -> int:
        """Run what has no row yet; returns the exit code."""
        options, folder = self._options, self._folder
        if folder.has_rows() and not options.resume:
            raise CommandError(
                f"{folder.path} has the results of an earlier sweep: go on with --resume, or choose another "
                "folder with --out"
            )
        self._rows = list(folder.open_rows())
        if folder.damaged:
            print_error(
                f"ignoring {format_count(folder.damaged, 'damaged line')} in {folder.path}: "
                "tasks without a row run again"
            )
        about = self._about()
        kept = self._kept_rows()
        settled = {row.key for row in kept}
        for row in self._plan.rows:
            if row.key not in settled:
                self._take(row)
        tasks = [task for task in self._plan.tasks if task.key not in settled]
        ids = {task.id for task in self._plan.tasks} | {sweep_row.id for sweep_row in self._plan.rows}
        known = len(ids) - len(tasks) - len(self._plan.rows)
        already = f", {known} with results already" if known > 0 else ""
        print_error(
            f"{format_count(len(tasks), 'task')} on {self._engine.description}{already}; results in {folder.path}"
        )
        try:
            with progress_line(is_quiet=not tasks) as show:
                self._run(tasks, kept, show)
        except KeyboardInterrupt:
            self._engine.close()
            self._finish(about)
            left = len(ids) - len({row.id for row in self._rows} & ids)
            raise KeyboardInterrupt(
                f"stopped: {left} of {format_count(len(ids), 'task')} left; go on with "
                f"`fuselight sweep {shlex.quote(options.suite)} --out {shlex.quote(str(folder.path))} --resume` and "
                "the same options"
            ) from None
        comparison = self._finish(about)
        self._print(about, comparison)
        rows = [row for row in newest(self._rows) if row.id in ids]
        return exit_code(rows, comparison)

    def _kept_rows(self) -> list[SweepRow]:
        """The rows of earlier runs that stay as they are, if their tasks are in the plan."""
        settled = [row for row in self._rows if is_settled(row, retry_failed=self._options.retry_failed)]
        versions = self._engine.versions() if settled else None
        kept = [row for row in settled if has_versions(row, versions)]
        planned = {task.key for task in self._plan.tasks}
        others = {row.key for row in settled} - {row.key for row in kept}
        if versions is not None and others & planned:
            print_error(
                f"replacing {format_count(len(others & planned), 'result')} of another torch or Python: running again "
                f"with torch {(*versions.torch, '(none)')[0]} and Python {versions.python}"
            )
        return kept

    def _run(self, tasks: Sequence[Any], kept: Sequence[SweepRow], show: Callable[[str], None]) -> None:
        progress = SweepProgress(len(tasks))
        left = {task.id: task for task in tasks}
        show(f"0/{len(tasks)} on {self._engine.description}: starting")
        for row in run_tasks(tasks, self._engine, on_result=self._keep_tuned, earlier=kept):
            show("")
            self._take(row)
            progress.count(row)
            left.pop(row.id, None)
            rest = progress.rest_seconds(list(left.values()), self._engine)
            failed = f", {progress.not_done} without a result" if progress.not_done else ""
            time_left = f", {about_time(rest)} left" if rest else ""
            show(f"{progress.done}/{progress.total}{failed}{time_left} (Ctrl-C keeps all results)")

    def _take(self, row: SweepRow) -> None:
        """Write a row, then show it."""
        with _interrupted_afterwards():  # else a row could be in the folder and not be counted
            self._folder.append(row)
            self._rows.append(row)
        if self._options.format == "text":
            from fuselight_server.cli.formats.sweep import print_row  # noqa: PLC0415 - not for --help

            print_row(row, self._terminal)
            sys.stdout.flush()

    def _keep_tuned(self, result: TunedResult) -> None:
        try:
            tuned_file.keep(self._folder.path / TUNED, [result])
        except (tuned_file.TunedFileError, OSError) as error:
            print_error(f"the result of the search for {result.target} is not in {TUNED}: {error}")

    def _about(self) -> SweepAbout:
        """What the sweep is, kept from its first run on."""
        about = SweepAbout(
            suite=self._suite.name,
            path=_suite_path(self._options.suite),
            engine=self._engine.description,
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            fuselight=version(),
            command=shlex.join(["fuselight", *sys.argv[1:]]),
        )
        self._folder.write(ABOUT, f"{encode_json(about)}\n")
        return about

    def _finish(self, about: SweepAbout) -> SweepComparison | None:
        """Write the page, and return what changed since the sweep to compare with."""
        rows = newest(self._rows)
        comparison = compare_sweeps(self._before.rows, rows) if self._before is not None else None
        against = self._before.name if self._before is not None else ""
        self._folder.write(PAGE, as_page(rows, about, comparison, against))
        return comparison

    def _print(self, about: SweepAbout, comparison: SweepComparison | None) -> None:
        from fuselight_server.cli.formats import sweep as formats  # noqa: PLC0415 - not for --help
        from fuselight_server.sweep import exports  # noqa: PLC0415 - the same

        rows, against = newest(self._rows), self._before.name if self._before is not None else ""
        if self._options.format == "text":
            formats.print_summary(rows, comparison, against, self._terminal)
            self._terminal.print(("page: ", "dim"), str(self._folder.path / PAGE))
        elif self._options.format == "json":
            self._terminal.write_data(exports.rows_as_json(rows, about, comparison))
        elif self._options.format == "csv":
            self._terminal.write_data(exports.rows_as_csv(rows))
        else:
            self._terminal.write_data(as_page(rows, about, comparison, against))


@contextlib.contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Have Ctrl-C within the block raise KeyboardInterrupt at its end."""
    is_main = threading.current_thread() is threading.main_thread()  # which gets all signals
    # A handler that is not Python's could not be put back.
    if not is_main or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def exit_code(rows: Sequence[SweepRow], comparison: SweepComparison | None) -> int:
    """2 where something has no result, else 1 where there are regressions; an absent model is neither."""
    if any(row.status in {RowStatus.FAILED, RowStatus.LOST} for row in rows) or not rows:
        return 2
    return int(comparison is not None and bool(comparison.regressions))


def about_time(seconds: float) -> str:
    """`~40 s`, `~12 min`, `~3.5 h`: an estimated duration."""
    if seconds < 90:  # noqa: PLR2004 - below it minutes say too little
        return f"~{seconds:.0f} s"
    minutes = seconds / 60
    return f"~{minutes:.0f} min" if minutes < 90 else f"~{minutes / 60:.1f} h"  # noqa: PLR2004 - the same


def encode_json(data: Any) -> str:
    """Readable JSON."""
    import json  # noqa: PLC0415 - not for --help

    return json.dumps(encode(data), indent=1)


def _engine(options: argparse.Namespace) -> Engine:
    """The engine that the user chose. Raises EngineError and NoInterpreterError."""
    if options.engine == "ray":
        from fuselight_server.sweep.ray_engine import RayEngine  # noqa: PLC0415 - Ray is optional

        return RayEngine.connected(
            options.address, jobs=options.jobs, gpus=options.gpus, python=options.python, say=print_error
        )
    if options.address:
        raise CommandError("--address is the address of a Ray cluster: add --engine ray")
    gpus = local_gpus(os.environ)
    if options.gpus is not None and options.gpus > len(gpus):
        raise CommandError(
            f"--gpus {options.gpus}: this machine has {len(gpus)}. Ask for fewer, or use a cluster with --engine ray"
        )
    path = Path(options.suite)
    interpreter = choose(options.python, project_root(path if path.exists() else Path.cwd()), os.environ)
    jobs = options.jobs or default_jobs()
    return LocalEngine(interpreter, jobs=jobs, gpus=gpus[: options.gpus], folder=str(Path.cwd()))


def _check_gpus(plan: SweepPlan, engine: Engine) -> None:
    if engine.gpus == 0 and any(task.needs_gpu for task in plan.tasks):
        raise EngineError(
            f"--device cuda: there is no GPU in {engine.description}. Time on the CPU with --device cpu, or use a "
            "machine with a GPU"
        )


def _taken(options: argparse.Namespace, suite: str) -> ResultsFolder:
    """The folder for the results, taken. Raises ResultsError."""
    folder = _folder(options, suite)
    folder.take_folder()
    return folder


def _folder(options: argparse.Namespace, suite: str) -> ResultsFolder:
    if options.out is not None:
        return ResultsFolder(options.out)
    store = Store.at(project_root(Path.cwd()))
    folder = store.folder / _SWEEPS
    if options.resume:
        earlier = earlier_sweep(folder, suite, _suite_path(options.suite))
        if earlier is None:
            raise ResultsError(
                f"there is no earlier sweep of `{options.suite}` in {folder}: name its folder with --out, or leave "
                "out --resume"
            )
        return ResultsFolder(earlier)
    try:
        store.prepare()
    except OSError as error:
        raise ResultsError(
            f"cannot write to {store.folder}: {error.strerror or error}. Choose a folder with --out"
        ) from None
    return ResultsFolder(folder / f"{suite}-{time.strftime('%Y%m%d-%H%M%S')}")


def _suite_path(named: str) -> str:
    """Absolute path of a suite; the name of a built-in one."""
    return named if is_built_in(named) else str(Path(named).absolute())
