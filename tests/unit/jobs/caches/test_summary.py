"""Caches of recorded jobs: results, seconds, totals, the line of a bypass, and the picture of a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.jobs.caches.findings import cache_findings
from fuselight_server.jobs.caches.model import CacheResult, CauseKind, StartStage
from fuselight_server.jobs.caches.starts import stage_of, start_pictures
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.trace_log.model import CacheName, CacheState, LoggedJob
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.trace_logs import event, record

RECORDINGS = Path(__file__).parents[3] / "recordings" / "jobs" / "torch-2.13"

SOURCE = (RECORDINGS.parents[1] / "jobs.py").read_text(encoding="utf-8").split("\n")


def recorded(name: str) -> LoggedJob:
    (job,) = read_jobs([str(RECORDINGS / name)])
    return job


def states(results: tuple[CacheResult, ...]) -> list[tuple[CacheName, CacheState]]:
    return [(row.cache, row.state) for row in results]


def test_a_first_start_cannot_tell_an_empty_cache_from_a_new_key() -> None:
    summary = summarize(recorded("cache_miss"))
    assert set(states(summary.results)) == {
        (CacheName.AOTAUTOGRAD, CacheState.MISS),
        (CacheName.FX_GRAPH, CacheState.MISS),
    }
    assert {cause.kind for row in summary.results for cause in row.causes} == {CauseKind.NOT_COMPARED}
    assert summary.compared_with is None
    assert "empty cache or a new key" in summary.notes[0]
    assert cache_findings(summary, inputs="cache_miss") == []


def test_a_second_start_hits_and_saves_what_the_first_one_lost() -> None:
    first, second = recorded("cache_miss"), recorded("cache_hit")
    lost = {total.cache: total.lost_seconds for total in summarize(first).totals}
    hits = summarize(second, first)
    assert {state for _, state in states(hits.results)} == {CacheState.HIT}
    saved = {total.cache: total.saved_seconds for total in hits.totals}
    assert saved[CacheName.FX_GRAPH] == pytest.approx(lost[CacheName.FX_GRAPH], rel=0.1)
    assert hits.lost == ()


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("autocast", "autocast is entered inside the compiled function", "return x @ y"),
        ("autograd_function", "an autograd.Function is inside the compiled function", "Cubed.apply"),
    ],
)
def test_a_bypass_is_on_its_line_in_the_graph(name: str, words: str, line: str) -> None:
    (bypass,) = [row for row in summarize(recorded(name)).results if row.state is CacheState.BYPASS]
    (cause,) = bypass.causes
    assert (bypass.cache, cause.kind) == (CacheName.AOTAUTOGRAD, CauseKind.BYPASS)
    assert words in cause.text
    assert cause.location is not None
    assert line in SOURCE[cause.location.line - 1]
    assert bypass.lost_seconds is not None
    (finding,) = cache_findings(summarize(recorded(name)), inputs=name)
    assert (finding.code, finding.span.line) == ("FL922", cause.location.line)


def test_autocast_is_found_in_the_source_where_it_is_available() -> None:
    summary = summarize(recorded("autocast"), read_line=lambda _path, line: SOURCE[line - 1])
    (cause,) = [cause for row in summary.results for cause in row.causes if cause.kind is CauseKind.BYPASS]
    assert cause.location is not None
    assert "with torch.autocast" in SOURCE[cause.location.line - 1]


def test_the_stages_of_a_start_add_up() -> None:
    job = recorded("cache_miss")
    (picture,) = start_pictures(job)
    (process,) = job.processes
    outermost = sum((phase.end or phase.start) - phase.start for phase in process.phases if phase.depth == 0)
    assert picture.seconds == pytest.approx(outermost)
    assert sum(line.seconds for line in picture.lines) == pytest.approx(outermost)
    stages = {part.stage for part in picture.stages}
    assert {StartStage.TRACING, StartStage.AOTAUTOGRAD, StartStage.CODE_GENERATION} <= stages
    assert StartStage.OTHER not in stages
    assert picture.saved_by_second_start is not None
    assert 0 < picture.saved_by_second_start < picture.seconds
    assert not picture.is_import_known
    assert "the time of imports is not in it. `fuselight run` records it" in picture.notes[0]


@pytest.mark.parametrize(
    ("phase", "stage"),
    [
        ("compile_attempt_2", StartStage.TRACING),
        ("aot_trace_joint_graph", StartStage.AOTAUTOGRAD),
        ("GraphLowering.run", StartStage.CODE_GENERATION),
        ("compile_file", StartStage.COMPILING),
        ("CachingAutotuner.synchronize", StartStage.COMPILING),
        ("CachingAutotuner.benchmark_all_configs", StartStage.AUTOTUNING),
        ("mm_template_autotuning", StartStage.AUTOTUNING),
        ("cudagraphify", StartStage.CUDA_GRAPHS),
        ("AOTAutogradCache.inductor_load", StartStage.CACHES),
        ("a_phase_of_a_later_torch", None),
    ],
)
def test_stages_of_phases(phase: str, stage: StartStage | None) -> None:
    assert stage_of(phase) is stage


def test_the_c_compilers_time_is_of_the_compile_that_waits_for_it(tmp_path: Path) -> None:
    """Its phases name no compile: a second start would else save more of a function than the function took."""
    names = (("dynamo", "0/0/0"), ("async_compile.wait", "0/0/0"), ("compile_file", ""), ("compile_file", ""))
    begun = [event(name, "B", number, at=at) for number, (name, at) in enumerate(names)]
    ended = [event(name, "E", 10 - number, at=at) for number, (name, at) in enumerate(names)]
    metrics = {"co_name": "f", "co_filename": "/job/a.py", "co_firstlineno": 3}
    log = tmp_path / "dedicated_log_torch_trace_1.log"
    log.write_bytes(b"".join((*begun, *reversed(ended), record("compilation_metrics", metrics))))
    (job,) = read_jobs([str(log)])
    (picture,) = start_pictures(job)
    (line,) = picture.lines
    assert (line.function, line.compiles) == ("f", 1)
    assert line.seconds == pytest.approx(10.0)
    assert {part.stage: part.seconds for part in line.stages}[StartStage.COMPILING] == pytest.approx(8.0)
