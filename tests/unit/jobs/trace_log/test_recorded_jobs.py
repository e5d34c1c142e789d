"""What the reader counts in recorded jobs equals torch's own counters at the end of each process."""

from __future__ import annotations

import collections
import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.version import release
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

EVERY_RELEASE = sorted({folder.parent for folder in JOBS}, key=lambda path: release(path.name[6:]))
RELEASES = [path for path in EVERY_RELEASE if release(path.name[6:]) >= (2, 11)]
"""With every job."""
EARLIER = [path for path in EVERY_RELEASE if path not in RELEASES]
"""With some jobs, of releases that Fuselight does not run."""
SOURCE = (RECORDINGS / "jobs.py").read_text(encoding="utf-8").splitlines()
_CACHES = {
    ("aot_autograd", "autograd_cache"): CacheName.AOTAUTOGRAD,
    ("inductor", "fxgraph_cache"): CacheName.FX_GRAPH,
}


@functools.cache
def job_of(folder: Path) -> LoggedJob:
    (job,) = read_jobs([folder])
    return job


def process_of(recorded: Path, name: str) -> ProcessLog:
    (process,) = job_of(recorded / name).processes
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
    assert [path.name[6:] for path in EARLIER] == ["2.6", "2.7", "2.8", "2.9", "2.10"]
    assert len(RELEASES) >= 2
    for releases in (EARLIER, RELEASES):
        assert len({tuple(sorted(path.name for path in recorded.iterdir())) for recorded in releases}) == 1


@pytest.mark.parametrize("recorded", EVERY_RELEASE, ids=lambda recorded: recorded.name)
def test_the_counts_equal_torchs_counters(recorded: Path) -> None:
    version = recorded.name.removeprefix("torch-")
    for folder in JOBS:
        if folder.parent != recorded or folder.name == "unfinished":  # the killed process has no counters
            continue
        job = job_of(folder)
        assert job.notes == (), folder
        for process, counters in zip(job.processes, counters_of(folder), strict=True):
            counts, of_torch = counted(process), expected(counters)
            if version == "2.7":  # which counts frames that it looks at and does not compile, too
                assert counts.pop("frames") <= of_torch.pop("frames")
            assert counts == of_torch, folder
            assert not process.unknown, folder
            assert process.is_complete
            assert not process.is_truncated
            if release(version) >= (2, 10):  # earlier releases do not log their version
                assert process.torch_version is not None
                assert process.torch_version.startswith(version)
            assert process.started is not None
            assert process.ended is not None
            assert 0 < process.ended - process.started < 600
            assert all(phase.end is not None for phase in process.phases)
            assert {"dynamo", "entire_frame_compile"} <= {phase.name for phase in process.phases}


@pytest.mark.parametrize("recorded", EARLIER, ids=lambda recorded: recorded.name)
def test_facts_of_earlier_releases(recorded: Path, tmp_path: Path) -> None:
    first, resumed = process_of(recorded, "graph_break").compiles
    (graph_break,) = first.breaks
    assert graph_break.location.line == line_of('print("hidden"')
    (reason,) = graph_break.chain
    assert (reason.title, reason.gb_id) == ("Failed to trace builtin operator", "GB0059")
    assert "builtin operator `print`" in reason.explanation
    assert resumed.last.resumed_at == line_of('print("hidden"')

    again = job_of(recorded / "ranks_shape").ranks[1][0].compiles
    assert [compiled.recompile_reasons is not None for compiled in again] == [False, True]
    assert "size mismatch at index 0. expected 4, actual 6" in str(again[1].recompile_reasons)

    keys = [
        {event.key for event in process_of(recorded, name).cache_events if event.cache is CacheName.FX_GRAPH}
        for name in ("cache_miss", "cache_hit")
    ]
    assert keys[0] == keys[1]
    (compiled,) = process_of(recorded, "autograd_function").compiles
    bypasses = [event.cache for event in compiled.cache_events if event.state is CacheState.BYPASS]
    assert bypasses == ([] if recorded.name == "torch-2.6" else [CacheName.AOTAUTOGRAD])  # off in torch 2.6

    killed = process_of(recorded, "unfinished")
    assert killed.compiles[-1].state is AttemptState.UNFINISHED

    (packed,) = (recorded / "cache_miss").glob("*.gz")
    plain = tmp_path / packed.stem
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    (of_plain,) = job_of(tmp_path).processes
    assert counted(of_plain) == counted(process_of(recorded, "cache_miss"))


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE, 1) if text in line)


@pytest.mark.parametrize("recorded", RELEASES, ids=lambda recorded: recorded.name)
def test_facts_of_each_job(recorded: Path) -> None:
    first, resumed = process_of(recorded, "graph_break").compiles
    (graph_break,) = first.breaks
    assert graph_break.location.line == line_of('print("hidden"')
    assert graph_break.chain[0].gb_id == "GB0059"
    assert graph_break.stack[-1].text == 'print("hidden", tuple(x.shape))'
    assert [attempt.state for attempt in first.attempts] == [AttemptState.RESTARTED, AttemptState.FINISHED]
    assert resumed.last.resumed_at == line_of('print("hidden"')

    again = process_of(recorded, "recompile").compiles
    assert [logged_compile.recompile_reasons is not None for logged_compile in again] == [False, True, True]
    assert "scale" in str(again[1].recompile_reasons)

    (dynamic,) = process_of(recorded, "dynamic_shapes").compiles
    assert {symbol.source: symbol.hint for symbol in dynamic.symbols}["L['x'].size()[0]"] == "3"
    (fixed,) = {(specialization.sources, specialization.value) for specialization in dynamic.specializations}
    assert fixed == (("L['x'].size()[1]",), "8")
    assert dynamic.specializations[0].stack[-1].line == line_of("if x.size(1) == 8")


@pytest.mark.parametrize("recorded", RELEASES, ids=lambda recorded: recorded.name)
def test_graphs_code_and_errors_of_each_job(recorded: Path) -> None:
    (training,) = process_of(recorded, "training").compiles
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

    (crash,) = process_of(recorded, "compile_crash").compiles
    assert crash.state is AttemptState.FAILED
    (error,) = crash.last.errors
    assert "a backend that fails" in error.summary
    assert read_text(error.payload).startswith("Traceback")

    killed = process_of(recorded, "unfinished")
    assert killed.compiles[-1].state is AttemptState.UNFINISHED
    assert killed.phases[0].end is None


@pytest.mark.parametrize("recorded", RELEASES, ids=lambda recorded: recorded.name)
def test_lookups_in_caches_of_each_job(recorded: Path) -> None:
    (hit,) = process_of(recorded, "cache_hit").compiles
    saved = [event.time_saved for event in hit.cache_events if event.cache is CacheName.FX_GRAPH]
    assert all(seconds is not None and seconds > 0 for seconds in saved)
    (miss,) = process_of(recorded, "cache_miss").compiles
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
        (compiled,) = process_of(recorded, name).compiles
        bypassed = [event for event in compiled.cache_events if event.state is CacheState.BYPASS]
        if name == "autocast" and recorded.name != "torch-2.13":  # which alone does not cache it
            assert bypassed == []
            continue
        (bypass,) = bypassed
        assert bypass.cache is CacheName.AOTAUTOGRAD
        assert reason in str(bypass.reason)

    backward = process_of(recorded, "compiled_autograd")
    assert {record.id.autograd for record in backward.compiles} >= {None, 0}
    assert GraphKind.COMPILED_AUTOGRAD in {
        graph.kind for record in backward.compiles for graph in record.graphs
    }


@pytest.mark.parametrize("recorded", RELEASES, ids=lambda recorded: recorded.name)
def test_ranks_are_told_by_their_records(recorded: Path) -> None:
    for name in ("ranks_same", "ranks_shape", "ranks_branch"):
        assert list(job_of(recorded / name).ranks) == [0, 1]
    compiles = {
        name: [len(process.compiles) for process in job_of(recorded / name).processes]
        for name in ("ranks_same", "ranks_shape")
    }
    assert compiles == {"ranks_same": [1, 1], "ranks_shape": [1, 2]}
    first, second = (
        [line.operator for line in read_lines(process.compiles[0].graphs[0])]
        for process in job_of(recorded / "ranks_branch").processes
    )
    assert first != second
    assert "torch.sin" in second
