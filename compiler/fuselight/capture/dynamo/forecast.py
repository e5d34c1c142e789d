"""Asks the guards of a compiled function which changes of a call would compile it again.

Invariant: the user's objects are as before when a question has been answered, and no user code runs. A function whose
guards do not accept its own recorded call (it changes what it reads) has no forecast.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import frames, names
from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import recompiles, stacks
from fuselight.capture.dynamo.changed_tensors import CHANNELS_LAST, TRANSPOSED, like, relaid, resized
from fuselight.capture.dynamo.containers import Field, Path, is_plain, items_of, replaced
from fuselight.capture.dynamo.guards import Births
from fuselight.capture.dynamo.loop_counts import LoopCounts, loop_counts
from fuselight.capture.dynamo.user_reads import is_read_by_user
from fuselight.capture.dynamo.variable_names import with_variable_names
from fuselight.capture.dynamo.wrappers import Callee
from fuselight.shared import torch_texts
from fuselight.shared.report import ChangeKind, Forecast, FrameForecast, Stack

MAX_LEAVES = 64
"""Values of one call that are changed, one at a time."""
MAX_ATTRIBUTES = 32
_DEPTH = 4
_TENSOR_GUARD = re.compile(r"tensor '(?P<source>.+)' (?P<what>.+) mismatch")
_COMPARED = re.compile(r"(?P<source>[LG]\[.+?)\s*(?:==|is|!=|<|>|%)")
_ATTRIBUTE = re.compile(r"(?P<owner>L\['\w+'\].*?)\.(?P<name>\w+)$")
_GLOBAL = re.compile(r"G\['(?P<name>\w+)'\]$")


@dataclass(frozen=True)
class CompiledFrame:
    """A function of the user's, with the locals of a call that compiled it."""

    code: CodeType
    callee: Callee
    f_locals: dict[str, object]
    limit: int
    """Its versions that torch keeps."""


def copied_locals(f_locals: Mapping[str, object]) -> dict[str, object]:
    """The locals of a call that begins: a dict or list in them may be changed by the call, such as `kwargs`."""
    boxed = f_locals.get(frames.BOXED)
    items = boxed if isinstance(boxed, list) else []
    copies = {
        id(value): copy.copy(value)
        for value in (*f_locals.values(), *items)
        if type(value) in (dict, list) and value is not boxed
    }  # by identity: two names of one list stay one
    copied = {name: copies.get(id(value), value) for name, value in f_locals.items()}
    return {**copied, frames.BOXED: [copies.get(id(item), item) for item in items]} if items else copied


def does_something_at_its_end(f_locals: Mapping[str, object]) -> bool:
    """Whether a value acts when it is freed, as a file that is then written: keeping it would change the program."""
    return any(hasattr(type(value), "__del__") for value in f_locals.values())


@dataclass(frozen=True)
class _Change:
    """A question: the locals with one change, or the same ones with something else changed meanwhile."""

    kind: ChangeKind
    subject: tuple[str, ...]
    was: str
    now: str
    f_locals: Mapping[str, object]
    during: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    is_likely: bool = True
    is_loop_size: bool = False
    """Whether it is a size that decides how often a loop runs."""


def forecast(
    frame: CompiledFrame, births: Mapping[Any, Births], roots: Sequence[str]
) -> FrameForecast | None:
    """Return what would compile a function again, None if its guards do not accept its own call."""
    managers = [
        entry.guard_manager
        for entry in artifacts.cache_entries(frame.code)
        if artifacts.is_deleted(entry.guard_manager) is None
    ]
    if _first_failure(managers, frame.f_locals) is not None:
        return None
    forecasts = []
    counts = loop_counts(frame.code)
    for change in _changes(frame, managers, births, roots, counts):
        with change.during():
            failure = _first_failure(managers, change.f_locals)
        forecast = Forecast(
            change.kind,
            change.subject,
            change.was,
            change.now,
            failure is not None,
            is_likely=change.is_likely,
            is_loop_count=change.is_loop_size
            or (change.kind is ChangeKind.NUMBER and not counts.names.isdisjoint(change.subject)),
        )
        forecasts.append(
            forecast if failure is None else _with_guard(forecast, *failure, births, frame.callee)
        )
    forecasts.sort(key=lambda forecast: (not forecast.recompiles, not forecast.is_likely))
    callee = frame.callee
    part = stacks.resumes_at(frame.code)
    return FrameForecast(
        callee.function, callee.location, len(managers), frame.limit, tuple(forecasts), resumes_at=part
    )


def _first_failure(managers: Sequence[Any], f_locals: Mapping[str, object]) -> tuple[Any, str] | None:
    """Return the newest entry and the text of its guard that fails, None if an entry accepts the call."""
    failure: tuple[Any, str] | None = None
    for manager in managers:
        verdict = manager.check_verbose(dict(f_locals))
        if verdict.result:
            return None
        if failure is None:
            parts = [str(part) for part in verdict.verbose_code_parts]
            failure = manager, recompiles.failing_text(manager, f_locals, parts)
    return (None, "no compiled version") if failure is None else failure


def _with_guard(
    forecast: Forecast, manager: Any, text: str, births: Mapping[Any, Births], callee: Callee
) -> Forecast:
    code = torch_texts.split_guard(text)[0]
    mismatch = _TENSOR_GUARD.search(code)
    compared = _COMPARED.search(code)
    source = mismatch["source"] if mismatch else compared["source"] if compared else ""
    born: Stack = ()
    table = None if manager is None else births.get(manager)
    if table is not None:
        born = (
            table.by_code.get(code)
            or table.by_source.get(source)
            or recompiles.born_in_comment(text, table.paths)
        )
    words = "" if torch_texts.is_global_state(source) else torch_texts.in_user_words(source)
    return replace(
        forecast,
        repeats=(forecast.is_loop_count and forecast.kind is not ChangeKind.SIZE_ONE)
        or _repeats(
            forecast.kind, is_plain_size=mismatch is not None and mismatch["what"].startswith("size")
        ),
        source=callee.in_its_words(words),
        guard=callee.unboxed(code)[:400],
        condition=callee.in_its_words(torch_texts.in_user_words(code[:400]))
        if callee.has_other_names
        else "",
        born=born,
    )


def _repeats(kind: ChangeKind, *, is_plain_size: bool) -> bool:
    """Whether further values compile again: torch makes a size or a number dynamic once it has changed."""
    further = FURTHER_VALUES[kind]
    becomes_dynamic = further is FurtherValues.DYNAMIC or (
        further is FurtherValues.DYNAMIC_SIZE and is_plain_size
    )
    return further is not FurtherValues.NONE and not (becomes_dynamic and settings.makes_dynamic())


class FurtherValues(enum.Enum):
    """What a kind of change may change to after its second value."""

    NONE = "none"
    """There are two."""
    COMPILED = "compiled"
    """Each compiles."""
    DYNAMIC = "dynamic"
    """One compile serves them all where torch makes a changed value dynamic."""
    DYNAMIC_SIZE = "dynamic_size"
    """The same, if the guard that fails is that of a tensor's size."""


FURTHER_VALUES = {
    ChangeKind.SIZE: FurtherValues.DYNAMIC_SIZE,
    ChangeKind.SIZE_ONE: FurtherValues.NONE,
    ChangeKind.DTYPE: FurtherValues.COMPILED,
    ChangeKind.STRIDES: FurtherValues.COMPILED,
    ChangeKind.REQUIRES_GRAD: FurtherValues.NONE,
    ChangeKind.TRAINING: FurtherValues.NONE,
    ChangeKind.GRAD_MODE: FurtherValues.NONE,
    ChangeKind.AUTOCAST: FurtherValues.NONE,
    ChangeKind.NUMBER: FurtherValues.DYNAMIC,
    ChangeKind.VALUE: FurtherValues.COMPILED,
    ChangeKind.LENGTH: FurtherValues.COMPILED,
    ChangeKind.ATTRIBUTE: FurtherValues.COMPILED,
}
"""By kind of change; each has an entry."""


def _changes(
    frame: CompiledFrame,
    managers: Sequence[Any],
    births: Mapping[Any, Births],
    roots: Sequence[str],
    counts: LoopCounts,
) -> Iterator[_Change]:
    f_locals = {name: value for name, value in frame.f_locals.items() if not name.startswith("__nested_")}
    leaves = list(_leaves(f_locals, ()))[:MAX_LEAVES]  # without what torch resumes callers with
    leaves = [
        (path, value) for path, value in leaves if _may_be_copied(managers, frame.f_locals, path, value)
    ]
    tensors = [(path, value) for path, value in leaves if type(value) is torch.Tensor]
    yield from _size_changes(frame, tensors, counts)
    yield from _mode_changes(frame, tensors)
    yield from _tensor_changes(frame, tensors)
    for path, value in leaves:
        yield from _value_changes(frame, path, value)
    asked = {_name(frame, path) for path, _ in leaves}
    for change in _attribute_changes(frame, managers, births, roots):
        if asked.isdisjoint(change.subject):
            yield change


def _may_be_copied(
    managers: Sequence[Any], f_locals: Mapping[str, object], path: Path, value: object
) -> bool:
    """Whether the guards accept a copy of the object that holds a value: else the copy is what they refuse."""
    if not any(isinstance(key, Field) for key in path):
        return True
    return _first_failure(managers, replaced(f_locals, {path: value})) is None


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the values of a call: the locals, and what containers among them hold."""
    # The user's own `self` is not passed by a call.
    items = [] if path == ("self",) and not is_plain(value) else list(items_of(value))
    if not items and not is_plain(value):
        yield path, value
        return
    if path and is_plain(value) and path[0] not in ("args", "kwargs") and path != (frames.BOXED,):
        yield path, value
    if len(path) < _DEPTH:
        for key, item in items:
            yield from _leaves(item, (*path, key))


def _name(frame: CompiledFrame, path: Path) -> str:
    keys = (f".{key.name}" if isinstance(key, Field) else f"[{key!r}]" for key in path[1:])
    source = f"L['{path[0]}']" + "".join(keys)
    return frame.callee.in_its_words(torch_texts.in_user_words(source))


def _change(
    frame: CompiledFrame,
    kind: ChangeKind,
    changes: Mapping[Path, object],
    subject: tuple[str, ...],
    **words: Any,
) -> _Change:
    return _Change(kind, subject, f_locals=replaced(frame.f_locals, changes), **words)


def _size_changes(
    frame: CompiledFrame, tensors: Sequence[tuple[Path, torch.Tensor]], counts: LoopCounts
) -> Iterator[_Change]:
    """Yield changes of sizes. Equal sizes in the same dimension of several tensors change together, as a batch does."""
    groups: dict[tuple[int, int], list[tuple[Path, torch.Tensor]]] = {}
    for path, tensor in tensors:
        for dimension, size in enumerate(tensor.shape):
            if size > 0:
                groups.setdefault((dimension, int(size)), []).append((path, tensor))
    for (dimension, size), members in groups.items():
        subject = tuple(f"{_name(frame, path)}.size({dimension})" for path, _ in members)
        is_likely = any(_is_varied(tensor, dimension) for _, tensor in members)
        is_loop_size = any(
            len(path) == 1 and counts.has_size(path[0], dimension, tensor.dim()) for path, tensor in members
        )
        other = size - 1 if size > 2 else size + 1 if size == 2 else 3  # noqa: PLR2004 - 0 and 1 are special
        for kind, now in ((ChangeKind.SIZE, other), (ChangeKind.SIZE_ONE, 1)):
            if now != size and (kind is ChangeKind.SIZE or is_likely):
                changes = {path: resized(tensor, dimension, now) for path, tensor in members}
                words: dict[str, Any] = {"was": str(size), "now": str(now), "is_likely": is_likely}
                yield _change(frame, kind, changes, subject, **words, is_loop_size=is_loop_size)


def _is_varied(tensor: torch.Tensor, dimension: int) -> bool:
    """Whether programs vary this size: the batch, a sequence's length, an image's height and width."""
    if dimension == 0:
        return True
    if not tensor.is_floating_point():
        return True
    return (tensor.dim(), dimension) in ((3, 1), (4, 2), (4, 3))


def _tensor_changes(frame: CompiledFrame, tensors: Sequence[tuple[Path, torch.Tensor]]) -> Iterator[_Change]:
    """Yield changes of dtype and of requires_grad, of all tensors of a dtype together, and of strides, one by one."""
    by_dtype: dict[torch.dtype, list[tuple[Path, torch.Tensor]]] = {}
    for path, tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append((path, tensor))
    for dtype, members in by_dtype.items():
        subject = tuple(_name(frame, path) for path, _ in members)
        other = _OTHER_DTYPE.get(dtype)
        if other is not None:
            changes = {
                path: like(tensor, dtype=other, requires_grad=tensor.requires_grad)
                for path, tensor in members
            }
            was, now = names.dtype_name(dtype), names.dtype_name(other)
            yield _change(frame, ChangeKind.DTYPE, changes, subject, was=was, now=now)
        if dtype.is_floating_point:
            flags = {tensor.requires_grad for _, tensor in members}
            if len(flags) == 1:
                now_grad = not flags.pop()
                changes = {path: like(tensor, requires_grad=now_grad) for path, tensor in members}
                words = {"was": str(not now_grad), "now": str(now_grad)}
                yield _change(frame, ChangeKind.REQUIRES_GRAD, changes, subject, is_likely=False, **words)
    for path, tensor in tensors:
        if tensor.dim() > 1 and tensor.is_contiguous() and tensor.numel() > 1:
            is_image = tensor.dim() == 4  # noqa: PLR2004 - batch, channels, height, width
            now_layout = CHANNELS_LAST if is_image else TRANSPOSED
            changes = {path: relaid(tensor, now_layout)}
            words = {"was": "contiguous", "now": now_layout}
            yield _change(
                frame, ChangeKind.STRIDES, changes, (_name(frame, path),), is_likely=is_image, **words
            )


_OTHER_DTYPE = {
    torch.float32: torch.bfloat16,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float64: torch.float32,
    torch.int64: torch.int32,
    torch.int32: torch.int64,
}


def _mode_changes(frame: CompiledFrame, tensors: Sequence[tuple[Path, torch.Tensor]]) -> Iterator[_Change]:
    modules = [value for value in frame.f_locals.values() if isinstance(value, torch.nn.Module)]
    for module in modules[:1]:
        yield _Change(
            ChangeKind.TRAINING,
            (),
            _mode(module.training),
            _mode(not module.training),
            frame.f_locals,
            during=functools.partial(_toggled, module),
        )
    grad = torch.is_grad_enabled()
    yield _Change(
        ChangeKind.GRAD_MODE,
        (),
        _on(grad),
        _on(not grad),
        frame.f_locals,
        during=functools.partial(torch.set_grad_enabled, not grad),
    )
    device = tensors[0][1].device.type if tensors else "cpu"
    cast = torch.is_autocast_enabled(device)
    yield _Change(
        ChangeKind.AUTOCAST,
        (),
        _on(cast),
        _on(not cast),
        frame.f_locals,
        during=functools.partial(torch.autocast, device, dtype=torch.bfloat16, enabled=not cast),
        is_likely=False,
    )


def _mode(training: bool) -> str:  # noqa: FBT001 - the value of `module.training`
    return "training" if training else "evaluation"


def _on(enabled: bool) -> str:  # noqa: FBT001 - the value of the mode
    return "on" if enabled else "off"


@contextlib.contextmanager
def _toggled(module: torch.nn.Module) -> Iterator[None]:
    """Have a module in the other mode. The flags are set directly: the user's own `train()` may do anything."""
    flags = [(module, module.training) for module in module.modules()]
    other = not module.training
    try:
        for switched_module, _ in flags:
            vars(switched_module)["training"] = other
        yield
    finally:
        for switched_module, flag in flags:
            vars(switched_module)["training"] = flag


def _value_changes(frame: CompiledFrame, path: Path, value: object) -> Iterator[_Change]:
    changed: Any
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple) and value:
        changed = type(value)((*value, value[-1]))
        words = {"was": str(len(value)), "now": str(len(value) + 1)}
        kind, is_likely = ChangeKind.LENGTH, False
    else:
        other = _other_value(value)
        if other is None:
            return
        kind, changed = other
        words, is_likely = {"was": repr(value)[:80], "now": repr(changed)[:80]}, kind is ChangeKind.NUMBER
    yield _change(frame, kind, {path: changed}, (_name(frame, path),), is_likely=is_likely, **words)


def _other_value(value: object) -> tuple[ChangeKind, Any] | None:
    """Return another value of the same type, and what kind of change that is; None if there is no such question."""
    if type(value) is bool:
        return ChangeKind.VALUE, not value
    if type(value) is int:
        return ChangeKind.NUMBER, value + 1 if value > 0 else value + 2
    if type(value) is float:
        return ChangeKind.NUMBER, value * 1.5 + 0.25
    if type(value) is str:
        return ChangeKind.VALUE, f"{value}_"
    return None


def _attribute_changes(
    frame: CompiledFrame, managers: Sequence[Any], births: Mapping[Any, Births], roots: Sequence[str]
) -> Iterator[_Change]:
    """Yield changes of numbers, bools and strings in attributes and globals that the user's own lines read."""
    sources: dict[str, Any] = {}
    for manager in managers:
        table = births.get(manager)
        for source, born in table.by_source.items() if table is not None else ():
            is_users = is_read_by_user(source, born, roots)
            if is_users and not source.endswith(".training") and len(sources) < MAX_ATTRIBUTES:
                sources.setdefault(source, manager)
    for source, manager in sources.items():
        holder = _holder(source, manager, frame.f_locals)
        if holder is None:
            continue
        namespace, name = holder
        other = _other_value(namespace.get(name))
        if other is not None:
            value, changed = namespace[name], other[1]
            words = with_variable_names(torch_texts.in_user_words(source), {}, frame.f_locals)
            words = frame.callee.in_its_words(words)
            yield _Change(
                ChangeKind.ATTRIBUTE,
                (words,),
                repr(value)[:80],
                repr(changed)[:80],
                frame.f_locals,
                during=functools.partial(_set, namespace, name, changed),
                is_likely=type(value) is int,
            )


def _holder(source: str, manager: Any, f_locals: Mapping[str, object]) -> tuple[dict[str, Any], str] | None:
    """Return the namespace and the name of a guarded expression; None if it is neither attribute nor global."""
    scope, names = artifacts.guard_scope(manager, f_locals)
    match = _GLOBAL.match(source)
    if match is not None:
        return names["G"], match["name"]
    match = _ATTRIBUTE.match(source)
    if match is None:
        return None
    try:
        owner = eval(match["owner"], scope, names)  # noqa: S307 - torch wrote it, and evaluates it the same way
        held = vars(owner)  # of a class: a view that cannot be changed
        return (held, match["name"]) if isinstance(held, dict) and match["name"] in held else None
    except Exception:  # noqa: BLE001 - any property of the user's can raise anything
        return None


@contextlib.contextmanager
def _set(namespace: dict[str, Any], name: str, value: object) -> Iterator[None]:
    before = namespace[name]
    namespace[name] = value
    try:
        yield
    finally:
        namespace[name] = before
