"""What a program sets of the compiler: what may change a result is named, what cannot is not."""

from __future__ import annotations

import pytest
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fuselight.adapters.torch_api.replaced_parts import replaced_parts

pytestmark = pytest.mark.torch
DYNAMO, FUNCTORCH, INDUCTOR = torch._dynamo.config, torch._functorch.config, torch._inductor.config


@pytest.mark.parametrize(
    ("config", "key", "value", "is_named"),
    [
        (INDUCTOR, "epilogue_fusion", False, True),
        (INDUCTOR, "post_grad_custom_pre_pass", print, True),
        (DYNAMO, "reorderable_logging_functions", {print}, True),
        (FUNCTORCH, "donated_buffer", False, True),
        (INDUCTOR, "compile_threads", 3, False),
        (INDUCTOR, "trace.fx_graph", False, False),
        (INDUCTOR, "fx_graph_remote_cache", True, False),
        (INDUCTOR, "cpp.enable_kernel_profile", True, False),
        (INDUCTOR, "debug", True, False),
        (DYNAMO, "recompile_limit", 3, False),
        (DYNAMO, "verbose", True, False),
        (FUNCTORCH, "debug_partitioner", True, False),
    ],
)
def test_settings_that_may_change_a_result_are_named(
    config: object, key: str, value: object, *, is_named: bool
) -> None:
    with config.patch({key: value}):  # type: ignore[attr-defined]
        named = replaced_parts(lambda _: False, {})
    assert (f"{config.__name__}.{key}" in named) is is_named  # type: ignore[attr-defined]
