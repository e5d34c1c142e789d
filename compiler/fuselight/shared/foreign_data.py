"""Data that others wrote, parsed within bounds: JSON, Python and packed bytes.

`foreign_files` bounds how many bytes are read. Invariant: what a parser makes of them is bounded, too, in depth and in
bytes, and damage of any kind is one kind of error; nothing that is parsed runs. Standard library only.
"""

from __future__ import annotations

import ast
import errno
import gzip
import itertools
import json
import re
import zlib
from typing import Any, BinaryIO, Literal, overload

MAX_DEPTH = 200
"""Lists and objects of JSON in each other: ours have twenty."""
MAX_PYTHON = 16 * 1024 * 1024
"""Bytes of a text that is parsed as Python: a tree takes a hundred times as many."""
_OPENING = re.compile(r"[\[{]")
_OPENING_BYTES = re.compile(rb"[\[{]")


class NestingError(ValueError):
    """The data is nested more deeply than anything of ours."""


def parse_json(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """The value of JSON. Raises ValueError; NestingError where it is nested too deeply."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise NestingError(f"the JSON is nested more than {max_depth} deep") from None
    openings = _OPENING.finditer(text) if isinstance(text, str) else _OPENING_BYTES.finditer(text)
    if next(itertools.islice(openings, max_depth, None), None) is not None:  # else it cannot be deeper
        _check_depth(value, max_depth)
    return value


def _check_depth(value: Any, max_depth: int) -> None:
    level = [value] if type(value) in {dict, list} else []
    for _ in range(max_depth):
        level = [
            item
            for above in level
            for item in (above.values() if type(above) is dict else above)
            if type(item) in {dict, list}
        ]
        if not level:
            return
    raise NestingError(f"the JSON is nested more than {max_depth} deep")


@overload
def parse_python(text: str | bytes, mode: Literal["exec"] = "exec") -> ast.Module: ...
@overload
def parse_python(text: str | bytes, mode: Literal["eval"]) -> ast.Expression: ...
def parse_python(text: str | bytes, mode: str = "exec") -> Any:
    """The syntax tree of Python, of which nothing runs. Raises SyntaxError for whatever has none."""
    if len(text) > MAX_PYTHON:
        raise SyntaxError(f"the text is larger than {MAX_PYTHON:,} bytes")
    try:
        return ast.parse(text) if mode == "exec" else ast.parse(text, mode=mode)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nested too deeply
        raise SyntaxError(str(error) or "the text is nested too deeply") from None


def try_parse_python(text: str | bytes) -> ast.Module | None:
    """The syntax tree of Python; None for whatever has none."""
    try:
        return parse_python(text)
    except SyntaxError:
        return None


def try_parse_expression(text: str | bytes) -> ast.expr | None:
    """The syntax tree of one expression; None for whatever has none."""
    try:
        return parse_python(text, "eval").body
    except SyntaxError:
        return None


def parse_literal(text: str | bytes) -> Any:
    """The value of a literal of Python. Raises ValueError."""
    try:
        return ast.literal_eval(parse_python(text, "eval"))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or "it is nested too deeply") from None


def unpack(file: BinaryIO, limit: int) -> bytes:
    """Unpack a gzip file of at most `limit` unpacked bytes, however small it is packed. Raises OSError."""
    data = _unpacked(file, limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes when it is unpacked")
    return data


def unpack_line(file: BinaryIO, limit: int) -> bytes:
    """Unpack the first line of a gzip file, at most `limit` bytes of it. Raises OSError."""
    return _unpacked(file, limit, is_line=True)


def _unpacked(file: BinaryIO, size: int, *, is_line: bool = False) -> bytes:
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            return packed.readline(size) if is_line else packed.read(size)
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EINVAL, f"the packed file is damaged or cut: {error}") from None
