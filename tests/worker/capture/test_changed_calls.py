"""A change of a call is made where the call has the value, and undone when the call has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.capture.calls import changed_calls
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.changed_calls import ChangeError, changed_call
from fuselight.capture.calls.cured_calls import cured_call
from fuselight.capture.calls.reachable_objects import MethodOwners
from fuselight.capture.dynamo import forecast
from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import CallChange, CallCure, ChangeKind, CureKind
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Dropout(0.5)])
        self.rate = 2

    def forward(self, x: Any, n: int = 3, *, items: Any = (), **more: Any) -> Any:
        return x, n, items, more


def call(kind: ChangeKind, subject: str, now: str, *args: Any, **kwargs: Any) -> Prepared:
    return changed_call(Prepared(Net(), args, kwargs), CallChange(kind, (subject,), now), {})


def test_an_element_is_marked_in_the_calls_that_have_it() -> None:
    """As a cache of keys and values, which is None in the first call of a loop."""
    cure = CallCure(CureKind.MARK, __file__, 1, ("items[0].size(1)",))
    x = torch.ones(2, 5)
    calls = (
        cured_call(cure, Net(), (x,), {"items": items}, MethodOwners()) for items in (None, (x,), [None])
    )
    assert [is_changed for _, _, is_changed in calls] == [False, True, False]


def test_a_size_of_one_is_marked_as_any_size() -> None:
    cure = CallCure(CureKind.UNBACKED, __file__, 1, ("x.size(0)",))
    x = torch.ones(1, 5)
    *_, is_changed = cured_call(cure, Net(), (x,), {}, MethodOwners())
    assert is_changed
    assert torch.compile(lambda x: x.sum(1), backend="eager", dynamic=False)(x).shape == (1,)
    assert vars(x)["_dynamo_unbacked_indices"] == {0}


def test_a_tensor_by_position_has_the_values_of_the_recorded_one() -> None:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    (smaller,) = call(ChangeKind.SIZE, "x.size(1)", "2", x).args
    assert smaller.tolist() == [[0, 1], [4, 5], [8, 9]]
    assert (smaller.is_contiguous(), smaller.requires_grad, smaller.is_leaf) == (True, True, True)
    (larger,) = call(ChangeKind.SIZE, "x.size(0)", "4", x).args
    assert larger[3].tolist() == x[0].tolist()
    (half,) = call(ChangeKind.DTYPE, "x", "bf16", x).args
    assert (half.dtype, half[2, 3].item()) == (torch.bfloat16, 11)
    (moved,) = call(ChangeKind.STRIDES, "x", "transposed", x).args
    assert (moved.stride(), torch.equal(moved, x)) == ((1, 3), True)
    assert x.shape == (3, 4)


def test_values_by_name_by_default_in_containers_and_among_the_rest() -> None:
    x, items = torch.zeros(1), [1, {"a": 2.5}]
    assert call(ChangeKind.NUMBER, "n", "5", x, 4).args[1] == 5
    assert call(ChangeKind.NUMBER, "n", "5", x).kwargs == {"n": 5}
    prepared_call = call(ChangeKind.NUMBER, "items[1]['a']", "inf", x, items=items)
    assert (prepared_call.kwargs["items"], items) == ([1, {"a": float("inf")}], [1, {"a": 2.5}])
    assert call(ChangeKind.LENGTH, "items", "3", x, items=(1, 2)).kwargs["items"] == (1, 2, 2)
    assert call(ChangeKind.VALUE, "more['flag']", "False", x, flag=True).kwargs == {"flag": False}
    assert call(ChangeKind.VALUE, "flag", "False", x, flag=True).kwargs == {"flag": False}


def test_attributes_and_globals_have_the_value_during_the_call_alone() -> None:
    prepared_call = call(ChangeKind.ATTRIBUTE, "self.layers[0].p", "0.25", torch.zeros(1))
    function: Any = prepared_call.function
    with prepared_call.during():
        assert function.layers[0].p == 0.25
    assert function.layers[0].p == 0.5
    names = {"SCALE": 3}
    change = CallChange(ChangeKind.ATTRIBUTE, ("SCALE",), "4")
    with changed_call(Prepared(len, (), {}), change, names).during():
        assert names == {"SCALE": 4}
    assert names == {"SCALE": 3}


@pytest.mark.parametrize(
    ("kind", "subject", "now", "why"),
    [
        (ChangeKind.NUMBER, "m", "5", "`m` is no input of the call"),
        (ChangeKind.NUMBER, "the value of `f()` on line 3", "5", "is not an input"),
        (ChangeKind.VALUE, "n", "'cut off...", "too long"),
        (ChangeKind.ATTRIBUTE, "self.none", "5", "`self.none` is not set"),
        (ChangeKind.ATTRIBUTE, "self.none.n", "5", "AttributeError"),
    ],
)
def test_a_change_that_does_not_fit_the_call_says_why(
    kind: ChangeKind, subject: str, now: str, why: str
) -> None:
    with pytest.raises(ChangeError, match=why):
        call(kind, subject, now, torch.zeros(1))


SOURCE = """\
import torch
# fuselight: f(f32[4, 2])
@torch.compile
def f(x):
    return x * 2
"""


def test_a_verified_run_makes_the_changed_call_too(live: LiveWorker, tmp_path: Path) -> None:
    """With the change of the text, the changed call compiles nothing, and its results are compared."""
    records = live.folder / tmp_path.name
    records.mkdir()
    change = CallChange(ChangeKind.SIZE, ("x.size(0)",), "3")

    def run(text: str, *, is_old: bool) -> Any:
        request = live.request(text, "f").of_kind(
            VerifyRequest, folder=str(records), records=is_old, automatic=True, changes=(change,)
        )
        return live.report(request)

    old, new = run(SOURCE, is_old=True), run(SOURCE.replace("compile", "compile(dynamic=True)"), is_old=False)
    assert [call.text for call in old.inputs.calls][1].endswith("with x.size(0) = 3")
    assert [recompilation.call for recompilation in old.recompiles] == [1]
    assert new.recompiles == ()
    assert {(comparison.call, comparison.compiled) for comparison in new.verification.comparisons} == {
        (0, False), (0, True), (1, False), (1, True),
    }  # fmt: skip
    assert all(
        difference.rounding for same in new.verification.comparisons for difference in same.differences
    )


def test_the_tables_have_each_kind_of_change() -> None:
    assert list(changed_calls.CHANGES) == list(forecast.FURTHER_VALUES) == list(ChangeKind)
