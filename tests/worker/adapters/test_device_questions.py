"""Questions about a GPU that is not there: answered as by a GPU, for the code that is meant; the same end a graph."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo

from fuselight.adapters.torch_api.absent_gpu import answers_for_kernels, device_guards
from fuselight.adapters.torch_api.device_questions import answered_questions
from fuselight.shared.devices import find

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]

ONE_GRAPH = {
    "index": "return x + 1 + torch.cuda.current_device()",
    "looked up": "return x + {0: 1}[torch.cuda.current_device()]",
    "capability": "return x + 1 if torch.cuda.get_device_capability()[0] == 9 else x",
    "properties": "return x + torch.cuda.get_device_properties(0).multi_processor_count // 132",
    "free memory": "free, total = torch.cuda.mem_get_info()\nreturn x + (free / total)",
    "fraction of the memory": "torch.cuda.set_per_process_memory_fraction(0.5)\nreturn x + 1",
    "empty cache": "torch.cuda.empty_cache()\nreturn x + 1",
    "accelerator": "return x.to(torch.accelerator.current_accelerator()) + 1",
    "type of the accelerator": "return x + torch.ones(3, device=torch.accelerator.current_accelerator().type)",
    "index of the accelerator": "return x + 1 + torch.accelerator.current_device_index()",
    "stream of the accelerator": "s = torch.accelerator.current_stream()\ns.synchronize()\nreturn x + 1",
    "stream is set": "torch.accelerator.set_stream(torch.accelerator.current_stream())\nreturn x + 1",
    "module of the accelerator": (
        "of = getattr(torch, torch.accelerator.current_accelerator().type)\n"
        "with of.device(x.device):\n    return x + 1"
    ),
    "module": "return x + 1 + torch.get_device_module().current_device()",
}
"""Bodies that end no graph on an H200 (torch 2.11), each of which returns `x + 1`."""
ENDED = {
    "name": "return x + 1 if 'H100' in torch.cuda.get_device_name() else x",
    "count": "return x + torch.cuda.device_count()",
    "bfloat16": "return x + 1 if torch.cuda.is_bf16_supported() else x",
    "recorded": "return x if torch.cuda.is_current_stream_capturing() else x + 1",
    "default stream": "return x + 1 + torch.cuda.default_stream().cuda_stream",
    "peak memory": "torch.cuda.reset_peak_memory_stats()\nreturn x + 1 + torch.cuda.max_memory_allocated()",
    "statistics": "return x + 1 + torch.cuda.memory_stats()['allocated_bytes.all.peak']",
    "summary": "return x + 1 if torch.cuda.memory_summary() else x",
    "architectures": "return x + 1 if 'sm_90' in torch.cuda.get_arch_list() else x",
    "random state": "torch.cuda.set_rng_state(torch.cuda.get_rng_state())\nreturn x + 1",
    "selected": "torch.cuda.set_device(0)\nreturn x + 1",
    "count of accelerators": "return x + torch.accelerator.device_count()",
    "selected accelerator": "torch.accelerator.set_device_index(0)\nreturn x + 1",
    "memory of the accelerator": "return x + 1 + torch.accelerator.memory_allocated()",
    "range": "torch.cuda.nvtx.range_push('a')\ny = x + 1\ntorch.cuda.nvtx.range_pop()\nreturn y",
}
"""Bodies that end a graph there."""


def function(body: str) -> Any:
    scope: dict[str, Any] = {"__name__": "asked", "torch": torch}
    exec(compile(f"def asked(x):\n{textwrap.indent(body, '    ')}\n", "asked.py", "exec"), scope)  # noqa: S102
    return scope["asked"]


def is_asked(names: Any) -> bool:
    return bool(names.get("__name__") == "asked")


@contextlib.contextmanager
def absent_gpu() -> Iterator[None]:
    with device_guards(), answered_questions(find("h100-sxm"), is_asked):
        yield


def compiled(body: str, *, fullgraph: bool = False) -> Any:
    torch._dynamo.reset()
    return torch.compile(function(body), backend="eager", fullgraph=fullgraph)


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_questions_that_end_no_graph_on_a_gpu(name: str) -> None:
    x = torch.ones(3)
    with absent_gpu():
        for call in (function(ONE_GRAPH[name]), compiled(ONE_GRAPH[name], fullgraph=True)):
            torch.testing.assert_close(call(x), x + 1)


@pytest.mark.parametrize("name", ENDED)
def test_questions_that_end_a_graph_on_a_gpu(name: str) -> None:
    x = torch.ones(3)
    with absent_gpu():
        for call in (function(ENDED[name]), compiled(ENDED[name])):
            torch.testing.assert_close(call(x), x + 1)
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(ENDED[name], fullgraph=True)(x)


@pytest.mark.parametrize("name", ["index", "name", "accelerator"])
def test_code_with_kernels_is_answered_within_other_code(name: str) -> None:
    body = {**ONE_GRAPH, **ENDED}[name]
    x = torch.ones(3)
    with (
        device_guards(),
        answered_questions(find("a100-80gb-sxm"), lambda _: False),
        answers_for_kernels(find("h100-sxm"), is_asked, is_asked),
    ):
        for call in (function(body), compiled(body)):
            torch.testing.assert_close(call(x), x + 1)


def test_other_code_gets_the_answers_of_torch() -> None:
    x = torch.ones(3)
    with device_guards(), answered_questions(find("h100-sxm"), lambda _: False):
        for body in (ONE_GRAPH["index"], ONE_GRAPH["index of the accelerator"], ENDED["name"]):
            for call in (function(body), compiled(body)):
                with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA|accelerator"):
                    call(x)
        assert torch.cuda.device_count() == 0
        assert torch.accelerator.current_accelerator() is None


@pytest.mark.parametrize("name", ["has_triton", "has_triton_tma_device"])
def test_the_reason_of_a_break_names_the_function_of_torch_that_is_asked(name: str) -> None:
    """Not a line of the answer: a library asks for Triton in the code that it compiles."""
    body = f"return x + torch.utils._triton.{name}()"
    x = torch.ones(3)
    reasons = []
    for block in (contextlib.nullcontext(), answers_for_kernels(find("h100-sxm"), is_asked, is_asked)):
        with block:
            with pytest.raises(torch._dynamo.exc.Unsupported, match=f"qualname: {name}") as raised:
                compiled(body, fullgraph=True)(x)
            reasons.append(str(raised.value).partition("from user code")[0])
            if len(reasons) == 2:
                for call in (function(body), compiled(body)):
                    torch.testing.assert_close(call(x), x + 1)
    assert reasons[0] == reasons[1]


def test_torch_asks_for_itself_also_where_the_program_calls_it() -> None:
    """What torch does for a GPU that it believes in, such as keeping its random state, would fail."""
    body = "with torch.random.fork_rng():\n    return x + 1 - torch.rand(3) * 0"
    with absent_gpu():
        torch.testing.assert_close(function(body)(torch.ones(3)), torch.full((3,), 2.0))
        assert not torch.cuda.is_available()


def test_a_selected_device_is_the_current_one() -> None:
    with absent_gpu():
        body = "torch.cuda.set_device({})\nreturn torch.cuda.current_device(), torch.cuda.device_count()"
        assert function(body.format(3))(None) == (3, 4)
        assert function(body.format("torch.device('cuda', 1)"))(None) == (1, 2)
    with absent_gpu():
        assert function("return torch.cuda.current_device()")(None) == 0


def test_ranks_of_a_machine_have_a_device_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with absent_gpu():
        assert function("return torch.cuda.device_count()")(None) == 4
        assert function("return torch.accelerator.device_count()")(None) == 4


def test_everything_is_as_before_afterwards() -> None:
    functions = [torch.cuda.get_device_name, torch.cuda.mem_get_info, torch.accelerator.current_stream]
    before = [function.__code__ for function in functions]
    with absent_gpu():
        assert [function.__code__ for function in functions] != before
    assert [function.__code__ for function in functions] == before
    assert not hasattr(torch.cpu, "device")
    with pytest.raises(RuntimeError, match="NVTX"):
        function("torch.cuda.nvtx.mark('a')")(None)
