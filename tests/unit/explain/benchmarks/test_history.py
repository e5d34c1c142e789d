"""Stored benchmarks, compared by line wherever it moved, and only as far as the spreads allow."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.codec import decode, encode
from fuselight.shared.notebooks.commands import MARKER
from fuselight.shared.report import Report, TargetRef
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.store import Store
from fuselight_server.explain.benchmarks import history
from fuselight_server.explain.benchmarks.history import (
    BenchmarkRun,
    History,
    NotKeptError,
    branch,
    dump,
    forget,
    load,
    run_of,
)
from fuselight_server.explain.benchmarks.history_diff import changes_in_words, compare, on_page
from fuselight_server.explain.benchmarks.page import View
from tests.support.measured import benchmark, graph, kernel, profile, ran, row
from tests.support.reports import FILE, ROOT

VIEW = View(uri_of=lambda path: path, read_line=lambda _path, line: f"now {line}")
WHEN = "2026-01-{:02d}T12:00:00Z"


def timed(*lines: tuple[int, float], us: float = 100.0, spread: float = 0.01, day: int = 1) -> Report:
    """A benchmark in which each line has a kernel of its own."""
    kernels = graph(*(kernel(line, launch=index) for index, (line, _) in enumerate(lines)))
    shown = profile([ran(index, each, spread) for index, (_, each) in enumerate(lines)])
    return benchmark(
        row("eager", 300.0), row("default", us, spread, generated=(kernels,), profile=shown),
        of={"started": WHEN.format(day)},
    )  # fmt: skip


def text(line: int) -> str:
    return f"y{line} = f(x)"


def benchmark_run(report: Report, texts: dict[int, str] | None = None) -> BenchmarkRun:
    run = run_of(report, ROOT, lambda _path, line: (texts or {}).get(line, text(line)))
    assert run is not None
    return run


def test_a_change_is_reported_by_configuration_and_line() -> None:
    comparison = compare(
        benchmark_run(timed((42, 100.0), (50, 10.0))), benchmark_run(timed((42, 112.0), (50, 10.0), us=112.0))
    )
    assert changes_in_words(comparison, benchmark_run(timed())) == (
        "default: +12%, 100 µs -> 112 µs",
        "+12%, line 42: 100 µs -> 112 µs",
    )


def test_a_change_within_both_spreads_is_not_reported() -> None:
    comparison = compare(
        benchmark_run(timed((42, 100.0), spread=0.1)), benchmark_run(timed((42, 112.0), us=112.0, spread=0.1))
    )
    assert changes_in_words(comparison, benchmark_run(timed())) == ()
    shown = encode(on_page(comparison, VIEW))
    assert [configuration["change"] for configuration in (*shown["configurations"], *shown["lines"])] == [
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("now", "texts"),
    [
        (((47, 112.0), (55, 10.0)), {47: text(42), 55: text(50)}),  # five lines came above
        (((8, 10.0), (42, 112.0)), {8: text(50)}),  # the other one went above it
        (((42, 112.0), (50, 10.0)), {42: "y42 = g(x)"}),  # edited where it is
    ],
)
def test_lines_are_paired_where_they_moved(now: tuple[tuple[int, float], ...], texts: dict[int, str]) -> None:
    comparison = compare(benchmark_run(timed((42, 100.0), (50, 10.0))), benchmark_run(timed(*now), texts))
    (line,) = [pair for pair in comparison.lines if pair.change is not None]
    assert line.change == pytest.approx(0.12)
    assert all(pair.before is not None and pair.after is not None for pair in comparison.lines)
    assert line.place.line == next(number for number, us in now if us == 112.0)


def test_new_lines_and_lines_that_are_gone_are_reported_as_such() -> None:
    after = benchmark_run(timed((42, 100.0), (60, 5.0)))
    comparison = compare(benchmark_run(timed((42, 100.0), (50, 10.0))), after)
    assert changes_in_words(comparison, after) == ("gone, line 50 of then: 10 µs", "new, line 60: 5 µs")
    gone, new, _ = encode(on_page(comparison, VIEW))["lines"]
    assert (gone["place"]["text"], gone["place"]["path"], gone["after_us"]) == (
        text(50),
        "model.py (then)",
        None,
    )
    assert (new["place"]["text"], new["before_us"]) == ("now 60", None)


def test_a_line_that_is_gone_from_a_notebook_is_one_of_the_cell_that_it_was_in() -> None:
    book = f"{ROOT}/train.ipynb"
    report: Report = decode(
        Report, json.loads(json.dumps(encode(timed((42, 100.0), (50, 10.0)))).replace(FILE, book))
    )
    before = benchmark_run(report, {1: MARKER, 30: MARKER, 48: MARKER, 60: MARKER})
    after = run_of(replace(timed((42, 100.0)), target=report.target), ROOT, lambda _path, line: text(line))
    assert after is not None
    assert before.cell(SourceLine(book, 42)) == (2, 12)
    assert benchmark_run(timed((42, 100.0))).cell(SourceLine(FILE, 42)) is None
    places = [line["place"] for line in encode(on_page(compare(before, after), VIEW))["lines"]]
    assert ("train.ipynb:cell 3 (then)", 1, "") in {
        (place["path"], place["line"], place["uri"]) for place in places
    }


def test_another_files_target_is_compared_line_by_line() -> None:
    other = timed((42, 100.0))
    there = replace(
        other, target=TargetRef(f"{ROOT}/old.py", "Net", 10, "module"),
        measured=replace_paths(other, f"{ROOT}/old.py").measured,
    )  # fmt: skip
    comparison = compare(benchmark_run(there), benchmark_run(timed((42, 112.0))))
    assert [line.change for line in comparison.lines] == [pytest.approx(0.12)]


def replace_paths(report: Report, path: str) -> Report:
    moved: Report = decode(Report, json.loads(json.dumps(encode(report)).replace(FILE, path)))
    return moved


def at(folder: Path) -> History:
    return History(Store.at(folder), str(folder / "model.py"), "Net")


def test_stored_runs_are_private_and_readable(tmp_path: Path) -> None:
    here = at(tmp_path)
    assert here.runs() == ()
    assert here.keep_run(benchmark_run(timed((42, 100.0)))) is not None
    (past,) = here.runs()
    assert (past.id, past.when, past.device) == ("20260101T120000Z", WHEN.format(1), "NVIDIA H200")
    assert past.label == "torch 2.13.0, inference, default 3.0×"
    run = here.newest()
    assert run is not None
    assert run.line(FILE, 42) == text(42)
    assert run.report.measured == timed((42, 100.0)).measured
    assert {path.name for path in here.folder.iterdir()} == {"target.json", "20260101T120000Z.json.gz"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in here.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(here.folder.stat().st_mode) == 0o700
    assert (tmp_path / ".fuselight/.gitignore").read_text() == "*\n"
    assert History(here.store, here.path, "Other").runs() == ()
    assert here.read("../20260101T120000Z") is None


def test_the_newest_twenty_are_kept_and_two_of_one_second_both(tmp_path: Path) -> None:
    here = at(tmp_path)
    for day in range(1, 25):
        here.keep_run(benchmark_run(timed((42, 100.0), day=day)))
    here.keep_run(benchmark_run(timed((42, 90.0), day=24)))
    ids = [past.id for past in here.runs()]
    assert len(ids) == history.KEPT
    assert ids[:2] == ["20260124T120000Z-2", "20260124T120000Z"]
    assert "20260104T120000Z" not in ids


def test_the_number_of_targets_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT_TARGETS", 3)
    store = Store.at(tmp_path)
    for number in range(5):
        History(store, str(tmp_path / f"m{number}.py"), "f").keep_run(benchmark_run(timed((1, 1.0))))
    assert len(list((store.folder / "bench").iterdir())) == 3


def test_damaged_entries_are_ignored(tmp_path: Path) -> None:
    here = at(tmp_path)
    for day in (1, 2):
        here.keep_run(benchmark_run(timed((42, 100.0), day=day)))
    newest = here.folder / "20260102T120000Z.json.gz"
    newest.write_bytes(newest.read_bytes()[:-40])
    assert here.read("20260102T120000Z") is None
    run = here.newest()
    assert run is not None
    assert run.past.id == "20260101T120000Z"
    newest.write_bytes(b"nothing")
    assert [past.id for past in here.runs()] == ["20260101T120000Z"]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".fuselight").write_text("a file")
    with pytest.raises(NotKeptError, match="benchmarks cannot be kept in "):
        at(tmp_path).keep_run(benchmark_run(timed((42, 1.0))))


def test_caches_are_cleared_with_the_rest(tmp_path: Path) -> None:
    here = at(tmp_path)
    here.keep_run(benchmark_run(timed((42, 1.0))))
    forget(here.store)
    here.store.clear()
    assert not here.store.folder.exists()


def test_other_json_is_not_a_run() -> None:
    run = benchmark_run(timed((42, 1.0)))
    assert load(dump(run)) == run
    for broken in ("", "{}\n{}", '{"kind": "fuselight benchmark", "schema": 99}\n{}'):
        with pytest.raises(ValueError):  # noqa: PT011 - whichever it is
            load(broken)


def test_a_run_records_its_branch(tmp_path: Path) -> None:
    assert branch(tmp_path / "nowhere") == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/faster/gelu\n")
    assert branch(tmp_path) == "faster/gelu"
    (tmp_path / ".git/HEAD").write_text("0123456789abcdef\n")
    assert branch(tmp_path) == "0123456789"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../.git\n")
    assert branch(tree) == "0123456789"
