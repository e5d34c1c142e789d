"""Words of failures of runs that did not end by themselves."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import Culprit, Failure, Location
from fuselight.worker.child.run_failures import may_be_of_inputs, timeout_failure, with_eager


@pytest.mark.parametrize(
    ("seconds", "text"), [(600.0, "600 s"), (3.04, "3 s"), (0.25, "0.2 s"), (0.01, "0.01 s")]
)
def test_a_time_limit_is_never_zero(seconds: float, text: str) -> None:
    assert timeout_failure(seconds, (), None, None).message == f"killed after {text}"


PLANNED: Any = SimpleNamespace(text="f(f32[4])", location=None)


def in_eager_mode(error: Exception | None) -> Any:
    return SimpleNamespace(error=error, refusal="")


def internal_error(message: str) -> Failure:
    return Failure(
        Culprit.COMPILER, "internal", message, "report it to PyTorch", exception="InternalTorchDynamoError"
    )


def test_an_internal_error_that_eager_mode_raises_too_is_of_the_code() -> None:
    failure = internal_error("AttributeError: 'Tensor' object has no attribute 'frobnicate'")
    assert may_be_of_inputs(failure)
    raised = AttributeError("'Tensor' object has no attribute 'frobnicate'")
    again = with_eager(failure, in_eager_mode(raised), PLANNED, ())
    assert (again.culprit, again.kind, again.exception) == (Culprit.USER, "exception", "AttributeError")
    assert again.message == "AttributeError: 'Tensor' object has no attribute 'frobnicate'"
    assert again.next_step.startswith("The call fails without torch.compile, too.")


@pytest.mark.parametrize(
    "raised", [None, AttributeError("'Tensor' object has no attribute 'shift'"), KeyError("x")]
)
def test_an_internal_error_that_eager_mode_does_not_raise_stays_of_the_compiler(
    raised: Exception | None,
) -> None:
    failure = internal_error("AttributeError: 'NoneType' object has no attribute 'source'")
    assert with_eager(failure, in_eager_mode(raised), PLANNED, ()) == failure


def raised_here(kind: type[Exception]) -> Exception:
    """An exception with the stack of this file."""

    def fail() -> None:
        raise kind("no")

    with pytest.raises(kind) as raised:
        fail()
    return raised.value


@pytest.mark.parametrize(
    ("kind", "shift", "exception", "text"),
    [
        (RuntimeError, 0, "RuntimeError", "The call fails without torch.compile, too. Correct this line."),
        (
            RuntimeError,
            0,
            "TorchRuntimeError",
            "The call fails without torch.compile, too. Correct this line.",
        ),
        (KeyError, 0, "RuntimeError", "fails on this line, too, with `KeyError: 'no'`. Correct both."),
        (RuntimeError, 1, "RuntimeError", ": `RuntimeError: no`. Correct that line first."),
    ],
)
def test_an_exception_of_another_line_or_type_in_eager_mode_is_named(
    kind: type[Exception], shift: int, exception: str, text: str
) -> None:
    error = raised_here(kind)
    line = traceback.extract_tb(error.__traceback__)[-1].lineno or 0
    failure = Failure(
        Culprit.USER,
        "exception",
        "it fails",
        "",
        exception=exception,
        stack=(Location(__file__, line + shift),),
    )
    again = with_eager(failure, in_eager_mode(error), PLANNED, (str(Path(__file__).parent),))
    assert text in again.next_step
    assert (f"on line {line}" in again.next_step) is (shift > 0)
