"""The ladder of inputs: the first rung with an answer supplies the call and its arguments (docs/inputs.md).

Invariant: a rung either answers with calls, or says why it cannot (`Silent`), or is wrong (`DirectiveFault`); the user
sees which. No rung invents sizes: each comes from a directive, a shape annotation as jaxtyping writes it, `x:
Float[Tensor, "batch 128"]`, or the settings. Annotations are read by their attributes: no library is imported for them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.triton_api.kernel_compiles import compile_call
from fuselight.capture.calls.calls import PlannedCall, Prepared, parameters_of
from fuselight.capture.calls.devices import redirect_devices
from fuselight.capture.calls.tensors import make_tensor
from fuselight.capture.calls.unfit_directives import check_arguments, uncallable_words, uncalled_words
from fuselight.shared.inputs import (
    DTYPES,
    Directive,
    DirectiveError,
    Evaluator,
    Options,
    TensorSpec,
    describe_call,
    parse_directive,
    split_options,
)
from fuselight.shared.inputs.grammar import dtype_of
from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.protocol import DirectiveLine, InputsPlan, Target
from fuselight.shared.report import Location, Note, Rung

_KNOWN = frozenset(DTYPES.values())
_PREFERRED = ("float32", "int64", "bool", "complex64")
_ANY_SIZE = "*"


class Silent(Exception):  # noqa: N818 - no error: a rung that has no answer
    """This rung has no inputs for the target; the message says why."""


class DirectiveFault(Exception):  # noqa: N818 - carries a DirectiveError to its place in the file
    """A directive of the file is wrong."""

    def __init__(self, message: str, location: Location) -> None:
        super().__init__(message)
        self.message = message
        self.location = location


@dataclass(frozen=True)
class Answered:
    """The calls of the rung that answered."""

    rung: Rung
    line: int | None
    calls: tuple[PlannedCall, ...]


@dataclass(frozen=True)
class Ladder:
    """The rungs of one target, in a file that has been imported."""

    target: Target
    plan: InputsPlan
    names: Mapping[str, Any]
    """Names of the file."""
    device: str | None
    """Where tensors are made, on a machine without the GPU that the file asks for."""

    def climb(self) -> tuple[Answered | None, list[str]]:
        """Try the rungs from the top. Returns the first answer, and why the rungs above it had none.

        Raises DirectiveFault; exceptions of user code propagate unchanged.
        """
        plan = self.plan
        reasons: list[str] = []
        rungs: list[tuple[object, Callable[[], Answered]]] = [
            (plan.directives, self._directives),
            (plan.provider is not None, self._provider),
            (plan.dummy_inputs and self.target.kind == "module", self._dummy_inputs),
            (plan.annotations, self._annotations),
            (plan.recorded, self._recorded),
        ]
        for known, rung in rungs:
            if not known:
                continue
            try:
                return rung(), reasons
            except Silent as why:
                if str(why) and str(why) not in reasons:
                    reasons.append(str(why))
        return None, reasons

    def _directives(self) -> Answered:
        lines, parsed = self.plan.directives, []
        for line in lines:
            try:
                parsed.append((line, parse_directive(line.text)))
            except DirectiveError as error:
                raise self._fault(error, line) from None
        objects: dict[str, Any] = {}
        calls = []
        for line, directive in parsed:
            location = self._span(line, 0, len(line.text.encode("utf-8", "surrogatepass")))
            call = self._planned(line, directive, objects, location)
            calls.append(replace(call, fake=_asks_for_fake(directive), tensor_bytes=_tensor_bytes(directive)))
        return Answered(Rung.DIRECTIVE, lines[0].line, tuple(calls))

    def _planned(
        self, line: DirectiveLine, directive: Directive, objects: dict[str, Any], location: Location | None
    ) -> PlannedCall:
        """Plan a directive's call. `objects` has those that its directives share, by `callee_key`."""
        notes: tuple[Note, ...] = ()
        if self.device:  # a CUDA device is taken out of it, as out of the file that it belongs to
            notes = tuple(
                replace(note, location=self._span(line, place.column or 0, place.end_column or 0))
                for note in redirect_devices(directive.call, self.target.path)
                if (place := note.location) is not None
            )
        build = functools.partial(self._build, line, directive, objects)
        return PlannedCall(line.text, location, build, notes=notes)

    def _build(self, line: DirectiveLine, directive: Directive, objects: dict[str, Any]) -> Prepared:
        options = Options()

        def tensor(spec: TensorSpec) -> torch.Tensor:
            return make_tensor(spec, options.device)

        names = {"torch": torch, **self.names}  # for torch.nn.Parameter in recorded calls
        evaluator = Evaluator(directive, names, tensor, missing=_missing_words(self.target.path))
        try:
            if directive.callee_key not in objects:
                objects[directive.callee_key] = evaluator.value(directive.callee)
            function = objects[directive.callee_key]
            function = compile_call(function) or function
            if not callable(function):
                raise directive.error(uncallable_words(directive, function), directive.callee)
            if inspect.isclass(function):
                raise directive.error(uncalled_words(directive, function), directive.call)
            options, keywords = split_options(directive, parameters_of(function))
            args, kwargs = evaluator.arguments(directive.call.args, keywords)
            check_arguments(directive, function, args, kwargs)
        except DirectiveError as error:
            raise self._fault(error, line) from None
        if options.device and isinstance(function, torch.nn.Module):
            function.to(options.device)
        return Prepared(function, tuple(args), kwargs, options)

    def _fault(self, error: DirectiveError, line: DirectiveLine) -> DirectiveFault:
        return DirectiveFault(error.message, self._span(line, error.start, error.end))

    def _span(self, line: DirectiveLine, start: int, end: int) -> Location:
        return Location(self.target.path, line.line, line.column + start, line.line, line.column + end)

    def _provider(self) -> Answered:
        target, line = self.target, self.plan.provider_line
        name = self.plan.provider or ""
        provider = self.names.get(name)
        if not callable(provider):
            raise Silent(f"{name} is not a function of the file after import")
        answers = provider(target.name) if parameters_of(provider) else provider()
        sets = answers if isinstance(answers, list) else [answers]
        holder = self._target_object(f"{name}() gives inputs")
        location = Location(target.path, line, function=name) if line else None
        calls = tuple(self._ready(holder, *_arguments(answer), location) for answer in sets)
        if not calls:
            raise Silent(f"{name}() gave no inputs")
        return Answered(Rung.PROVIDER, line, calls)

    def _dummy_inputs(self) -> Answered:
        kind = resolve(self.target, self.names)
        if not inspect.isclass(kind) or not hasattr(kind, "dummy_inputs"):
            raise Silent("")  # most classes have none, and nobody asked for them
        holder = self._target_object("it has dummy_inputs")
        calls = (self._ready(holder, *_arguments(holder.dummy_inputs)),)
        return Answered(Rung.DUMMY_INPUTS, None, calls)

    def _annotations(self) -> Answered:
        name, target_object = self.target.name, resolve(self.target, self.names)
        function = (
            target_object.forward
            if inspect.isclass(target_object) and hasattr(target_object, "forward")
            else target_object
        )
        if isinstance(target_object, torch.nn.Module):
            inner = getattr(target_object, "_orig_mod", target_object)  # what torch.compile wraps
            function = inner.forward
            library = str(getattr(function, "__module__", ""))
            if library.partition(".")[0] == "torch":
                raise Silent(
                    f"{name} is a {type(inner).__name__} of {library}, whose annotations give no shapes"
                )
        method = inspect.isclass(target_object) or ("." in name and inspect.isfunction(function))
        inputs = _annotated_inputs(function, self.plan.default_sizes, skip_self=method)
        holder = self._target_object("its annotations give shapes")
        kwargs = {name: make_tensor(spec, self.device) for name, spec in inputs.items()}
        return Answered(Rung.ANNOTATIONS, self.target.line, (self._ready(holder, (), kwargs),))

    def _recorded(self) -> Answered:
        objects: dict[str, Any] = {}
        calls = []
        for text in self.plan.recorded:
            try:
                directive = parse_directive(text)
            except DirectiveError:
                continue  # has a value without a notation: shown in its report, not replayed
            calls.append(self._planned(DirectiveLine(self.target.line, 0, text), directive, objects, None))
        if not calls:
            raise Silent("the recorded inputs hold objects that have no notation")
        return Answered(Rung.RECORDED, None, tuple(calls))

    def _ready(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        location: Location | None = None,
    ) -> PlannedCall:
        name = f"{self.target.name}()" if self.target.kind == "module" else self.target.name
        return PlannedCall(
            describe_call(name, args, kwargs), location, lambda: Prepared(function, args, kwargs)
        )

    def _target_object(self, because: str) -> Any:
        """Return what to call for a target without a directive: a class is made without arguments."""
        target, names = self.target, self.names
        owner, _, method = target.name.rpartition(".")
        if owner and target.kind == "method":
            kind = resolve(replace(target, name=owner, kind="module"), names)
            return getattr(_instance(kind, because) if inspect.isclass(kind) else kind, method)
        target_object = resolve(target, names)
        return _instance(target_object, because) if inspect.isclass(target_object) else target_object


def _missing_words(path: str) -> str:
    """What is said before a name of a directive that does not exist: a cell below may define it."""
    is_notebook = path.endswith(SUFFIX)
    return "what runs of the cells up to this one defines no" if is_notebook else "the file has no name"


def _asks_for_fake(directive: Directive) -> bool:
    try:
        return split_options(directive)[0].fake
    except DirectiveError:
        return False  # building the call reports it, with its parameters known


def _tensor_bytes(directive: Directive) -> int:
    """The bytes of the tensors in a directive whose sizes are numbers."""
    total = 0
    for node in ast.walk(directive.call):
        dtype = getattr(torch, dtype_of(node) or "", None)
        if not isinstance(node, ast.Subscript) or dtype is None:
            continue
        sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        numbers = [size.value for size in sizes if isinstance(size, ast.Constant)]
        if len(numbers) == len(sizes) and all(isinstance(number, int) for number in numbers):
            total += dtype.itemsize * math.prod(int(str(number)) for number in numbers)
    return total


def _arguments(answer: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read what a provider returned: a tuple, a dict, (tuple, dict), or the one argument itself."""
    pair = 2
    if isinstance(answer, tuple):
        if len(answer) == pair and isinstance(answer[0], (tuple, list)) and isinstance(answer[1], dict):
            return tuple(answer[0]), answer[1]
        return answer, {}
    if isinstance(answer, Mapping) and all(isinstance(key, str) for key in answer):
        return (), dict(answer)
    return (answer,), {}


def _annotated_inputs(
    function: Callable[..., Any], sizes: Mapping[str, int], *, skip_self: bool
) -> dict[str, TensorSpec]:
    """Read an input for each parameter that needs one. Raises Silent where that cannot be done.

    `sizes` maps names of dimensions to sizes; `"*"` serves for any other. Parameters with a default keep it.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - annotations are the user's expressions and may raise anything
        raise Silent(f"the annotations cannot be read: {error}") from None
    if skip_self and parameters and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        parameters = parameters[1:]
    inputs = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(parameter.name)
        if hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes"):
            inputs[parameter.name] = _tensor_of(annotation, sizes)
        elif parameter.default is parameter.empty:
            raise Silent(f"the parameter {parameter.name} has no shape annotation")
    if not inputs:
        raise Silent("no parameter has a shape annotation")
    return inputs


def _tensor_of(annotation: Any, sizes: Mapping[str, int]) -> TensorSpec:
    """Read one annotation, with an attribute `dim_str` such as "batch 128" and `dtypes`, names of dtypes."""
    shape = tuple(size for word in str(annotation.dim_str).split() for size in _size(word, sizes))
    names = [str(name) for name in annotation.dtypes] if isinstance(annotation.dtypes, (list, tuple)) else []
    wanted = [name for name in _PREFERRED if name in names or not names]
    wanted += [name for name in names if name in _KNOWN]
    if not wanted:
        raise Silent(f"no dtype of {', '.join(names)} has a tensor")
    return TensorSpec(wanted[0], shape)


def _size(word: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Sizes that one word of a shape stands for; none for `...` and for any number of dimensions."""
    if word.startswith("*") or word == "...":
        return ()
    name = word.lstrip("#?")
    name = name.rpartition("=")[2] if "=" in name else name
    if name.isdigit():
        return (int(name),)
    if name in sizes:
        return (sizes[name],)
    if _ANY_SIZE in sizes and name.isidentifier():
        return (sizes[_ANY_SIZE],)
    raise Silent(f"no size is set for the dimension {name} (setting fuselight.inputs.defaultSizes)")


def resolve(target: Target, names: Mapping[str, Any]) -> Any:
    """Return the object that the target's qualified name names. Raises Silent."""
    first, *rest = target.name.split(".")
    if first not in names:
        raise Silent(f"the file has no {first} once it is imported")
    resolved = names[first]
    for part in rest:
        if not hasattr(resolved, part):
            if target.kind == "variable" and inspect.isclass(resolved):
                owner = target.name.rpartition(".")[0]
                raise Silent(
                    f"only objects of {owner} have {part}: a directive calls it as {owner}().{part}(...)"
                )
            raise Silent(f"{target.name} does not exist once the file is imported")
        resolved = getattr(resolved, part)
    return resolved


def example_call(target: Target, names: Mapping[str, Any]) -> str:
    """How a directive names what it calls: a class is made first, so is the class of a method."""
    owner, _, attribute = target.name.rpartition(".")
    with contextlib.suppress(Silent):
        if owner and target.kind != "module" and inspect.isclass(resolve(replace(target, name=owner), names)):
            return f"{owner}().{attribute}(...)"
    return f"{target.name}()(...)" if target.kind == "module" else f"{target.name}(...)"


def _instance(kind: type, because: str) -> Any:
    config = getattr(kind, "config_class", None)
    if config is not None and "config" in parameters_of(kind):
        return kind(config())
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        raise Silent(f"{because}, but {kind.__name__}() cannot be made without arguments: {error}") from None
    except ValueError:
        pass  # no signature to ask: making it tells
    return kind()
