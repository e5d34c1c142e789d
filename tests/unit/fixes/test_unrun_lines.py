"""Which changed lines no call has run."""

from __future__ import annotations

import pytest

from fuselight.shared.report import LinesRun, Verification
from fuselight_server.fixes.verification.unrun_lines import lines_not_run

OLD = """\
import torch

SCALE = 2


def f(x, mode="mean"):
    '''Reduce.'''
    if mode == "sum":
        return x.sum(-1)
    total: int
    for row in x:
        x = x + row
    else:
        x = x * SCALE
    try:
        return x.mean(
            -1
        )
    except ValueError:
        return x
"""


def missing(old: str, new: str, *ran: tuple[int, ...] | None) -> list[int]:
    runs = [Verification(lines_run=() if lines is None else (LinesRun("m.py", lines),)) for lines in ran]
    return [line.line for line in lines_not_run({"m.py": old}, {"m.py": new}, runs)[0]]


@pytest.mark.parametrize(
    ("before", "after", "ran", "expected"),
    [
        ("return x.sum(-1)", "return x.sum(0)", (8, 10, 11), [9]),
        ("return x.sum(-1)", "return x.sum(0)", (8, 9), []),
        ('if mode == "sum":', 'if mode == "all":', (11,), [8]),
        ("        x = x * SCALE", "        x = x / SCALE", (8, 11, 12), [14]),
        ("            -1", "            0", (16,), []),
        ("            -1", "            0", (17,), []),
        ("            -1", "            0", (8,), [16]),
        ("    except ValueError:\n        return x", "    except ValueError:\n        return -x", (8,), [20]),
        ("    except ValueError:", "    except TypeError:", (8,), []),
        ("'''Reduce.'''", "'''Reduce x.'''", (8,), []),
        ("total: int", "total: float", (8,), []),
        ("SCALE = 2", "SCALE = 3", (8,), []),
        ("import torch", "# torch\nimport torch", (9,), []),
        ("        return x\n", "        return x\n\n\ndef unused(x):\n    return x\n", (8,), [24]),
    ],
)
def test_a_changed_statement_that_did_not_run_is_named(
    before: str, after: str, ran: tuple[int, ...], expected: list[int]
) -> None:
    assert OLD.count(before) >= 1
    assert missing(OLD, after.join(OLD.rsplit(before, 1)), ran) == expected


def test_what_any_run_has_run_has_run() -> None:
    new = OLD.replace("x.sum(-1)", "x.sum(0)")
    assert missing(OLD, new, (8, 10), (9,)) == []
    assert missing(OLD, new, (8, 10), (8,)) == [9]


def test_where_it_is_not_known_what_ran_nothing_is_said() -> None:
    new = OLD.replace("x.sum(-1)", "x.sum(0)")
    assert missing(OLD, new) == []
    assert missing(OLD, new, None) == []
    assert missing(OLD, new, (8,), None) == []
    assert missing(OLD, "def f(:\n", (8,)) == []


@pytest.mark.parametrize("decorator", ["triton.jit", "torch.jit.script", "numba.njit(cache=True)", "jit"])
def test_source_that_another_compiler_reads_is_no_line_of_python(decorator: str) -> None:
    new = f"@{decorator}\ndef kernel(x):\n    return x * 2\n"
    assert missing(new.replace("2", "3"), new, ()) == []
    assert missing("", new.replace(f"@{decorator}\n", ""), ()) == [2]


@pytest.mark.parametrize(
    ("before", "after", "old_ran", "expected"),
    [
        ('    if mode == "sum":\n        return x.sum(-1)\n', "", (8, 11), [9]),
        ('    if mode == "sum":\n        return x.sum(-1)\n', "", (8, 9), []),
        ("    else:\n        x = x * SCALE\n", "", (8, 11, 12), [14]),
        ("        x = x * SCALE\n", "        x = x / SCALE\n", (8, 11, 12), [14]),
        ("SCALE = 2\n", "", (8,), []),
    ],
)
def test_a_deleted_statement_that_did_not_run_is_named(
    before: str, after: str, old_ran: tuple[int, ...], expected: list[int]
) -> None:
    new = OLD.replace(before, after)
    assert new != OLD
    runs = [Verification(old_lines_run=(LinesRun("m.py", old_ran),))]
    new_lines, old_lines = lines_not_run({"m.py": OLD}, {"m.py": new}, runs)
    assert new_lines == ()
    assert [line.line for line in old_lines] == expected


def test_what_only_compiled_calls_run_is_not_named() -> None:
    """Lines are watched in eager mode."""
    old = "def f(x):\n    return x\n"
    new = "def f(x):\n    if torch.compiler.is_compiling():\n        return x + 0\n    return x\n"
    assert missing(old, new, (2, 4)) == []
