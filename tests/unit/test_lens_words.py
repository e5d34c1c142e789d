"""Where a lens says that inputs come from."""

from __future__ import annotations

import pytest

from fuselight.report import Call, Inputs, Location, Rung
from fuselight_server.features.code_lens import inputs_words
from fuselight_server.kernels.words import line_numbers


@pytest.mark.parametrize(
    ("lines", "said"),
    [((), ""), ((3,), "line 3"), ((5, 3, 4), "lines 3-5"), ((1, 2, 2, 7, 9, 10), "lines 1-2, 7, 9-10")],
)
def test_neighbouring_lines_are_a_range(lines: tuple[int, ...], said: str) -> None:
    assert line_numbers(lines) == said


def test_several_directives_are_all_named() -> None:
    calls = tuple(Call(index, "f()", Location("m.py", line)) for index, line in enumerate((16, 17, 18)))
    assert inputs_words(Inputs(Rung.DIRECTIVE, "m.py", 16, calls)) == "inputs from lines 16-18"
    assert inputs_words(Inputs(Rung.DIRECTIVE, "m.py", 16)) == "inputs from line 16"
    assert inputs_words(Inputs(Rung.PROVIDER, "m.py")) == "inputs from a provider"
