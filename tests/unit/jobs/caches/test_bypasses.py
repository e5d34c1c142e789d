"""Why a compile cannot be cached, from the forms of torch's reasons."""

from __future__ import annotations

import pytest

from fuselight_server.jobs.caches.bypasses import bypass_cause

REASON = "Unsupported call_function target {target}. \n Function module: {module}, \nFunction name: {name}"


@pytest.mark.parametrize(
    ("module", "name", "text", "has_cure"),
    [
        ("torch._dynamo.variables.torch", "prim from_local", "torch's own `prim from_local`", False),
        ("torch.distributed.tensor", "redistribute", "torch's own `redistribute`", False),
        ("torchsparse.ops", "gather", "`torchsparse.ops.gather` is called", True),
        ("__main__", "folded", "`__main__.folded` is called", True),
        ("my.torch.tools", "fold", "`my.torch.tools.fold` is called", True),
    ],
)
def test_a_function_of_torch_is_nothing_that_the_user_can_register(
    module: str, name: str, text: str, *, has_cure: bool
) -> None:
    cause = bypass_cause(REASON.format(target=f"<function {name}>", module=module, name=name), None, None)
    assert cause.text.startswith(text)
    assert (cause.cure is not None) is has_cure
