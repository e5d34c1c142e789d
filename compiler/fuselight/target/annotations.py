"""Inputs from shape annotations, as jaxtyping writes them: `x: Float[Tensor, "batch 128"]`.

Invariant: every size comes from the annotation or from the settings; where one is missing the answer is a sentence
that names it. The annotation is read by its attributes, so no annotation library is imported or needed.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from fuselight.inputs import DTYPES, TensorSpec

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
