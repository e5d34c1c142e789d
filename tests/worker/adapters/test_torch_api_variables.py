"""The contract with torch for sequences: their Python type, and what torch raises where it does not know the type."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.variables import lists

from fuselight.adapters.torch_api.dynamo import variables

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("kind", "python_type"),
    [(lists.ListVariable, list), (lists.TupleVariable, tuple), (lists.SizeVariable, torch.Size)],
)
def test_a_sequence_has_the_type_that_its_python_value_has(kind: type, python_type: type) -> None:
    assert variables.seen(kind([])) == ("container", python_type.__name__, (), 0)


def test_a_sequence_of_unknown_type_raises_what_gives_it_no_fact() -> None:
    unknown = lists.BaseListVariable([])
    with pytest.raises(NotImplementedError):
        unknown.python_type()
    assert variables.seen(unknown) is None
