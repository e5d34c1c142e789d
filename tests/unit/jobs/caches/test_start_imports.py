"""Imports as a part of a start: from the record in a log to the terminal, JSON and the page."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.import_times import RECORD
from fuselight.shared.report import Compile, Frame, ImportLine, Imports, Location, Outcome
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs import FindingStream, jobs_as_json, print_jobs
from fuselight_server.cli.formats.jobs_caches import print_start
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.editor.presenters.job_page import page_of
from fuselight_server.editor.results.jobs import job_result_of
from fuselight_server.jobs.caches.model import StartPicture, StartStage
from fuselight_server.jobs.caches.recorded_start import recorded_start
from fuselight_server.jobs.caches.starts import start_pictures
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.reports import report
from tests.support.trace_logs import artifact, compiled

IMPORTS = Imports(
    began=990.0,
    until_compile=9.0,
    seconds=5.0,
    outside_seconds=0.5,
    lines=(
        ImportLine(Location("/job/nets.py", 1), ("torch",), 1, 4.0, 4.0),
        ImportLine(Location("/job/a.py", 1), ("nets", "nets.small"), 2, 4.5, 0.5),
        ImportLine(Location("/job/a.py", 2), ("json",), 1, 0.001, 0.001),
    ),
)


def record_of(imports: Imports) -> bytes:
    return artifact(RECORD, json.dumps(dataclasses.asdict(imports)))


def picture_of(folder: Path, imports: Imports, **given: Any) -> StartPicture:
    log = folder / "dedicated_log_torch_trace_1.log"
    log.write_bytes(record_of(dataclasses.replace(imports, **given)) + compiled())
    (job,) = read_jobs([str(log)])
    (picture,) = start_pictures(job)
    return picture


@pytest.fixture
def opened(tmp_path: Path) -> OpenedJob:
    logs, source = tmp_path / "logs", tmp_path / "source"
    logs.mkdir()
    source.mkdir()
    (logs / "dedicated_log_torch_trace_x.log").write_bytes(record_of(IMPORTS) + compiled())
    (source / "a.py").write_text("import nets\nimport json\n\ndef f(x):\n    return x + 1\n")
    (source / "nets.py").write_text("import torch\n")
    (job,) = asyncio.run(open_jobs(OpenRequest((logs,), (source,)), lambda _words: None, CancelToken()))
    return job


def test_imports_and_other_code_are_the_first_stages(tmp_path: Path) -> None:
    picture = picture_of(tmp_path, IMPORTS)
    assert picture.is_import_known
    stages = {part.stage: part.seconds for part in picture.stages}
    assert list(stages)[:2] == [StartStage.IMPORTS, StartStage.PROGRAM]
    assert (stages[StartStage.IMPORTS], stages[StartStage.PROGRAM]) == (5.0, 4.0)
    assert picture.compile_seconds == pytest.approx(picture.seconds - 9.0)
    imported = [line for line in picture.lines if line.is_import]
    assert sum(line.seconds for line in imported) == pytest.approx(5.0, abs=0.01)
    assert all(line.compiles == 0 and line.saved_by_second_start is None for line in imported)
    assert picture.notes == ()


def test_the_terminal_has_the_lines_that_take_time(tmp_path: Path) -> None:
    out = io.StringIO()
    print_start(picture_of(tmp_path, IMPORTS), Terminal(out))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert any(line.endswith("nets.py:1 imports torch: 4 s") for line in lines)
    assert any(
        line.endswith("a.py:1 imports nets and 1 module more: 500 ms (4.5 s with what it imports)")
        for line in lines
    )
    assert "imports outside of your files: 500 ms" in lines
    assert not any("json" in line for line in lines)


def test_imports_of_a_process_of_their_own_are_marked(tmp_path: Path) -> None:
    picture = picture_of(tmp_path, IMPORTS, is_separate=True, error="RuntimeError: no data")
    assert StartStage.PROGRAM not in {part.stage for part in picture.stages}
    assert "in a process of their own" in picture.notes[0]
    assert picture.notes[1].endswith("before the first compile: RuntimeError: no data")


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"is_forked": True}, "what its parent process imported"),
        ({"more_lines": 7}, "Only the first 3 lines"),
        ({"seconds": 3.0}, "Several threads imported at the same time"),
    ],
)
def test_what_a_reader_must_know_of_the_times(tmp_path: Path, given: dict[str, Any], note: str) -> None:
    (text,) = picture_of(tmp_path, IMPORTS, **given).notes
    assert note in text


@pytest.mark.parametrize("damage", [{"seconds": float("nan")}, {"lines": [{"modules": 3}]}, {"began": "x"}])
def test_a_damaged_record_costs_itself_alone(tmp_path: Path, damage: dict[str, Any]) -> None:
    log = tmp_path / "dedicated_log_torch_trace_1.log"
    payload = json.dumps({**dataclasses.asdict(IMPORTS), **damage})
    log.write_bytes(artifact(RECORD, payload) + compiled())
    (job,) = read_jobs([str(log)])
    (process,) = job.processes
    assert process.imports is None
    assert process.bad_records == 1
    assert process.compiles


def test_every_face_of_an_open_job_shows_them(opened: OpenedJob) -> None:
    out = io.StringIO()
    print_jobs((opened,), FindingStream(Terminal(out)), Terminal(out))
    assert "nets.py:1 imports torch: 4 s" in out.getvalue()
    (start,) = json.loads(jobs_as_json((opened,)))["jobs"][0]["starts"]
    assert start["is_import_known"]
    assert ["torch"] in [line["modules"] for line in start["lines"]]
    shown = page_of(job_result_of(0, "file:///logs", opened), None, (), lambda path: Path(path).name).start
    assert shown is not None
    first = shown.lines[0]
    assert (first.function, first.compiles, first.with_nested) == ("imports torch", 0, None)
    assert [line.with_nested for line in shown.lines if line.function.startswith("imports nets")] == [4.5]
    assert first.at is not None
    assert first.at.place is not None, "the line opens in the editor"
    assert (first.at.shown, first.at.place.line) == ("nets.py:1", 0)
    assert shown.stages[0].stage == "imports"


def test_the_own_process_of_a_run_has_its_compiles_by_function() -> None:
    frame = Frame("f", Location("/job/a.py", 4))
    compiles = tuple(Compile(f"0/{number}", 0, Outcome.COMPILED, seconds=1.5) for number in range(2))
    recorded = dataclasses.replace(report(), imports=IMPORTS, frames=(frame,), compiles=compiles)
    picture = recorded_start(recorded)
    assert picture is not None
    assert [part.stage for part in picture.stages] == [
        StartStage.IMPORTS,
        StartStage.PROGRAM,
        StartStage.COMPILES,
    ]
    assert picture.compile_seconds == 3.0
    function = next(line for line in picture.lines if line.function == "f")
    assert (function.compiles, function.seconds) == (2, 3.0)
    assert "TORCH_TRACE=FOLDER" in picture.notes[-1]
    assert recorded_start(dataclasses.replace(recorded, imports=None)) is None
    assert recorded_start(dataclasses.replace(recorded, compiles=())) is None
