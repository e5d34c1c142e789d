"""Texts that make the configuration objects that a constructor needs.

Invariant: a text names only classes that the file knows.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from fuselight_server.source.expression_values import built

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.source.class_sources import ClassSource, FileSource

_CONFIGURATION = re.compile(r"(?:.*_)?(?:config|cfg|conf|args|opts?|options|hparams|params|settings)$")


def configurations(file: FileSource, name: str, plain_value: Callable[[str, str], str]) -> dict[str, str]:
    """Texts that make the parameters of a class's constructor that are objects of a configuration class.

    The class is the one that a parameter is annotated with, else one that the file knows and that has every attribute
    that the constructor reads. `plain_value` makes the text of a value from its name and its annotation.
    """
    definition = file.find_class(name)
    function = definition.method("__init__") if definition is not None else None
    if definition is None or function is None:
        return {}
    configurations = {}
    for parameter in _required(function):
        annotation = ast.unparse(parameter.annotation).strip("'\"") if parameter.annotation else ""
        kind = file.find_class(annotation) if annotation else None
        if kind is None and not annotation and _CONFIGURATION.match(parameter.arg):
            annotation, kind = _class_with(file, _attributes_read(function, parameter.arg))
        if kind is not None and annotation.partition(".")[0] in {*file.classes, *file.imported}:
            configurations[parameter.arg] = f"{annotation}({_fields(kind, plain_value)})"
    return configurations


def construction(file: FileSource, annotation: str, plain_value: Callable[[str, str], str]) -> str:
    """A text that makes an object of the class that an annotation names; empty for no class of the workspace."""
    kind = file.find_class(annotation) if annotation else None
    if kind is None or annotation.partition(".")[0] not in {*file.classes, *file.imported}:
        return ""
    member = kind.first_member()
    return f"{annotation}.{member}" if member else f"{annotation}({_fields(kind, plain_value)})"


def _required(function: ast.FunctionDef) -> list[ast.arg]:
    positional = [*function.args.posonlyargs, *function.args.args]
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    given = len(positional) - len(function.args.defaults)
    return [*positional[1:given], *(argument for argument, default in keywords if default is None)]


def _attributes_read(function: ast.FunctionDef, name: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def _class_with(file: FileSource, attributes: set[str]) -> tuple[str, ClassSource | None]:
    """A class of the file's names that has the attributes."""
    for name in (*file.classes, *file.imported):
        kind = file.find_class(name) if attributes and name[:1].isupper() else None
        if kind is not None and kind.method("forward") is None:
            known = built(kind, (), {}).attributes
            if attributes <= known.keys():
                return name, kind
    return "", None


def _fields(kind: ClassSource, plain_value: Callable[[str, str], str]) -> str:
    """The arguments that a configuration cannot be made without."""
    function = kind.method("__init__")
    if function is not None:
        needed = [(argument.arg, argument.annotation) for argument in _required(function)]
    elif kind.is_dataclass:
        needed = [(name, annotation) for name, default, annotation in kind.fields() if default is None]
    else:
        needed = []
    return ", ".join(
        f"{name}={plain_value(name, ast.unparse(annotation) if annotation else '')}"
        for name, annotation in needed
    )
