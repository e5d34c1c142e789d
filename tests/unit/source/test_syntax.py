"""A chunk that is too large to parse at once gives the same result as if it were parsed at once."""

from __future__ import annotations

from typing import Any

import pytest
from tree_sitter import Language, Parser

from fuselight_server.source import syntax

METHOD = """\
    @torch.compile(dynamic=True)
    def step{n}(self, x: torch.Tensor, *, scale: float = {n}.5):
        # fuselight: ignore[GB{n:04}]
        fast{n} = torch.compile(self.net{n})
        self.net{n}.compile()
        def inner(y):
            {last}
        return [fast{n}(v) for v in "é" + inner(x)]
"""


LARGE = 131_072
"""Half of what counts as large, for half as long a text: what is held is how slices are joined."""


def large_class(*, broken: bool = False) -> bytes:
    methods = [
        METHOD.format(n=n, last="yield y" if n % 3 else "return [y" if broken and n == 348 else "return y")
        for n in range(700)
    ]
    return ("class Net(torch.nn.Module):\n" + "".join(methods)).encode()


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_slices_equal_the_full_file(monkeypatch: pytest.MonkeyPatch, *, broken: bool) -> None:
    monkeypatch.setattr(syntax, "_LARGE", LARGE)
    data = large_class(broken=broken)
    assert len(data) > LARGE, "the test needs a chunk that is sliced"
    sliced = syntax.read_chunk(data)
    monkeypatch.setattr(syntax, "_LARGE", len(data) + 1)
    whole = syntax.read_chunk(data)
    assert len(sliced.definitions) > 1_300
    assert sliced.definitions == whole.definitions
    assert sliced.bindings == whole.bindings
    assert sliced.compile_calls == whole.compile_calls
    assert sliced.comments == whole.comments
    assert (sliced.error is not None) is (whole.error is not None) is broken


def test_other_threads_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax, "_LARGE", LARGE)
    data = large_class()
    asked: list[int] = []

    class Watched:
        def __init__(self, language: Language) -> None:
            self._parser = Parser(language)

        def parse(self, source: Any, parsed: Any = None, **options: Any) -> object:
            if parsed is not None:
                return self._parser.parse(source, parsed)  # reuses the tree: there is nothing left to parse
            if not callable(source):
                raise TypeError("a large chunk went in as a whole")

            def watched(byte: int, point: object) -> bytes:
                asked.append(byte)
                part: bytes = source(byte, point)
                assert len(part) <= syntax._SLICE
                return part

            return self._parser.parse(watched, **options)

    monkeypatch.setattr(syntax, "Parser", Watched)
    syntax.read_chunk(data)
    assert len(asked) >= len(data) // syntax._SLICE
