"""What the reader counts in recorded jobs equals torch's own counters at the end of each process."""

from __future__ import annotations

import collections
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.jobs.trace_log.graphs import read_lines
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CacheName,
    CacheState,
    GraphKind,
    LoggedCompile,
    LoggedJob,
    ProcessLog,
)
from fuselight_server.jobs.trace_log.payloads import read_components, read_metrics, read_text, read_texts
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.trace_logs import JOBS, RECORDINGS

RELEASES = sorted({folder.parent for folder in JOBS})
SOURCE = (RECORDINGS / "jobs.py").read_text(encoding="utf-8").splitlines()
_CACHES = {
    ("aot_autograd", "autograd_cache"): CacheName.AOTAUTOGRAD,
    ("inductor", "fxgraph_cache"): CacheName.FX_GRAPH,
}


@functools.cache
def job_of(folder: Path) -> LoggedJob:
    (job,) = read_jobs([folder])
    return job


def process_of(release: Path, name: str) -> ProcessLog:
    (process,) = job_of(release / name).processes
    return process


def counters_of(folder: Path) -> list[dict[str, dict[str, int]]]:
    recording: dict[str, Any] = json.loads((folder.parent / "recording.json").read_text(encoding="utf-8"))
    return list(recording["jobs"][folder.name])


def counted(process: ProcessLog) -> dict[str, int]:
    """What torch counts, from the log."""
    states = collections.Counter((event.cache, event.state) for event in process.cache_events)
    frames = [record for record in process.compiles if any(attempt.stack for attempt in record.attempts)]
    graphs = [
        frame for frame in frames if frame.state is AttemptState.FINISHED and kinds(frame, GraphKind.DYNAMO)
    ]
    out = {
        "breaks": sum(len(record.breaks) for record in process.compiles),
        "frames": len(frames),
        "graphs": len(graphs),
    }
    for cache in _CACHES.values():
        for state in (CacheState.HIT, CacheState.MISS, CacheState.BYPASS):
            out[f"{cache.value} {state.value}"] = states[cache, state]
    return out


def kinds(compiled: LoggedCompile, kind: GraphKind) -> list[Any]:
    return [graph for graph in compiled.graphs if graph.kind is kind]


def expected(counters: dict[str, dict[str, int]]) -> dict[str, int]:
    out = {
        "breaks": sum(counters.get("graph_break", {}).values()),
        "frames": counters.get("frames", {}).get("total", 0),
        "graphs": counters.get("stats", {}).get("unique_graphs", 0),
    }
    for (group, name), cache in _CACHES.items():
        for state in ("hit", "miss", "bypass"):
            out[f"{cache.value} {state}"] = counters.get(group, {}).get(f"{name}_{state}", 0)
    return out


def test_there_are_recordings_of_every_job() -> None:
    assert len(RELEASES) >= 2
    assert len({tuple(sorted(path.name for path in release.iterdir())) for release in RELEASES}) == 1


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_the_counts_equal_torchs_counters(release: Path) -> None:
    for folder in JOBS:
        if folder.parent != release or folder.name == "unfinished":  # the killed process has no counters
            continue
        job = job_of(folder)
        assert job.notes == (), folder
        for process, counters in zip(job.processes, counters_of(folder), strict=True):
            assert counted(process) == expected(counters), folder
            assert not process.unknown, folder
            assert process.is_complete
            assert not process.is_truncated
            assert process.torch_version is not None
            assert process.torch_version.startswith(release.name.removeprefix("torch-"))
            assert process.started is not None
            assert process.ended is not None
            assert 0 < process.ended - process.started < 600
            assert all(phase.end is not None for phase in process.phases)
            assert {"dynamo", "entire_frame_compile"} <= {phase.name for phase in process.phases}


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE, 1) if text in line)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_facts_of_each_job(release: Path) -> None:
    first, resumed = process_of(release, "graph_break").compiles
    (graph_break,) = first.breaks
    assert graph_break.location.line == line_of('print("hidden"')
    assert graph_break.chain[0].gb_id == "GB0059"
    assert graph_break.stack[-1].text == 'print("hidden", tuple(x.shape))'
    assert [attempt.state for attempt in first.attempts] == [AttemptState.RESTARTED, AttemptState.FINISHED]
    assert resumed.last.resumed_at == line_of('print("hidden"')

    again = process_of(release, "recompile").compiles
    assert [logged_compile.recompile_reasons is not None for logged_compile in again] == [False, True, True]
    assert "scale" in str(again[1].recompile_reasons)

    (dynamic,) = process_of(release, "dynamic_shapes").compiles
    assert {symbol.source: symbol.hint for symbol in dynamic.symbols}["L['x'].size()[0]"] == "3"
    (fixed,) = {(specialization.sources, specialization.value) for specialization in dynamic.specializations}
    assert fixed == (("L['x'].size()[1]",), "8")
    assert dynamic.specializations[0].stack[-1].line == line_of("if x.size(1) == 8")


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_graphs_code_and_errors_of_each_job(release: Path) -> None:
    (training,) = process_of(release, "training").compiles
    assert {graph.kind for graph in training.graphs} >= {
        GraphKind.JOINT,
        GraphKind.FORWARD,
        GraphKind.BACKWARD,
    }
    (forward,) = kinds(training, GraphKind.FORWARD)
    lines = read_lines(forward)
    assert {line.line for line in lines} == {line_of("torch.relu(self.up(x))")}
    assert "torch.ops.aten.relu.default" in {line.operator for line in lines}
    assert len(training.output_codes) == 2
    assert all("def call" in text for _, text in read_texts(code.payload for code in training.output_codes))
    assert training.last.guards is not None
    assert training.metrics is not None
    assert training.last.guards.count > 5
    assert read_metrics(training.metrics)["co_name"] == "forward"

    (crash,) = process_of(release, "compile_crash").compiles
    assert crash.state is AttemptState.FAILED
    (error,) = crash.last.errors
    assert "a backend that fails" in error.summary
    assert read_text(error.payload).startswith("Traceback")

    killed = process_of(release, "unfinished")
    assert killed.compiles[-1].state is AttemptState.UNFINISHED
    assert killed.phases[0].end is None


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_lookups_in_caches_of_each_job(release: Path) -> None:
    (hit,) = process_of(release, "cache_hit").compiles
    saved = [event.time_saved for event in hit.cache_events if event.cache is CacheName.FX_GRAPH]
    assert all(seconds is not None and seconds > 0 for seconds in saved)
    (miss,) = process_of(release, "cache_miss").compiles
    keys = [
        {event.key for event in part.cache_events if event.cache is CacheName.FX_GRAPH}
        for part in (hit, miss)
    ]
    assert keys[0] == keys[1]
    components = read_components(
        next(event for event in miss.cache_events if event.cache is CacheName.FX_GRAPH)
    )
    assert components is not None
    assert {"gm", "example_inputs[0]"} <= {component.name for component in components}

    for name, reason in (("autocast", "_enter_autocast"), ("autograd_function", "autograd_function_apply")):
        (compiled,) = process_of(release, name).compiles
        bypassed = [event for event in compiled.cache_events if event.state is CacheState.BYPASS]
        if name == "autocast" and release.name != "torch-2.13":  # which alone does not cache it
            assert bypassed == []
            continue
        (bypass,) = bypassed
        assert bypass.cache is CacheName.AOTAUTOGRAD
        assert reason in str(bypass.reason)

    backward = process_of(release, "compiled_autograd")
    assert {record.id.autograd for record in backward.compiles} >= {None, 0}
    assert GraphKind.COMPILED_AUTOGRAD in {
        graph.kind for record in backward.compiles for graph in record.graphs
    }


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_ranks_are_told_by_their_records(release: Path) -> None:
    for name in ("ranks_same", "ranks_shape", "ranks_branch"):
        assert list(job_of(release / name).ranks) == [0, 1]
    compiles = {
        name: [len(process.compiles) for process in job_of(release / name).processes]
        for name in ("ranks_same", "ranks_shape")
    }
    assert compiles == {"ranks_same": [1, 1], "ranks_shape": [1, 2]}
    first, second = (
        [line.operator for line in read_lines(process.compiles[0].graphs[0])]
        for process in job_of(release / "ranks_branch").processes
    )
    assert first != second
    assert "torch.sin" in second
