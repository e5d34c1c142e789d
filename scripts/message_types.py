"""Write the TypeScript types of messages and pages from the types of the server, so that a field is named once.

`make lint` runs it with `--check`, which fails while a file that it writes is older than the types of the server.
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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Union

import attrs

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "server")]

MESSAGES = ROOT / "extension" / "src" / "messages"


@dataclasses.dataclass(frozen=True)
class Output:
    """A file of types, and the modules of the server whose types it has, in their order."""

    path: Path
    modules: tuple[str, ...]
    header: str


OUTPUTS = (
    Output(
        MESSAGES / "page_types.ts",
        (
            "explain.benchmarks.page_types",
            "explain.searches.page_types",
            "explain.graphs.page_types",
            "editor.presenters.job_page_types",
        ),
        """\
/**
 * The data of the pages, as the server sends it. `null` is unknown.
 *
 * Written by scripts/message_types.py from the dataclasses of `page_types.py`: change those, then run the script.
 */
""",
    ),
    Output(
        MESSAGES / "server_types.ts",
        ("editor.messages.params", "editor.messages.answers"),
        """\
/**
 * The data of the messages that Fuselight adds to LSP, as they are sent. `null` is unknown.
 *
 * Written by scripts/message_types.py from `editor/messages/` of the server: change that, then run the script.
 */
""",
    ),
)
_PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_LONGEST = 110
"""Characters of a line, as biome.json has it."""


class UnknownTypeError(TypeError):
    """A field whose type no page can have."""


def text_of(output: Output) -> str:
    """Return a file as it has to be. Raises UnknownTypeError."""
    modules = [importlib.import_module(f"fuselight_server.{name}") for name in output.modules]
    kinds = list(
        dict.fromkeys(kind for module in modules for each in _kinds(module) for kind in _needed(each))
    )
    enums = dict.fromkeys(kind for each in kinds for kind in _enums(each))
    unions = {hint: name for module in modules for name, hint in _unions(module)}
    parts = [
        *map(_alias, enums),
        *(_union(name, hint, module) for module in modules for name, hint in _unions(module)),
        *(interface(kind, unions) for kind in kinds),
    ]
    return output.header + "".join(f"\n{part}" for part in parts)


def _kinds(module: types.ModuleType) -> Iterator[type]:
    """Yield the types with fields that a module defines, in their order."""
    for kind in vars(module).values():
        if inspect.isclass(kind) and _has_fields(kind) and kind.__module__ == module.__name__:
            yield kind


def _has_fields(kind: object) -> bool:
    return inspect.isclass(kind) and (
        dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or attrs.has(kind)
    )


def _unions(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the names of a module for one of several texts."""
    for name, hint in vars(module).items():
        if typing.get_origin(hint) is typing.Literal:
            yield name, hint


def _needed(kind: Any, seen: frozenset[type] = frozenset()) -> Iterator[type]:
    """Yield the types of a kind's fields, from wherever they are, then the kind itself."""
    for hint in typing.get_type_hints(kind).values():
        yield from (
            each
            for leaf in _leaves(hint)
            if _has_fields(leaf) and leaf is not kind and leaf not in seen
            for each in _needed(leaf, seen | {kind})
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
    return _named_union(
        kind.__name__, [member.value for member in kind], inspect.cleandoc(kind.__doc__ or "")
    )


def _union(name: str, hint: Any, module: types.ModuleType) -> str:
    comments = _comments_in(ast.parse(inspect.getsource(module)).body)
    return _named_union(name, typing.get_args(hint), comments.get(name, ""))


def _named_union(name: str, texts: Iterable[str], comment: str) -> str:
    values = [f'"{text}"' for text in texts]
    line = f"export type {name} = {' | '.join(values)};"
    if len(line) > _LONGEST:
        line = f"export type {name} =" + "".join(f"\n  | {value}" for value in values) + ";"
    return f"{_comment(comment, '')}{line}\n"


def interface(kind: type, unions: Mapping[Any, str] = MappingProxyType({})) -> str:
    """Return a type with fields in TypeScript; `unions` have names of their own. Raises UnknownTypeError."""
    if dataclasses.is_dataclass(kind):
        _refuse_defaults(kind)
    hints, comments = typing.get_type_hints(kind), _field_comments(kind)
    optional = _optional_fields(kind)
    # Python's own words end in `_`, as pygls names them.
    lines = [
        f"{_comment(comments.get(name, ''), '  ')}  readonly {name.rstrip('_')}{'?' if name in optional else ''}: "
        f"{type_of(hint, unions)};\n"
        for name, hint in hints.items()
    ]
    head = f"export interface {kind.__name__} {{\n"
    return f"{_comment(inspect.cleandoc(kind.__doc__ or ''), '')}{head}{''.join(lines)}}}\n"


def _refuse_defaults(kind: Any) -> None:
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            raise UnknownTypeError(
                f"{kind.__name__}.{field.name} has a default: the codec would leave it out"
            )


def _optional_fields(kind: Any) -> frozenset[str]:
    """Fields that a message may leave out: those of a request that have a default."""
    if not attrs.has(kind):
        return frozenset()
    return frozenset(field.name for field in attrs.fields(kind) if field.default is not attrs.NOTHING)


def _field_comments(kind: type) -> dict[str, str]:
    """Return the string after each field of a type and its bases, in which its meaning is written."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    comments: dict[str, str] = {}
    if isinstance(tree, ast.ClassDef):
        # By name: a TypedDict does not know its bases when it runs.
        named = [
            getattr(sys.modules[kind.__module__], base.id, None)
            for base in tree.bases
            if isinstance(base, ast.Name)
        ]
        for base in filter(_has_fields, named):
            comments |= _field_comments(typing.cast("type", base))
        comments |= _comments_in(tree.body)
    return comments


def _comments_in(statements: Iterable[ast.stmt]) -> dict[str, str]:
    """Return the string after each name that is defined."""
    comments = {}
    for defined, after in itertools.pairwise(statements):
        name = _defined_name(defined)
        if name and isinstance(after, ast.Expr):
            comments[name] = inspect.cleandoc(str(ast.literal_eval(after.value)))
    return comments


def _defined_name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def _comment(text: str, indent: str) -> str:
    if not text:
        return ""
    text = re.sub(r"\bNone\b", lambda match: "null" if match.start() else "Null", text)
    lines = text.replace("*/", "* /").splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def type_of(hint: Any, unions: Mapping[Any, str] = MappingProxyType({})) -> str:  # noqa: PLR0911 - one return a kind
    """Return a Python type in TypeScript; `unions` have names of their own. Raises UnknownTypeError."""
    arguments, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is typing.Literal and hint in unions:
        return unions[hint]
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(type_of(argument, unions) for argument in arguments))
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return f"readonly {_grouped(type_of(arguments[0], unions))}[]"
    if origin is tuple:
        return f"readonly [{', '.join(type_of(argument, unions) for argument in arguments)}]"
    if origin is dict and arguments[0] is str:
        return f"Readonly<Record<string, {type_of(arguments[1], unions)}>>"
    if _has_fields(hint) or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return str(hint.__name__)
    raise UnknownTypeError(f"no TypeScript type for {hint!r}")


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def main(arguments: Iterable[str]) -> int:
    """Write the files, or with `--check` say whether they are current; returns the exit code."""
    written = {output.path: text_of(output) for output in OUTPUTS}
    if "--check" not in arguments:
        for path, text in written.items():
            path.write_text(text, encoding="utf-8")
        return 0
    old = [
        path
        for path, text in written.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in old:
        print(
            f"{path.relative_to(ROOT)} is older than the types of the server: "
            "run `python scripts/message_types.py`"
        )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
