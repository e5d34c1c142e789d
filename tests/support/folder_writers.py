"""Everything that writes to a project's folder, for tests that run it in processes of their own.

As a program: `python -m tests.support.folder_writers FOLDER NAME COUNT` waits for a line on stdin, writes COUNT times
with each writer, reads after each, and prints as JSON what went wrong. Without COUNT it writes once, fills the disk of
the folder (or, for `limit`, lets no file grow past a few bytes), writes again, and once more with room.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fuselight.shared import tuned_file
from fuselight.shared.kernel_calls import KernelCall, KernelCalls, read_calls, write_calls
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.consent_store import ConsentStore
from fuselight_server.base.store import Store
from fuselight_server.commands import count_baseline
from fuselight_server.commands.chosen_files import keep_choices, kept_choices
from fuselight_server.commands.compile_tests import FailedCompileTest, keep_failed, read_failed
from fuselight_server.commands.count_baseline import CountEntry
from fuselight_server.execution.runs.stored_reports import keep_capture, stored_captures
from fuselight_server.explain.benchmarks.history import History, NotKeptError, run_of
from fuselight_server.explain.searches.last_search import keep_search, kept_searches
from fuselight_server.sweep.results import ResultsError, ResultsFolder, read_results
from fuselight_server.upgrades.model import ComparedRuns, SideReports
from fuselight_server.upgrades.results import RunsFolder
from tests.support.measured import benchmark, row
from tests.support.reports import FILE, ROOT, report
from tests.support.sweeps import row as sweep_row
from tests.support.tuned import result, search

PROMISED = (OSError, CommandError, NotKeptError, ResultsError, tuned_file.TunedFileError)
"""What a writer raises where it cannot write."""
FILLER = "filler"
LONG = "n" * 9_000
"""Large enough that a nearly full disk takes a part of it."""


def write_report(folder: Path, _name: str) -> None:
    Store.at(folder).write_report(replace(report(), texts={"k": LONG}))


def write_capture(folder: Path, name: str) -> None:
    target = replace(report().target, name=f"Net{name}")
    keep_capture(Store.at(folder), replace(report(), target=target, files={FILE: LONG}))


def write_benchmark(folder: Path, _name: str) -> None:
    run = run_of(benchmark(row("eager", 300.0), row("default", 100.0)), ROOT, lambda *_: LONG)
    assert run is not None
    History(Store.at(folder), str(folder / "model.py"), "Net").keep_run(run)


def write_search(folder: Path, name: str) -> None:
    searched = search()
    keep_search(Store.at(folder), replace(searched, target=replace(searched.target, name=f"Net{name}")))


def write_tuned(folder: Path, name: str) -> None:
    tuned_file.keep(folder / tuned_file.NAME, [result(target=name, when=LONG)])


def write_failed(folder: Path, name: str) -> None:
    keep_failed(Store.at(folder), [name], [FailedCompileTest(name, (), {"f": LONG})])


def write_counts(folder: Path, name: str) -> None:
    count_baseline.write(folder / "counts.json", {name: CountEntry(1, 0, 0, findings={LONG: 1})})


def write_choices(folder: Path, name: str) -> None:
    keep_choices(folder, {**kept_choices(folder), name: LONG})


def write_consent(folder: Path, name: str) -> None:
    ConsentStore(folder / "state").keep_answer(f"/{name}", "run")


def write_calls_of_notebook(folder: Path, name: str) -> None:
    write_calls(
        folder / ".fuselight" / "notebooks" / f"{name}.json",
        KernelCalls(name, (KernelCall("net", LONG, ""),)),
    )


def write_upgrade(folder: Path, name: str) -> None:
    runs = RunsFolder(folder / "upgrade")
    runs.prepare()
    runs.save(name, ComparedRuns(FILE, name, SideReports(report()), SideReports(report())))


def write_sweep(folder: Path, name: str) -> None:
    results = ResultsFolder(folder / "sweep" / name.rstrip("0123456789"))
    try:
        results.take_folder()
        results.open_rows()
        results.append(sweep_row(name, notes=(LONG,)))
    finally:
        results.close()


WRITERS: tuple[Callable[[Path, str], None], ...] = (
    write_report,
    write_capture,
    write_benchmark,
    write_search,
    write_tuned,
    write_failed,
    write_counts,
    write_choices,
    write_consent,
    write_calls_of_notebook,
    write_upgrade,
    write_sweep,
)


def rows_of(sweep: Path) -> list[str]:
    try:
        return [each.name for each in read_results(str(sweep)).rows]
    except ResultsError:  # it has none
        return []


def kept(folder: Path) -> dict[str, list[str]]:
    """What is kept in the folder, by writer, read as the product reads it. Nothing of it may raise."""
    store = Store.at(folder)
    captures = stored_captures(store)
    history = History(store, str(folder / "model.py"), "Net")
    last = store.read_report()
    sweeps = sorted((folder / "sweep").glob("*")) if (folder / "sweep").is_dir() else []
    calls = sorted(store.folder.glob("notebooks/*.json"))
    return {
        "report": [last.target.name] if last is not None else [],
        "capture": [captures.read(path).report.target.name for path in captures.files()],
        "benchmark": [past.id for past in history.runs() if history.read(past.id) is not None],
        "search": [searched.target.name for searched in kept_searches(store)],
        "tuned": [
            each.target
            for each in (tuned_file.read(folder / tuned_file.NAME) or tuned_file.TunedFile()).results
        ],
        "failed": [each.test for each in read_failed(store)],
        "counts": list(count_baseline.read(folder / "counts.json")),
        "choices": list(kept_choices(folder)),
        "consent": [answer.subject for answer in ConsentStore(folder / "state").answers()],
        "calls": [each.notebook for path in calls if (each := read_calls(path)) is not None],
        "upgrade": [
            path.name.partition(".")[0]
            for path in sorted((folder / "upgrade" / "targets").glob("*"))
            if RunsFolder(folder / "upgrade").load(path.name.partition(".")[0]) is not None
        ],
        "sweep": [name for path in sweeps for name in rows_of(path)],
    }


def main(folder: Path, name: str, count: int) -> None:
    """Write in turns with other processes."""
    sys.stdin.readline()
    wrong: list[str] = []
    for number in range(count):
        for writer in WRITERS:
            try:
                writer(folder, f"{name}{number}")
                kept(folder)
            except Exception as error:  # noqa: BLE001 - the test reads them
                wrong.append(f"{writer.__name__} {number}: {type(error).__name__}: {error}")
    sys.stdout.write(json.dumps(wrong))


def write_all(folder: Path, name: str) -> dict[str, str]:
    """What each writer that could not write has said."""
    errors = {}
    for writer in WRITERS:
        try:
            writer(folder, name)
        except PROMISED as error:
            errors[writer.__name__] = str(error)
    return errors


def fill(folder: Path) -> None:
    """Take all room of the disk but for half of what a writer needs."""
    with contextlib.suppress(OSError), (folder / FILLER).open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
    os.truncate(folder / FILLER, (folder / FILLER).stat().st_size - (1 << 12))


@contextlib.contextmanager
def no_room(folder: Path, how: str) -> Iterator[None]:
    """A disk on which only the beginning of a file can be written."""
    if how == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        fill(folder)
        yield
        (folder / FILLER).unlink()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def on_a_full_disk(folder: Path, how: str) -> None:
    assert write_all(folder, "before") == {}
    before, there = kept(folder), files(folder)
    with no_room(folder, how):
        errors = write_all(folder, "after")
        while_full = kept(folder)
        left = [name for name in files(folder) if name not in there and name != FILLER]
    again = write_all(folder, "later")
    sys.stdout.write(json.dumps([before, errors, while_full, left, again, kept(folder)]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])) if sys.argv[3:] else on_a_full_disk(
        Path(sys.argv[1]), sys.argv[2]
    )
