"""Data of others is parsed within bounds: depth, bytes, and one kind of error for any damage."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from fuselight.shared.foreign_data import (
    MAX_DEPTH,
    parse_json,
    parse_literal,
    parse_python,
    unpack,
    unpack_line,
)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 1_200, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("is_bytes", [False, True])
def test_json_that_is_nested_too_deeply_is_an_error(
    depth: int, opening: str, closing: str, *, is_bytes: bool
) -> None:
    text = f"{opening * depth}1{closing * depth}"
    with pytest.raises(ValueError, match=f"nested more than {MAX_DEPTH} deep"):
        parse_json(text.encode() if is_bytes else text)


def test_json_within_the_bounds_is_read() -> None:
    values: list[object] = [1, "[[[" * 500, [[]] * 1_000, {"a": {"b": [1, {"c": []}]}}, None]
    for value in values:
        assert parse_json(json.dumps(value)) == value
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_json(deep)) == deep
    with pytest.raises(ValueError, match="Expecting"):
        parse_json("[1,")


@pytest.mark.parametrize(
    "text",
    [
        "a(",
        "\0",
        "(" * 1_000,
        "-" * 50_000 + "1",
        "x = " + "[" * 5_000,
        "a" + ".a" * 50_000,
        b"\xff",
        "if:\n" * 9,
    ],
)
def test_what_is_not_python_is_a_syntax_error(text: str | bytes) -> None:
    with pytest.raises(SyntaxError):
        parse_python(text)


def test_python_is_parsed() -> None:
    assert parse_python("x + 1", mode="eval").body
    assert len(parse_python("x = 1\ny = 2\n").body) == 2


@pytest.mark.parametrize(
    "text", ['"" + ' + "(" * 500 + '""', "[" * 300, "f()", "{[]: 1}", "1 +", "9" * 10_000, "-" * 9_000 + "1"]
)
def test_what_is_no_literal_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_literal(text)
    assert parse_literal("b'a\\303'") == b"a\xc3"


def test_a_small_file_that_unpacks_to_a_large_one_is_an_error() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    with pytest.raises(OSError, match="larger than 1,024 bytes"):
        unpack(io.BytesIO(bomb), 1024)
    assert unpack_line(io.BytesIO(bomb), 10) == bytes(10)
    assert unpack(io.BytesIO(gzip.compress(b"a\nb")), 3) == b"a\nb"
    assert unpack_line(io.BytesIO(gzip.compress(b"a\nb")), 100) == b"a\n"


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b", b"not packed", gzip.compress(b"x" * 1000, mtime=0)[:-9]])
def test_damaged_packed_data_is_one_kind_of_error(data: bytes) -> None:
    if data:
        with pytest.raises(OSError, match=r"Not a gzipped|damaged or cut"):
            unpack(io.BytesIO(data), 10_000)
    else:
        assert unpack(io.BytesIO(data), 10) == b""
