"""Streams and events of a GPU that is not there: they end no graph, in files of the user's and in code with kernels."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

import pytest
import torch
import torch._dynamo

from fuselight.adapters.torch_api.absent_gpu import answers_for_kernels, device_guards
from fuselight.capture.calls.devices import redirect_devices
from fuselight.shared.devices import find

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]

STREAMS = {
    "a stream that is read": "s = torch.cuda.current_stream()\nreturn x + 1",
    "of a device": "s = torch.cuda.current_stream(x.device)\nreturn x + 1",
    "its handle": "return x + 1 + torch.cuda.current_stream().cuda_stream",
    "entered": "with torch.cuda.stream(torch.cuda.current_stream()):\n    return x + 1",
    "used again after a graph break": (
        "s = torch.cuda.current_stream()\ntorch._dynamo.graph_break()\ns.synchronize()\nreturn x + 1"
    ),
}
"""Bodies that a file of the user's has, and a library of kernels."""
OF_FILES = {
    "a second stream": (
        "s = torch.cuda.Stream(device=x.device, priority=-1)\ns.wait_stream(torch.cuda.current_stream())\n"
        "with torch.cuda.stream(s):\n    y = x + 1\ny.record_stream(s)\n"
        "torch.cuda.current_stream().wait_stream(s)\nreturn y"
    ),
    "an event": (
        "e = torch.cuda.Event(enable_timing=True)\ny = x + 1\ne.record()\ne.wait()\n"
        "return y if e.query() else x"
    ),
    "an event of a stream": "torch.cuda.current_stream().record_event().synchronize()\nreturn x + 1",
    "a stream of any accelerator": (
        "s = torch.Stream()\ns.wait_stream(torch.cuda.current_stream())\nwith s:\n    y = x + 1\nreturn y"
    ),
    "an event of any accelerator": "e = torch.Event()\ne.record()\ny = x + 1\ne.wait()\nreturn y",
}


def function(body: str, *, redirected: bool) -> Any:
    tree = ast.parse(f"import torch\n\ndef asked(x):\n{textwrap.indent(body, '    ')}\n")
    if redirected:
        redirect_devices(tree, "asked.py")
    scope: dict[str, Any] = {"__name__": "asked"}
    exec(compile(tree, "asked.py", "exec"), scope)  # noqa: S102 - a file of the user's
    return scope["asked"]


def check(asked: Any, body: str) -> None:
    torch._dynamo.reset()
    x = torch.ones(3)
    torch.testing.assert_close(asked(x), x + 1)
    is_whole = "graph_break" not in body
    compiled: Any = torch.compile(asked, backend="eager", fullgraph=is_whole)
    torch.testing.assert_close(compiled(x), x + 1)


@pytest.mark.parametrize("name", [*STREAMS, *OF_FILES])
def test_streams_of_a_file_end_no_graph(name: str) -> None:
    body = {**STREAMS, **OF_FILES}[name]
    with device_guards():
        check(function(body, redirected=True), body)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_code_with_kernels_end_no_graph(name: str) -> None:
    body = STREAMS[name]
    asks = lambda names: names.get("__name__") == "asked"  # noqa: E731 - a predicate
    with device_guards(), answers_for_kernels(find("h100-sxm"), asks, lambda _: False):
        check(function(body, redirected=False), body)


def test_other_code_gets_the_answers_of_torch() -> None:
    body = STREAMS["a stream that is read"]
    with device_guards(), answers_for_kernels(find("h100-sxm"), lambda _: False, lambda _: False):
        compiled: Any = torch.compile(function(body, redirected=False), backend="eager")
        for call in (function(body, redirected=False), compiled):
            with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
                call(torch.ones(3))


def test_everything_is_as_before_afterwards() -> None:
    owners = (torch.cpu.Stream, torch.cpu.Event, torch.Tensor)
    before = [dict(vars(owner)) for owner in owners]
    with device_guards():
        event: Any = torch.cpu.Event()
        assert event.elapsed_time(event) > 0
    assert [dict(vars(owner)) for owner in owners] == before
    with pytest.raises(TypeError, match="no arguments"):
        torch.cpu.Event(enable_timing=True)  # type: ignore[call-arg]
