"""Write the TypeScript types of the pages from the dataclasses of the server, so that a field is named once.

`make lint` runs it with `--check`, which fails while `extension/src/messages/page_types.ts` is older than the
dataclasses.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "server")]

PAGE = ROOT / "extension" / "src" / "messages" / "page_types.ts"
MODULES = (
    "explain.benchmarks.page_types",
    "explain.searches.page_types",
    "explain.graphs.page_types",
    "editor.presenters.job_page_types",
)
"""Whose dataclasses are written, in this order."""
HEADER = """\
/**
 * The data of the pages, as the server sends it. `null` is unknown.
 *
 * Written by scripts/message_types.py from the dataclasses of `page_types.py`: change those, then run the script.
 */
"""
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_LONGEST = 110
"""Characters of a line, as biome.json has it."""


class UnknownTypeError(TypeError):
    """A field whose type no page can have."""


def page() -> str:
    """Return the file as it has to be."""
    modules = [importlib.import_module(f"fuselight_server.{name}") for name in MODULES]
    kinds = list(
        dict.fromkeys(kind for module in modules for each in _dataclasses(module) for kind in _needed(each))
    )
    enums = dict.fromkeys(kind for each in kinds for kind in _enums(each))
    parts = [*map(_alias, enums), *map(interface, kinds)]
    return HEADER + "".join(f"\n{part}" for part in parts)


def _dataclasses(module: types.ModuleType) -> Iterator[type]:
    """Yield the dataclasses that a module defines, in their order."""
    for kind in vars(module).values():
        if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__:
            yield kind


def _needed(kind: Any) -> Iterator[type]:
    """Yield the dataclasses of a kind's fields, from wherever they are, then the kind itself."""
    for hint in typing.get_type_hints(kind).values():
        yield from (
            each for leaf in _leaves(hint) if dataclasses.is_dataclass(leaf) for each in _needed(leaf)
        )
    yield kind


def _enums(kind: type) -> Iterator[type[enum.Enum]]:
    for hint in typing.get_type_hints(kind).values():
        yield from (leaf for leaf in _leaves(hint) if isinstance(leaf, type) and issubclass(leaf, enum.Enum))


def _leaves(hint: Any) -> Iterator[Any]:
    arguments = typing.get_args(hint)
    if not arguments:
        yield hint
    for argument in arguments:
        yield from _leaves(argument)


def _alias(kind: type[enum.Enum]) -> str:
    """Return an enum as the union of its values."""
    values = [f'"{member.value}"' for member in kind]
    line = f"export type {kind.__name__} = {' | '.join(values)};"
    if len(line) > _LONGEST:
        line = f"export type {kind.__name__} =" + "".join(f"\n  | {value}" for value in values) + ";"
    return f"{_comment(inspect.cleandoc(kind.__doc__ or ''), '')}{line}\n"


def interface(kind: type) -> str:
    """Return a dataclass in TypeScript. Raises UnknownTypeError."""
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            raise UnknownTypeError(
                f"{kind.__name__}.{field.name} has a default: the codec would leave it out"
            )
    hints, comments = typing.get_type_hints(kind), _field_comments(kind)
    lines = [
        f"{_comment(comments.get(name, ''), '  ')}  readonly {name}: {type_of(hints[name])};\n"
        for name in (field.name for field in dataclasses.fields(kind))
    ]
    head = f"export interface {kind.__name__} {{\n"
    return f"{_comment(inspect.cleandoc(kind.__doc__ or ''), '')}{head}{''.join(lines)}}}\n"


def _field_comments(kind: type) -> dict[str, str]:
    """Return the string after each field of a dataclass and its bases, in which its meaning is written."""
    comments = {}
    for each in kind.__mro__[-2::-1]:
        (tree,) = ast.parse(inspect.getsource(each)).body
        for field, after in itertools.pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
            ):
                comments[field.target.id] = inspect.cleandoc(str(ast.literal_eval(after.value)))
    return comments


def _comment(text: str, indent: str) -> str:
    if not text:
        return ""
    text = re.sub(r"\bNone\b", lambda match: "null" if match.start() else "Null", text)
    lines = text.replace("*/", "* /").splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def type_of(hint: Any) -> str:
    """Return a Python type in TypeScript. Raises UnknownTypeError."""
    arguments, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(type_of, arguments)))
    if origin is tuple and arguments[1:] == (...,):
        return f"readonly {_grouped(type_of(arguments[0]))}[]"
    if origin is tuple:
        return f"readonly [{', '.join(map(type_of, arguments))}]"
    if origin is dict and arguments[0] is str:
        return f"Readonly<Record<string, {type_of(arguments[1])}>>"
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, enum.Enum)):
        return hint.__name__
    raise UnknownTypeError(f"no TypeScript type for {hint!r}")


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def main(arguments: Iterable[str]) -> int:
    """Write the file, or with `--check` say whether it is current; returns the exit code."""
    written = page()
    if "--check" not in arguments:
        PAGE.write_text(written, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == written:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is older than the dataclasses: run `python scripts/message_types.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
