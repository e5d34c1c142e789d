"""How one guard that fails is put in words, without a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from fuselight.capture.dynamo.guard_differences import explain
from fuselight.shared.report import GuardCause

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("part", "now", "told"),
    [
        ("1.0 + -1*L['decay'] == 0.75", 0.4, "decay was 0.25, now 0.4"),
        ("2*L['steps'] + 1 == 9", 5, "steps was 4, now 5"),
        ("0.5*L['self'].gain == 0.3", 0.7, "self.gain was 0.6, now 0.7"),
        ("L['rate']**2 == 0.25", 0.7, "rate ** 2 was 0.25, now 0.48999999999999994"),
    ],
)
def test_a_number_that_torch_guards_by_a_result_has_its_own_name_and_values(
    part: str, now: float, told: str
) -> None:
    values = {"decay": now, "steps": now, "rate": now, "self": SimpleNamespace(gain=now)}
    failure = explain(part, value=None, evaluate=lambda text: eval(text, {}, {"L": values}), objects={})  # noqa: S307
    assert failure.difference == told
    assert failure.cause is GuardCause.NUMBER


def test_a_result_of_two_numbers_is_named_after_both() -> None:
    values = {"low": 0.1, "high": 0.5}
    part = "L['high'] - L['low'] == 0.3"
    failure = explain(part, value=None, evaluate=lambda text: eval(text, {}, {"L": values}), objects={})  # noqa: S307
    assert failure.difference == "high - low was 0.3, now 0.4"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (
            "2 <= L['part'].storage_offset()",
            "2 <= part.storage_offset() no longer holds: part.storage_offset() is 0",
        ),
        ("L['part'].storage_offset() == 6", "part.storage_offset() was 6, now 0"),
        ("L['part'].stride()[0] != 1", "part.stride(0) != 1 no longer holds: part.stride(0) is 1"),
    ],
)
def test_what_a_method_of_a_tensor_gives_is_read_by_calling_it(part: str, told: str) -> None:
    values = {"part": torch.ones(4)}
    failure = explain(part, value=None, evaluate=lambda text: eval(text, {}, {"L": values}), objects={})  # noqa: S307
    assert (failure.difference, failure.cause) == (told, GuardCause.RELATION)
