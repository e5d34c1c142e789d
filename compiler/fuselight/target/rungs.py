"""The ladder of inputs: the first rung with an answer supplies the call and its arguments (docs/inputs.md).

Invariant: a rung either answers with calls, or says why it cannot (`Silent`), or is wrong (`DirectiveFault`); the user
sees which. No rung invents sizes: each comes from a directive, a shape annotation as jaxtyping writes it, `x:
Float[Tensor, "batch 128"]`, or the settings. Annotations are read by their attributes: no library is imported for them.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.inputs import (
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
from fuselight.protocol import DirectiveLine, InputsPlan, Target
from fuselight.report import Location, Note, Rung
from fuselight.target.calls import PlannedCall, Prepared, parameters_of
from fuselight.target.devices import redirect_devices
from fuselight.target.tensors import make_tensor

_KNOWN = frozenset(DTYPES.values())
_PREFERRED = ("float32", "int64", "bool", "complex64")
_ANY_SIZE = "*"


def annotated_inputs(
    function: Callable[..., Any], sizes: Mapping[str, int], *, skip_self: bool
) -> dict[str, Any] | str:
    """Make an input for each parameter that needs one, or say why that cannot be done.

    `sizes` maps names of dimensions to sizes; `"*"` serves for any other. Parameters with a default keep it.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - annotations are the user's expressions and may raise anything
        return f"the annotations cannot be read: {error}"
    if skip_self and parameters and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        parameters = parameters[1:]
    inputs: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = hints.get(parameter.name)
        shaped = hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes")
        if not shaped and parameter.default is not parameter.empty:
            continue
        if not shaped:
            return f"the parameter {parameter.name} has no shape annotation"
        spec = tensor_of(annotation, sizes)
        if isinstance(spec, str):
            return spec
        inputs[parameter.name] = spec
    return inputs or "no parameter has a shape annotation"


def tensor_of(annotation: Any, sizes: Mapping[str, int]) -> TensorSpec | str:
    """Read one annotation, with an attribute `dim_str` such as "batch 128" and `dtypes`, names of dtypes."""
    shape: list[int] = []
    for word in str(annotation.dim_str).split():
        size = _size(word, sizes)
        if isinstance(size, str):
            return size
        shape.extend(size)
    names = [str(name) for name in annotation.dtypes] if isinstance(annotation.dtypes, (list, tuple)) else []
    wanted = [name for name in _PREFERRED if name in names or not names]
    wanted += [name for name in names if name in _KNOWN]
    if not wanted:
        return f"no dtype of {', '.join(names)} has a tensor"
    return TensorSpec(wanted[0], tuple(shape))


def _size(word: str, sizes: Mapping[str, int]) -> tuple[int, ...] | str:
    """Sizes that one word of a shape stands for; none for `...` and for any number of dimensions."""
    if word.startswith("*") or word == "...":
        return ()
    name = word.lstrip("#?")
    name = name.rpartition("=")[2] if "=" in name else name
    if name.isdigit():
        return (int(name),)
    if name in sizes:
        return (sizes[name],)
    if _ANY_SIZE in sizes and (name.isidentifier()):
        return (sizes[_ANY_SIZE],)
    return f"no size is set for the dimension {name} (setting fuselight.inputs.defaultSizes)"


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


def climb(
    target: Target, plan: InputsPlan, names: Mapping[str, Any], device: str | None
) -> tuple[Answered | None, list[str]]:
    """Try the rungs from the top. Returns the first answer, and why the rungs above it had none.

    Raises DirectiveFault; exceptions of user code propagate unchanged.
    """
    reasons: list[str] = []
    rungs: list[tuple[bool, Callable[[], Answered]]] = [
        (bool(plan.directives), lambda: _directives(target, plan.directives, names, device)),
        (plan.provider is not None, lambda: _provider(target, plan, names)),
        (plan.dummy_inputs and target.kind == "module", lambda: _dummy_inputs(target, names)),
        (plan.annotations, lambda: _annotations(target, plan, names, device)),
        (bool(plan.recorded), lambda: _recorded(target, plan.recorded, names, device)),
    ]
    for known, rung in rungs:
        if not known:
            continue
        try:
            return rung(), reasons
        except Silent as why:
            if str(why) not in reasons:
                reasons.append(str(why))
    return None, reasons


def _directives(
    target: Target, lines: tuple[DirectiveLine, ...], names: Mapping[str, Any], device: str | None
) -> Answered:
    parsed = []
    for line in lines:
        try:
            parsed.append((line, parse_directive(line.text)))
        except DirectiveError as error:
            raise fault(error, target.path, line) from None
    objects: dict[str, Any] = {}
    calls = []
    for line, directive in parsed:
        location = _span(target.path, line, 0, len(line.text.encode("utf-8", "surrogatepass")))
        notes = _redirect(directive, target, line) if device else ()
        build = functools.partial(_build_directive, target, line, directive, names, objects)
        calls.append(PlannedCall(line.text, location, build, fake=_asks_for_fake(directive), notes=notes))
    return Answered(Rung.DIRECTIVE, lines[0].line, tuple(calls))


def _redirect(directive: Directive, target: Target, line: DirectiveLine) -> tuple[Note, ...]:
    """Take a CUDA device out of a directive, as out of the file that it belongs to."""
    return tuple(
        replace(note, location=_span(target.path, line, place.column or 0, place.end_column or 0))
        for note in redirect_devices(directive.call, target.path)
        if (place := note.location) is not None
    )


def _asks_for_fake(directive: Directive) -> bool:
    try:
        return split_options(directive)[0].fake
    except DirectiveError:
        return False  # building the call reports it, with its parameters known


def _build_directive(
    target: Target,
    line: DirectiveLine,
    directive: Directive,
    names: Mapping[str, Any],
    objects: dict[str, Any],
) -> Prepared:
    options = Options()

    def tensor(spec: TensorSpec) -> torch.Tensor:
        return make_tensor(spec, options.device)

    evaluator = Evaluator(directive, names, tensor)
    try:
        if directive.callee_key not in objects:
            objects[directive.callee_key] = evaluator.value(directive.callee)
        function = objects[directive.callee_key]
        if not callable(function):
            start, end = directive.span(directive.callee)
            raise DirectiveError(f"{type(function).__name__} objects cannot be called", start, end)  # noqa: TRY301 - all of them are placed below
        if inspect.isclass(function):
            start, end = directive.span(directive.call)
            raise DirectiveError(  # noqa: TRY301 - the same
                f"this makes a {function.__name__} but does not call it: add the call's arguments in"
                " another pair of parentheses",
                start,
                end,
            )
        options, keywords = split_options(directive, parameters_of(function))
        args, kwargs = evaluator.arguments(directive.call.args, keywords)
        _check_arguments(directive, function, args, kwargs)
    except DirectiveError as error:
        raise fault(error, target.path, line) from None
    if options.device and isinstance(function, torch.nn.Module):
        function.to(options.device)
    return Prepared(function, tuple(args), kwargs, options)


def _check_arguments(directive: Directive, function: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Find arguments that do not fit the callee before the call: the directive is then what is wrong."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # no signature: the call itself tells
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        start, end = directive.span(directive.call)
        callee_end = directive.span(directive.callee)[1]
        raise DirectiveError(f"these arguments do not fit: {error}", max(start, callee_end), end) from None


def fault(error: DirectiveError, path: str, line: DirectiveLine) -> DirectiveFault:
    """Place a directive's error in the file."""
    return DirectiveFault(error.message, _span(path, line, error.start, error.end))


def _span(path: str, line: DirectiveLine, start: int, end: int) -> Location:
    return Location(path, line.line, line.column + start, line.line, line.column + end)


def _provider(target: Target, plan: InputsPlan, names: Mapping[str, Any]) -> Answered:
    name = plan.provider or ""
    provider = names.get(name)
    if not callable(provider):
        raise Silent(f"{name} is not a function of the file after import")
    answers = provider(target.name) if parameters_of(provider) else provider()
    sets = answers if isinstance(answers, list) else [answers]
    holder = _target_object(target, names, f"{name}() gives inputs")
    location = Location(target.path, plan.provider_line, function=name) if plan.provider_line else None
    calls = tuple(_ready(target, holder, *_arguments(answer), location) for answer in sets)
    if not calls:
        raise Silent(f"{name}() gave no inputs")
    return Answered(Rung.PROVIDER, plan.provider_line, calls)


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


def _dummy_inputs(target: Target, names: Mapping[str, Any]) -> Answered:
    kind = resolve(target, names)
    if not inspect.isclass(kind) or not hasattr(kind, "dummy_inputs"):
        raise Silent(f"{target.name} has no dummy_inputs")
    holder = _target_object(target, names, "it has dummy_inputs")
    calls = (_ready(target, holder, *_arguments(holder.dummy_inputs), None),)
    return Answered(Rung.DUMMY_INPUTS, None, calls)


def _annotations(target: Target, plan: InputsPlan, names: Mapping[str, Any], device: str | None) -> Answered:
    found = resolve(target, names)
    function = found.forward if inspect.isclass(found) and hasattr(found, "forward") else found
    if isinstance(found, torch.nn.Module):
        inner = getattr(found, "_orig_mod", found)  # what torch.compile wraps
        function = inner.forward
        if (library := _torch_owner(function)) is not None:
            raise Silent(
                f"{target.name} is a {type(inner).__name__} of {library}, whose annotations give no shapes"
            )
    method = inspect.isclass(found) or ("." in target.name and inspect.isfunction(function))
    inputs = annotated_inputs(function, plan.default_sizes, skip_self=method)
    if isinstance(inputs, str):
        raise Silent(inputs)
    holder = _target_object(target, names, "its annotations give shapes")
    kwargs = {n: make_tensor(v, device) if isinstance(v, TensorSpec) else v for n, v in inputs.items()}
    return Answered(Rung.ANNOTATIONS, target.line, (_ready(target, holder, (), kwargs, None),))


def _torch_owner(function: Any) -> str | None:
    """The module of torch that a function comes from, None for any other: torch's annotations give no shapes."""
    module = str(getattr(function, "__module__", ""))
    return module if module.partition(".")[0] == "torch" else None


def _recorded(
    target: Target, recorded: tuple[str, ...], names: Mapping[str, Any], device: str | None
) -> Answered:
    objects: dict[str, Any] = {}
    calls = []
    for text in recorded:
        line = DirectiveLine(target.line, 0, text)
        try:
            directive = parse_directive(text)
        except DirectiveError:
            continue  # has a value without a notation: shown in its report, not replayed
        notes = _redirect(directive, target, line) if device else ()
        build = functools.partial(_build_directive, target, line, directive, names, objects)
        calls.append(PlannedCall(text, None, build, notes=notes))
    if not calls:
        raise Silent("the recorded inputs hold objects that have no notation")
    return Answered(Rung.RECORDED, None, tuple(calls))


def _ready(
    target: Target, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], location: Location | None
) -> PlannedCall:
    name = f"{target.name}()" if target.kind == "module" else target.name
    return PlannedCall(
        describe_call(name, args, kwargs), location, lambda: Prepared(function, args, kwargs, Options())
    )


def resolve(target: Target, names: Mapping[str, Any]) -> Any:
    """Return the object that the target's qualified name names. Raises Silent."""
    first, *rest = target.name.split(".")
    if first not in names:
        raise Silent(f"the file has no {first} once it is imported")
    found = names[first]
    for part in rest:
        if not hasattr(found, part):
            if target.kind == "variable" and inspect.isclass(found):
                owner = target.name.rpartition(".")[0]
                raise Silent(
                    f"only objects of {owner} have {part}: a directive calls it as {owner}().{part}(...)"
                )
            raise Silent(f"{target.name} does not exist once the file is imported")
        found = getattr(found, part)
    return found


def callee_text(target: Target, names: Mapping[str, Any]) -> str:
    """How a directive names what it calls: a class is made first, so is the class of a method."""
    owner, _, attribute = target.name.rpartition(".")
    try:
        if owner and target.kind != "module" and inspect.isclass(resolve(replace(target, name=owner), names)):
            return f"{owner}().{attribute}"
    except Silent:
        pass
    return f"{target.name}()" if target.kind == "module" else target.name


def example_call(target: Target, names: Mapping[str, Any]) -> str:
    """A call as a directive would write it, with a tensor for each parameter that has no default."""
    return f"{callee_text(target, names)}({', '.join(['f32[4, 8]'] * _required(target, names))})"


def _required(target: Target, names: Mapping[str, Any]) -> int:
    """How many arguments the call takes at least; one where the object cannot be asked."""
    try:
        found = resolve(target, names)
        found = getattr(found, "_orig_mod", found)  # what torch.compile wraps
        of_class = inspect.isclass(found)
        function = found.forward if of_class or isinstance(found, torch.nn.Module) else found
        parameters = list(inspect.signature(function).parameters.values())
    except (Silent, AttributeError, TypeError, ValueError):
        return 1
    if of_class or ("." in target.name and inspect.isfunction(function) and target.kind == "method"):
        parameters = parameters[1:]  # self
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = sum(one.kind in positional and one.default is inspect.Parameter.empty for one in parameters)
    return required or int(any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters))


def _target_object(target: Target, names: Mapping[str, Any], because: str) -> Any:
    """Return what to call for a target without a directive: a class is made without arguments."""
    owner, _, method = target.name.rpartition(".")
    if owner and target.kind == "method":
        kind = resolve(Target(target.path, owner, "module", target.line, compiled=False), names)
        return getattr(_instance(kind, because), method) if inspect.isclass(kind) else getattr(kind, method)
    found = resolve(target, names)
    return _instance(found, because) if inspect.isclass(found) else found


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
