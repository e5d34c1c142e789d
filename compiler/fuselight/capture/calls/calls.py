"""Make the calls of a target and say what each was.

Invariant: inference is the default (`eval()`, no gradients), as a model is mostly looked at; `train=True` in a
directive is the other way round, with `.backward()` of the outputs. Nothing but the asked-for call runs compiled.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import CompileCalls
from fuselight.shared.inputs import Options
from fuselight.shared.report import Location, Note, is_user_file

_PARTS_SHOWN = 3
"""Names of compiled parts in one note."""


@dataclass(frozen=True)
class Prepared:
    """One call that is ready to be made."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: Options = Options()  # noqa: RUF009 - frozen
    during: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """What is in force during the call: a changed attribute or mode."""
    is_live: bool = False
    """Whether it is a call of the user's program, with its objects: `during` has all modes, and none is changed."""
    has_returned: bool = False
    """Whether that call of the program ended without an exception."""


@dataclass(frozen=True)
class PlannedCall:
    """One call of the ladder: `build` makes what it needs, in the phase before the call."""

    text: str
    """In directive notation."""
    location: Location | None
    build: Callable[[], Prepared]
    fake: bool = False
    """Whether the call asks for fake tensors; they must be in force before anything is built."""
    notes: tuple[Note, ...] = ()
    """What the call does otherwise than its text says."""
    tensor_bytes: int = 0
    """What the tensors that its text spells out take at least."""


def with_training(call: PlannedCall, *, training: bool | None) -> PlannedCall:
    """The call for training or for inference, whatever its directive says; None: as that says."""
    if training is None:
        return call

    def build() -> Prepared:
        prepared = call.build()
        return replace(
            prepared, options=replace(prepared.options, train=training, training=None, no_grad=None)
        )

    return replace(call, build=build)


def parameters_of(function: Any) -> tuple[str, ...]:
    """Name the parameters of a callable (of `forward`, for a module); empty where they cannot be known."""
    if isinstance(function, torch.nn.Module):
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def compiled_form(
    function: Callable[..., Any], *, by_source: bool, dynamic: bool | None, roots: Sequence[str]
) -> tuple[Callable[..., Any], tuple[Note, ...]]:
    """Return what to call, `function` as the source compiles it, else compiled here, and what to say of it.

    `by_source` says that the source compiles the target itself: then only a module that is not compiled as a whole
    (the class is what the user pointed at) may still be wrapped. Without it, a module of which the source compiles
    parts stays as it is, and so does a function that calls what the source compiles: a break outside of them costs
    nothing, and what they recompile for would be hidden.
    """
    if targets.is_compiled(function):
        return function, ()
    if by_source:
        whole = getattr(type(function), "forward", None)
        if not isinstance(function, torch.nn.Module) or targets.is_compiled(whole):
            return function, ()
    elif targets.disabled_reason(function) is not None:
        # torch.compile would take the disabling off, and what then runs is not the user's.
        return function, ()
    else:
        parts = _compiled_in_source(function, lambda path: is_user_file(path, roots))
        if parts:
            shown = ", ".join(parts[:_PARTS_SHOWN])
            more = f" and {len(parts) - _PARTS_SHOWN} more" if len(parts) > _PARTS_SHOWN else ""
            text = f"runs as compiled in the source: {shown}{more}, not the whole of it"
            name = getattr(function, "__name__", type(function).__name__)
            return function, (Note("as_compiled", f"{name} {text}"),)
    compiled: Callable[..., Any] = torch.compile(function, dynamic=dynamic)
    return compiled, ()


def _compiled_in_source(function: Callable[..., Any], is_users: Callable[[str], bool]) -> tuple[str, ...]:
    """Name what of a module, or of what a function calls, the source compiles."""
    if isinstance(function, torch.nn.Module):
        return targets.compiled_parts(function, is_users)
    return targets.compiled_callees(function, is_users)


def asked_notes(asked: CompileCalls, roots: Sequence[str]) -> tuple[Note, ...]:
    """Tell where the user's code asks torch.compile for what decides about kernels: capture makes none."""
    notes = []
    for call in asked.calls:
        words = [f"backend={call.backend!r}"] if call.backend not in (None, "inductor") else []
        words += [f"mode={call.mode!r}"] if call.mode not in (None, "default") else []
        words += [f"options with {', '.join(call.options)}"] if call.options else []
        place = call.location
        if words and place is not None and is_user_file(place.path, roots):
            text = f"torch.compile asks for {' and '.join(words)}: captured without it, as no kernels are made here"
            notes.append(Note("compile_options", text, place))
    notes += [
        Note("own_module", f"`compile()` does not compile this `{name}`: its class is torch's own", place)
        for name, place in asked.own_modules
        if is_user_file(place.path, roots)
    ]
    text = "torch.compiler.precompile captures without TorchDynamo: its graph and kernels are not shown"
    notes += [
        Note("precompile", text, place) for place in asked.precompiled if is_user_file(place.path, roots)
    ]
    return tuple(dict.fromkeys(notes))


def module_of(function: Any) -> torch.nn.Module | None:
    """Return the module that a call of `function` runs, None for a plain function."""
    if isinstance(function, torch.nn.Module):
        return function
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


@contextlib.contextmanager
def call_mode(prepared: Prepared) -> Iterator[None]:
    """Set train or eval mode, and gradients, for one call."""
    if prepared.is_live:
        with prepared.during():
            yield
        return
    options, module = prepared.options, module_of(prepared.function)
    if module is not None:
        module.train(options.train if options.training is None else options.training)
    grad = options.train if options.no_grad is None else not options.no_grad
    with torch.set_grad_enabled(grad), prepared.during():
        yield


def call_outputs(
    prepared: Prepared, function: Callable[..., Any], *, trained: bool | None = None
) -> tuple[Any, list[Note]]:
    """Call `function` (the compiled form) and, when training, run backward. Raises what the user's code raises.

    Returns what `function` returned, and notes. `trained` says whether it has parameters that take gradients, where
    that is known; without them its inputs do.
    """
    if not prepared.options.train:
        return function(*prepared.args, **prepared.kwargs), []
    if trained is None:
        module = module_of(prepared.function)
        trained = module is not None and any(p.requires_grad for p in module.parameters())
    if not trained and not prepared.is_live:  # a function without parameters is trained through its inputs
        for tensor in tensors_in([prepared.args, prepared.kwargs]):
            if tensor.is_leaf and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
    outputs = function(*prepared.args, **prepared.kwargs)
    losses = [
        output.abs().sum() if output.is_complex() else output.float().sum()
        for output in tensors_in(outputs)
        if output.requires_grad
    ]
    if not losses:
        if prepared.is_live:
            return outputs, []
        note = Note("no_backward", "train=True, but no output needs gradients: backward was left out")
        return outputs, [note]
    loss: Any = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
    loss.backward()
    return outputs, []
