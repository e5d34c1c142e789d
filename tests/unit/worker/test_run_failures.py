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


class DynamoError(RuntimeError):
    """What Dynamo raises from the exception of an operator."""

    __module__ = "torch._dynamo.exc"


def on_fake_tensors(inner: Exception, roots: tuple[str, ...]) -> Failure:
    failure = Failure(
        Culprit.USER,
        "exception",
        f"{type(inner).__name__}: {inner}",
        "an operator refused its inputs",
        exception="TorchRuntimeError",
        stack=(Location("/project/model.py", 7),),
    )
    outer = DynamoError("RuntimeError when making fake tensor call")
    outer.__cause__ = inner
    return with_eager(failure, in_eager_mode(None), PLANNED, roots, outer)


def test_what_an_operator_raises_on_fake_tensors_is_on_its_line() -> None:
    inner = raised_here(AssertionError)
    described = on_fake_tensors(inner, (str(Path(__file__).parent),))
    assert described.stack[0] == Location("/project/model.py", 7)
    assert described.stack[-1].path == __file__
    assert "torch.compile runs this line with fake tensors" in described.next_step
    assert "lacks" not in described.next_step


def test_what_an_operator_of_a_library_raises_names_its_line() -> None:
    inner = raised_here(AssertionError)
    described = on_fake_tensors(inner, ("/elsewhere",))
    line = described.stack[-1].line
    assert f"torch.compile runs line {line} of {Path(__file__).name} with fake tensors" in described.next_step


@pytest.mark.parametrize(
    "inner",
    [
        RuntimeError("There was no fake impl registered for <CustomOpDef(lib::op)>."),
        NotImplementedError(
            "lib::op: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel "
            "registered."
        ),
    ],
)
def test_an_operator_without_a_fake_implementation_is_named_as_such(inner: Exception) -> None:
    described = on_fake_tensors(inner, ())
    assert "lacks a fake (meta) implementation" in described.next_step
    assert described.stack == (Location("/project/model.py", 7),)


def test_a_refusal_of_the_code_of_torch_is_not_called_a_missing_implementation() -> None:
    described = on_fake_tensors(RuntimeError("mat1 and mat2 must have the same dtype"), ())
    assert "lacks" not in described.next_step
    assert "refuses these inputs" in described.next_step
