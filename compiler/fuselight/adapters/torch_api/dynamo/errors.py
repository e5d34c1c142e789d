# ruff: noqa: SLF001 - private names are this package's business
"""The exceptions of Dynamo and the registry of its graph breaks.

Invariant: a placeholder that nobody raises replaces a type that this torch lacks, so `except` and `isinstance` work.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.eval_frame
import torch._dynamo.exc
import torch.fx.experimental.symbolic_shapes

exceptions: ModuleType = torch._dynamo.exc
"""The module of Dynamo's exception types."""

INDUCTOR = os.path.join(os.path.dirname(torch.__file__), "_inductor", "")
_ASKED = os.path.join(INDUCTOR, "__init__.py")
"""Functions that users call: what these refuse was asked for."""
_AOT_AUTOGRAD = os.path.join(os.path.dirname(torch.__file__), "_functorch", "_aot_autograd") + os.sep
_EXPORT = os.path.join(os.path.dirname(torch.__file__), "export", "")
_CUDA_GRAPHS = os.path.join(INDUCTOR, "cudagraph_")
OVERWRITTEN = "overwritten by a subsequent run"
"""Words of torch's error about a result of a CUDA graph: it has no type of its own."""


class _Never(BaseException):
    """Raised by nobody."""


def _exception(module: ModuleType, name: str) -> type[BaseException]:
    exception_type = getattr(module, name, None)
    return (
        exception_type
        if isinstance(exception_type, type) and issubclass(exception_type, BaseException)
        else _Never
    )


GuardOnData = _exception(torch.fx.experimental.symbolic_shapes, "GuardOnDataDependentSymNode")
"""What torch raises for a branch on a value that it does not have while it traces."""
ConstraintViolation = _exception(torch.fx.experimental.symbolic_shapes, "ConstraintViolationError")
"""What torch raises where the code fixes a size that was marked dynamic."""
RecompileLimitHit = _exception(torch._dynamo.exc, "FailOnRecompileLimitHit")
"""What torch raises at the recompile limit where it may not go on in eager."""
AcceleratorError = _exception(torch, "AcceleratorError")
"""What the device itself reports, whichever call was waiting for it by then; nothing of the kind before 2.8."""
Restart = _exception(torch._dynamo.exc, "RestartAnalysis")
"""What a backend raises for Dynamo to capture the frame again, as for a float that has to be fixed to its value."""
CONTROL_FLOW = (Restart, _exception(torch._dynamo.exc, "SkipFrame"))
"""What a backend raises to tell Dynamo how to go on: no failure."""
QUOTED_TRACEBACK = "Original traceback:"
"""What torch writes in the message of an exception before the lines of the operator that was executed."""


def is_of_compiler(name: str) -> bool:
    """Whether an exception of this name says that a compile failed."""
    failed = getattr(torch._dynamo.exc, "TorchDynamoException", _Never)
    kind = getattr(torch._dynamo.exc, name, None)
    return isinstance(kind, type) and issubclass(kind, failed)


@functools.cache
def gb_ids() -> Mapping[str, str]:
    """The registry of graph breaks: type to id. Empty before 2.8, which has none."""
    load = getattr(torch._dynamo.exc, "_load_gb_type_to_gb_id_map", None)
    return {} if load is None else dict(load())


def is_of_inductor(path: str) -> bool:
    """Whether a frame of this file is Inductor at work, its CUDA graphs included."""
    return path.startswith(INDUCTOR) and path != _ASKED


def is_of_export(path: str) -> bool:
    """Whether a frame of this file is torch.export at work, which runs the code and does not trace its bytecode."""
    return path.startswith(_EXPORT)


def is_in_compiled_call(paths: Iterable[str]) -> bool:
    """Whether one of the files of a traceback is that by which torch calls what was compiled."""
    return any(path == torch._dynamo.eval_frame.__file__ for path in paths)


def is_of_aot_autograd(path: str) -> bool:
    """Whether a file is AOTAutograd's: with no code of the user's or of an operator below it, it raised by itself."""
    return path.startswith(_AOT_AUTOGRAD)


def is_check(path: str) -> bool:
    """Whether a file's functions raise what their caller has found wrong, as `torch._check` does."""
    return path == torch.__file__


def mark_only_compiled(error: BaseException) -> None:
    """Mark an exception that compiled code raised, and the same graph in eager mode with the same inputs did not."""
    with contextlib.suppress(Exception):  # a type of the user's may refuse attributes
        error._fuselight_only_compiled = True  # type: ignore[attr-defined]


def is_only_compiled(error: BaseException) -> bool:
    """Whether `mark_only_compiled` marked it."""
    return bool(vars(error).get("_fuselight_only_compiled"))


def is_of_cuda_graphs(path: str) -> bool:
    """Whether a frame of this file records or replays CUDA graphs for torch.compile."""
    return path.startswith(_CUDA_GRAPHS)


def is_overwritten(error: BaseException) -> bool:
    """Whether what a CUDA graph gave was read after a later replay wrote over it: torch has words alone for it."""
    return isinstance(error, RuntimeError) and OVERWRITTEN in str(error)


def capture_again(reason: str) -> BaseException | None:
    """What a backend raises for Dynamo to capture the frame again; None if this torch has no such exception."""
    kind: Any = getattr(torch._dynamo.exc, "TensorifyScalarRestartAnalysis", None)
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        return None
    error_type: Any = kind
    again: BaseException = error_type(restart_reason=reason)
    return again
