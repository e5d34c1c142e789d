"""The culprit of a failure of compiled code: torch's machinery if no other code was running below it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import torch
import torch._inductor
import torch._inductor.cudagraph_trees
import torch._inductor.output_code

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.capture import dynamo
from fuselight.shared.report import Culprit, Failure
from fuselight.worker.timed.benchmark import in_their_kind

TREES = torch._inductor.cudagraph_trees
OUTPUT_CODE = torch._inductor.output_code.__file__
GENERATED = "/tmp/torchinductor_me/ab/cabc.py"  # noqa: S108 - nothing is written there
OVERWRITTEN = "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run."

Call = Callable[[Callable[[], Any]], Any]


def at(path: str | None) -> Call:
    """A function with its code in a file, which calls its argument."""
    names: dict[str, Any] = {}
    exec(compile("def run(inner):\n    return inner()\n", str(path), "exec"), names)  # noqa: S102 - of this file
    run: Call = names["run"]
    return run


def ended(error: BaseException, roots: tuple[str, ...], *paths: str | None) -> Failure:
    """The culprit of an error raised below frames of these files, outermost first."""

    def fail() -> None:
        raise error

    def through(rest: tuple[str | None, ...]) -> None:
        if rest:
            at(rest[0])(lambda: through(rest[1:]))
        else:
            fail()

    try:
        through(paths)
    except Exception as raised:  # noqa: BLE001 - whatever it was given
        without_own(raised)
        return dynamo.failure_of(raised, roots=roots)
    raise AssertionError


def without_own(error: BaseException) -> None:
    """Leave this file's frames out of a traceback: the error is as if the others had called each other."""
    entry, kept = error.__traceback__, []
    while entry is not None:
        if entry.tb_frame.f_code.co_filename != __file__:
            kept.append(entry)
        entry = entry.tb_next
    traceback: TracebackType | None = None
    for other_traceback in reversed(kept):
        traceback = TracebackType(
            traceback, other_traceback.tb_frame, other_traceback.tb_lasti, other_traceback.tb_lineno
        )
    error.__traceback__ = traceback


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tmp_path / "model.py")


def test_a_failure_of_torchs_cuda_graphs_is_the_compilers(model: str, tmp_path: Path) -> None:
    error = RuntimeError("Detected 2 tensor(s) in the cudagraph pool not tracked as outputs.")
    failure = ended(error, (str(tmp_path),), model, OUTPUT_CODE, TREES.__file__, TREES.__file__)
    assert (failure.culprit, failure.kind) == (Culprit.COMPILER, "internal")
    assert "`default`" in failure.next_step
    assert [place.path for place in failure.stack] == [model], "on the line that called it"


@pytest.mark.parametrize(
    ("error", "below"),
    [
        (RuntimeError("no such buffer"), OUTPUT_CODE),
        (AssertionError(), torch._inductor.__file__.replace("__init__", "scheduler")),
        (KeyError("x"), torch.fx.__file__),  # called from Inductor
    ],
)
def test_a_failure_inside_of_inductor_is_the_compilers(
    model: str, tmp_path: Path, error: Exception, below: str
) -> None:
    failure = ended(error, (str(tmp_path),), model, OUTPUT_CODE, below)
    assert (failure.culprit, failure.kind) == (Culprit.COMPILER, "internal")
    assert "torch.compiler.disable" in failure.next_step


@pytest.mark.parametrize(
    "paths",
    [
        (OUTPUT_CODE, TREES.__file__, "{model}"),  # the user's, called from there
        (OUTPUT_CODE, TREES.__file__, "/site-packages/library/layers.py"),
        (OUTPUT_CODE, GENERATED),  # an index that is out of bounds
        (OUTPUT_CODE, "<eval_with_key>.3"),
        (torch._inductor.__file__,),  # a mode that there is not
        (torch.nn.functional.__file__,),
    ],
)
def test_errors_of_other_code_are_not_compiler_errors(
    model: str, tmp_path: Path, paths: tuple[str, ...]
) -> None:
    inside = (path.format(model=model) for path in paths)
    failure = ended(RuntimeError("bad inputs"), (str(tmp_path),), model, *inside)
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exception")


def test_device_errors_are_user_failures_wherever_the_wait_was(model: str, tmp_path: Path) -> None:
    error = errors.AcceleratorError("CUDA error: device-side assert triggered")
    failure = ended(error, (str(tmp_path),), model, OUTPUT_CODE, TREES.__file__)
    assert failure.culprit is Culprit.USER
    failure = ended(torch.OutOfMemoryError("no memory"), (str(tmp_path),), model, TREES.__file__)
    assert (failure.culprit, failure.kind) == (Culprit.USER, "memory")


@pytest.mark.parametrize("paths", [(), (OUTPUT_CODE, TREES.__file__)])
def test_an_overwritten_cuda_graph_result_is_a_user_failure(
    model: str, tmp_path: Path, paths: tuple[str, ...]
) -> None:
    failure = ended(RuntimeError(OVERWRITTEN), (str(tmp_path),), model, *paths)
    assert (failure.culprit, failure.kind) == (Culprit.USER, "exception")
    assert "torch.compiler.cudagraph_mark_step_begin()" in failure.next_step
    assert "Clone" in failure.next_step


def test_blocks_with_cuda_graphs_are_the_configurations_failure(model: str, tmp_path: Path) -> None:
    failure = ended(RuntimeError(OVERWRITTEN), (str(tmp_path),), model)
    blocks = in_their_kind(failure, "default+triton.cudagraphs=True+blocks")
    assert (blocks.culprit, blocks.kind) == (Culprit.USER, "configuration")
    assert "overwrote the results" in blocks.message
    assert "`+blocks`" in blocks.next_step
    assert in_their_kind(failure, "default+triton.cudagraphs=True") == failure


def test_torch_has_these_words_and_this_function() -> None:
    assert callable(torch.compiler.cudagraph_mark_step_begin)
    assert "overwritten by a subsequent run" in inspect.getsource(TREES).replace('"\n                f"', "")
    assert errors.is_overwritten(RuntimeError(OVERWRITTEN))
    assert not errors.is_overwritten(RuntimeError("another"))
    assert errors.is_of_cuda_graphs(TREES.__file__)


def test_an_unknown_mode_is_a_user_error(tmp_path: Path) -> None:
    try:
        torch.compile(lambda x: x, mode="fastest")
    except RuntimeError as error:
        failure = dynamo.failure_of(error, roots=(str(tmp_path),))
        assert failure.culprit is Culprit.USER
    else:
        raise AssertionError("torch takes any mode")


def test_a_backend_is_called_by_its_name_alone(tmp_path: Path) -> None:
    def own_backend(*_graph: object) -> object:
        raise ZeroDivisionError("no kernel")

    class Backend:
        def __call__(self, *graph: object) -> object:
            return own_backend(*graph)

    messages = []
    for backend in (own_backend, Backend(), functools.partial(own_backend)):
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
            torch.compile(torch.relu, backend=backend)(torch.ones(2))
        messages.append(dynamo.failure_of(raised.value, roots=(str(tmp_path),)).message)
    error = "ZeroDivisionError: no kernel"
    assert messages == [f"backend 'own_backend': {error}", *[f"the backend: {error}"] * 2]
