"""The contract with torch for traces of single functions: what is private exists and means what it is used for."""

from __future__ import annotations

import pytest
import torch

from fuselight.adapters.torch_api.dynamo import traces

pytestmark = pytest.mark.torch


def _inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def _outer(x: torch.Tensor) -> torch.Tensor:
    return _inner(x) + 1


def test_each_traced_function_is_reported_with_the_options_in_force() -> None:
    torch._dynamo.reset()
    heard: list[traces.TracedFunction] = []
    with traces.listen_to_traces(heard.append):
        torch.compile(_outer, backend="eager", fullgraph=True, dynamic=True)(torch.ones(4))
    outer, inner = heard
    assert (outer.code, outer.is_inlined, outer.fullgraph) == (_outer.__code__, False, True)
    assert (inner.code, inner.is_inlined, inner.fullgraph) == (_inner.__code__, True, True)
    assert inner.symbolic == {"x": (0,)}
    assert (outer.config["assume_static_by_default"], traces.dynamo_config()["assume_static_by_default"]) == (
        False,
        True,
    )


def test_resumed_functions_are_not_reported() -> None:
    def breaks(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x.sin()

    torch._dynamo.reset()
    heard: list[traces.TracedFunction] = []
    with traces.listen_to_traces(heard.append):
        torch.compile(breaks, backend="eager")(torch.ones(4))
    assert {function.code for function in heard} == {breaks.__code__}
    assert not heard[0].fullgraph


def test_settings_are_put_in_force_and_taken_back() -> None:
    before = traces.dynamo_config()
    with traces.with_dynamo_config({**before, "recompile_limit": 77, "no_such_setting": 1}):
        assert traces.dynamo_config()["recompile_limit"] == 77
    assert traces.dynamo_config() == before


def test_marks_of_sizes_are_known() -> None:
    marked, plain = torch.ones(4, 1), torch.ones(4)
    torch._dynamo.mark_dynamic(marked, 0)
    assert (traces.is_marked_dynamic(marked), traces.is_marked_dynamic(plain)) == (True, False)
    traces.mark_dynamic(plain, (0, 1))
    seen: list[object] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[object]) -> object:
        seen.extend(argument for argument in example_inputs if isinstance(argument, torch.SymInt))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(_outer, backend=backend)(plain)
    assert len(seen) == 1
