"""Results that torch records as numbers in its metrics, as of remote caches and Triton; restarts in one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.jobs.caches.model import CacheSummary, CauseKind
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.trace_log.reader import read_jobs
from tests.support.trace_logs import artifact, compiled, record


def summary_of(folder: Path, *logs: bytes) -> CacheSummary:
    for number, log in enumerate(logs):
        (folder / f"dedicated_log_torch_trace_{number}.log").write_bytes(log)
    (job,) = read_jobs([str(folder)])
    return summarize(job)


def metrics(**fields: Any) -> bytes:
    return compiled() + record("compilation_metrics", {"co_name": "f", "co_filename": "/job/a.py", **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"inductor_fx_remote_cache_hit_count": 3}, [("fx_graph", "hit", True, 3, None)]),
        ({"aotautograd_remote_cache_miss_count": 1}, [("aotautograd", "miss", True, 1, None)]),
        (
            {
                "triton_kernel_compile_times_us": json.dumps([["k0", 9], ["k1", 7]]),
                "triton_compile_time_us": 2_000_000,
            },
            [("triton", "miss", None, 2, 2.0)],
        ),
        ({"triton_compile_time_us": 605}, []),
        ({"num_triton_bundles": 4}, [("triton", "hit", None, 4, None)]),
        (
            {"compile_time_autotune_time_us": 500_000, "runtime_triton_autotune_time_us": 250_000},
            [("autotune", "miss", None, 1, 0.75)],
        ),
        ({"triton_kernel_compile_times_us": "not JSON", "num_triton_bundles": "many"}, []),
    ],
)
def test_numbers_of_the_metrics_are_results(
    tmp_path: Path, fields: dict[str, Any], expected: list[tuple[object, ...]]
) -> None:
    summary = summary_of(tmp_path, metrics(**fields))
    rows = [
        (row.cache.value, row.state.value, row.is_remote, row.count, row.lost_seconds)
        for row in summary.results
    ]
    assert rows == expected
    assert [(total.hits + total.misses) for total in summary.totals] == [row[3] for row in expected]


def miss(key: str, size: int, second: int) -> bytes:
    components = [f"[h{size}] example_inputs[0]: {size}", "[same] cache_key_tag: "]
    body = {"key": key, "cache_state": "miss", "cache_status_detailed": "full_miss", "components": components}
    return artifact("fx_graph_cache_miss", json.dumps(body), second=second)


def test_a_restart_in_the_same_folder_is_compared_with_the_start_before(tmp_path: Path) -> None:
    first = compiled(start=1_000.0) + miss("f1", 4, 1_001)
    second = compiled(start=1_002.0) + miss("f2", 6, 1_003)
    summary = summary_of(tmp_path, first, second)
    texts = [cause.text for row in summary.results for cause in row.causes]
    assert texts[1] == "input 0: 4 -> 6"
    assert "there is no earlier start" in texts[0]
    assert summary.compared_with is not None


def test_entries_whose_conditions_do_not_hold_are_told_from_new_keys(tmp_path: Path) -> None:
    body = {"key": "f1", "cache_state": "miss", "cache_status_detailed": "guard_miss", "components": []}
    summary = summary_of(tmp_path, compiled() + artifact("fx_graph_cache_miss", json.dumps(body)))
    (row,) = summary.results
    assert [cause.kind for cause in row.causes] == [CauseKind.GUARDS]


def test_compiles_without_a_record_of_a_cache_are_noted(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, compiled())
    assert summary.results == ()
    assert "the caches were off, or the backend is not Inductor" in summary.notes[0]
