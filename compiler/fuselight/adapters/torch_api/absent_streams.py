"""Streams and events of a GPU that is not there: they do nothing, and Dynamo traces them as those of a GPU.

`torch.cpu` has streams and events that lack most of what those of `torch` and `torch.cuda` have, and that end a graph.
Invariant: when the block ends, its classes and Dynamo are as before.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched, wrapped

_Traced = Callable[..., Any]
"""Gets Dynamo's translator of the code that calls, and the arguments; returns the result, or None: as torch has it."""


# Dynamo inlines these functions, so that nothing else than what it traces may be in them.
def _initialize(_self: Any, *_: Any, **__: Any) -> None: ...


def _ignore(_self: Any, *_: Any, **__: Any) -> None: ...


def _is_done(_self: Any) -> bool:
    return True


def _entered(self: Any) -> Any:
    return self


def _record_event(_self: Any, event: Any = None) -> Any:
    return torch.cpu.Event() if event is None else event


def _elapsed_time(self: Any, end: Any) -> Any:
    return _milliseconds(self, end)


def ending_graph(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`call` as a function that Dynamo ends a graph for, as for one of torch's C++: a function of torch's files."""

    def function(*args: Any) -> Any:
        return call(*args)

    code = function.__code__.replace(co_filename=str(torch.cpu.__file__), co_name=name)
    ending = types.FunctionType(code, function.__globals__, name, None, function.__closure__)
    ending.__qualname__ = name
    return ending


_milliseconds = ending_graph(lambda *_: 1.0, "Event.elapsed_time")


_OF_STREAMS: Mapping[str, Any] = {
    "__init__": _initialize,
    "__enter__": _entered,
    "__exit__": _ignore,
    "wait_stream": _ignore,
    "wait_event": _ignore,
    "record_event": _record_event,
    "synchronize": _ignore,
    "query": _is_done,
    "cuda_stream": 0,
    "stream_id": 0,
    "device": torch.device("cpu"),
    "device_index": 0,
    "priority": 0,
}
_OF_EVENTS: Mapping[str, Any] = {
    "__init__": _initialize,
    "record": _ignore,
    "wait": _ignore,
    "synchronize": _ignore,
    "query": _is_done,
    "elapsed_time": _elapsed_time,
}


@contextlib.contextmanager
def absent_streams() -> Iterator[None]:
    """Have the streams and events of `torch.cpu` stand for those of a GPU, until the block ends."""
    cpu: Any = torch.cpu
    with contextlib.ExitStack() as stack:
        for owner, attributes in ((cpu.Stream, _OF_STREAMS), (cpu.Event, _OF_EVENTS)):
            for attribute, value in attributes.items():
                stack.enter_context(patched(owner, attribute, value))
        stack.enter_context(patched(torch.Tensor, "record_stream", _ignore))
        stack.enter_context(_traced_record_stream())
        stack.enter_context(
            traced_answers(
                {
                    cpu.current_stream: current_stream_in_graph,
                    cpu.stream: no_context,
                }
            )
        )
        yield


@contextlib.contextmanager
def _traced_record_stream() -> Iterator[None]:
    variable = getattr(sys.modules.get("torch._dynamo.variables.tensor"), "TensorVariable", None)
    if variable is None:
        yield
        return

    def call(real: Callable[..., Any], self: Any, tx: Any, name: str, *args: Any) -> Any:
        return constant(None) if name == "record_stream" else real(self, tx, name, *args)

    with wrapped(variable, "call_method", call):
        yield


@contextlib.contextmanager
def traced_answers(answers: Mapping[Any, _Traced]) -> Iterator[None]:
    """Have Dynamo take `answers[function]` for a call of a function of torch, until the block ends."""
    variable = getattr(sys.modules.get("torch._dynamo.variables.torch"), "TorchInGraphFunctionVariable", None)
    if variable is None:  # Dynamo is not loaded, or another one
        yield
        return

    def call(real: Callable[..., Any], self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        answer = answers.get(self.value)
        traced = answer(tx, *args, *kwargs.values()) if answer is not None else None
        return real(self, tx, args, kwargs) if traced is None else traced

    with wrapped(variable, "call_function", call):
        yield


def current_stream_in_graph(tx: Any, *_: Any) -> Any:
    """The current stream as a global of the code that is traced: it may be used after a graph break."""
    from torch._dynamo.source import GlobalSource  # noqa: PLC0415 - Dynamo is loaded
    from torch._dynamo.variables.user_defined import UserDefinedObjectVariable  # noqa: PLC0415 - the same

    stream = torch.cpu.current_stream()
    name = tx.output.install_global_by_id("fuselight_stream", stream)
    return UserDefinedObjectVariable(stream, source=GlobalSource(name))


def no_context(*_: Any) -> Any:
    """A context manager that does nothing."""
    from torch._dynamo.variables.ctx_manager import NullContextVariable  # noqa: PLC0415 - Dynamo is loaded

    return NullContextVariable()


def constant(value: Any) -> Any:
    """A value as a constant of the code that is traced."""
    from torch._dynamo.variables import ConstantVariable  # noqa: PLC0415 - Dynamo is loaded

    return ConstantVariable.create(value)


def answer_for(asks: Callable[[Mapping[str, Any]], bool], answer: _Traced) -> _Traced:
    """`answer` where the module that asks launches kernels."""
    return lambda tx, *given: answer(tx, *given) if asks(tx.f_globals) else None
