"""The names of torch.distributed that a world without a network relies on."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch.distributed as dist

from fuselight.adapters.torch_api.distributed import collectives, fake_world
from fuselight.shared.version import release

pytestmark = pytest.mark.torch

PEERS = {"root_rank", "dst", "src"}
NEW = set() if release(torch.__version__) >= (2, 14) else {"gather_into_tensor_"}


@pytest.mark.parametrize("name", [name for name in collectives._OPERATORS if name not in NEW])
def test_each_operator_has_its_arguments_where_they_are_read(name: str) -> None:
    operator = collectives._OPERATORS[name]
    get_schema: Any = torch._C._get_schema
    arguments = get_schema(f"c10d::{name}", "").arguments
    assert "ProcessGroup" in str(arguments[operator.group].type)
    for index in (operator.inputs, operator.outputs):
        assert "Tensor" in str(arguments[index].type)
    if operator.peer is not None:
        assert arguments[operator.peer].name in PEERS
    if operator.kind in collectives._REDUCING:
        assert "ReduceOp" in str(arguments[operator.group + 1].type)
    returned = get_schema(f"c10d::{name}", "").returns
    assert len(returned) == 1 + operator.returns, "the results, and the work"


def test_every_operator_that_communicates_is_recorded() -> None:
    named = {
        name.removeprefix("c10d::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("c10d::")
    }
    # A program calls `monitored_barrier` as `barrier`, and the check of NaN communicates nothing.
    assert named - {"monitored_barrier_", "check_for_nan"} == collectives._OPERATORS.keys() - NEW


def test_the_backend_of_a_group_is_where_it_is_replaced() -> None:
    helper: Any = dist.distributed_c10d._new_process_group_helper
    assert list(inspect.signature(helper).parameters)[fake_world._BACKEND] == "backend"
    assert fake_world.unavailable() is None
