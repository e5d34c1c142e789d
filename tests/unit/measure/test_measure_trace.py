"""Reading an exported trace. The traces here are hand-made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.recording import Event, EventKind, Window, read_trace, read_windows


def _event(cat: str, name: str, ts: Any, dur: Any, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 11, "ts": ts, "dur": dur, "args": args}


def _trace(*events: dict[str, Any]) -> str:
    return json.dumps({"traceEvents": list(events)})


def test_each_kind_of_event_is_read_with_what_joins_it() -> None:
    text = _trace(
        _event("kernel", "sgemm", 12.5, 3.25, stream=7, correlation=5, device=0),
        _event("cuda_runtime", "cudaLaunchKernel", 10, 1.001, correlation=5),
        _event("cuda_driver", "cuLaunchKernel", 11, 1, correlation=6),
        _event("gpu_memset", "Memset (Device)", 13, 1, stream=8, correlation=7),
        _event("cpu_op", "aten::mm", 9.999, 4, **{"Sequence number": 3, "External id": 1}),
        _event("user_annotation", torch_records.CALL, 9, 9),
        _event("python_function", "m.py(3): forward", 9, 9),
        _event("gpu_user_annotation", torch_records.CALL, 12, 4),
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 10},
        {"ph": "M", "name": "process_name"},
    )
    assert read_trace(text) == (
        Event(torch_records.CALL, EventKind.ANNOTATION, 9000, 9000, 11),
        Event("aten::mm", EventKind.OPERATOR, 9999, 4000, 11, sequence=3),
        Event("cudaLaunchKernel", EventKind.RUNTIME, 10000, 1001, 11, correlation=5),
        Event("cuLaunchKernel", EventKind.RUNTIME, 11000, 1000, 11, correlation=6),
        Event("sgemm", EventKind.KERNEL, 12500, 3250, 7, correlation=5),
        Event("Memset (Device)", EventKind.COPY, 13000, 1000, 8, correlation=7),
    )


def test_times_keep_their_nanoseconds_however_late_they_are() -> None:
    name = '{"ph": "X", "cat": "cpu_op", "name": "a", "tid": 1, "ts": 1795317379656091.555, "dur": 0.07}'
    text = f'{{"traceEvents": [{name}]}}'
    (event,) = read_trace(text)
    assert (event.start_ns, event.ns) == (1795317379656091555, 70)
    (whole,) = read_trace(text.replace(".555", "").replace("0.07", "7e-2"))
    assert (whole.start_ns, whole.ns) == (1795317379656091000, 70)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "no traceEvents"),
        ("{}", "no traceEvents"),
        ("not json", "Expecting value"),
        ('{"traceEvents": 3}', "no traceEvents"),
    ],
)
def test_a_file_that_is_not_a_trace_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_trace(text)


def test_a_call_lasts_until_its_last_work_on_the_device_has_ended() -> None:
    events = read_trace(
        _trace(
            _event("user_annotation", torch_records.CALL, 0, 10),
            _event("kernel", "a", 5, 20, stream=7),
            _event("user_annotation", torch_records.CALL, 40, 30),
            _event("kernel", "b", 45, 5, stream=7),
        )
    )
    assert read_windows(events) == (Window(0, 25000, 11), Window(40000, 70000, 11))


def test_windows_do_not_overlap_whatever_the_clocks_say() -> None:
    events = read_trace(
        _trace(
            _event("user_annotation", torch_records.CALL, 0, 10),
            _event("kernel", "a", 5, 50, stream=7),
            _event("user_annotation", torch_records.CALL, 40, 30),
        )
    )
    assert read_windows(events) == (Window(0, 40000, 11), Window(40000, 70000, 11))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::addmm", True),
        ("mkldnn::_linear_pointwise", True),
        ("aten::sort.stable", True),
        ("autograd::engine::evaluate_function: MmBackward0", False),
        ("torch::autograd::AccumulateGrad", False),
        ("profiler::_record_function_enter_new", False),
        ("CompiledFunction", False),
        ("graph_0_cpp_fused_0", False),
    ],
)
def test_an_operator_is_known_by_its_name(name: str, expected: bool) -> None:  # noqa: FBT001
    assert torch_records.is_operator(name) is expected
