"""The pages of measured peaks are those of the recordings, and what is missing in a recording is missing there."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.studies import measured_peaks

EAGER = {"form": "eager", "estimated": 990, "measured": 1000}
DEFAULT = {
    "form": "default", "text": "", "tensor_bytes": 2_000_000, "estimated_bytes": None, "reserved_bytes": None,
    "between_bytes": None,
}  # fmt: skip


@pytest.mark.parametrize("name", ["memory-cpu.md", "memory-bench.md"])
def test_a_page_is_what_the_recordings_say(name: str) -> None:
    text = (measured_peaks.PAGES / name).read_text(encoding="utf-8")
    assert text == measured_peaks.pages()[measured_peaks.PAGES / name]


def test_rows_have_the_order_of_the_targets_and_no_invented_numbers() -> None:
    rows: list[dict[str, Any]] = [
        {"target": "Attention", "inputs": "f32[2]", "memory": [EAGER]},
        {"target": "FeedForward", "inputs": "f32[3]", "error": "no memory", "bench": [DEFAULT]},
    ]
    data = {"torch": "2.13.0", "device": "a GPU", "rows": rows}
    page, table = measured_peaks.memory_page(data), measured_peaks.bench_table(data)
    assert "| Attention | `f32[2]` | eager | 990 | 1,000 | -1.00% |" in page
    assert "FeedForward" not in page
    assert "| FeedForward | `f32[3]` | default | - | 2.0 | - | - | - |" in table
    assert "Attention" not in table


def test_every_target_has_inputs_for_both_machines() -> None:
    text = measured_peaks.TARGETS.read_text(encoding="utf-8")
    assert measured_peaks.targets(text).keys() == measured_peaks.GPU_INPUTS.keys()
