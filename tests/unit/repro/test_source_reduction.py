"""Reduction of a program of source, with rules about its text in place of torch."""

from __future__ import annotations

import ast
import asyncio
import itertools
import re
from collections.abc import Callable

import pytest

from fuselight.shared.report import MARK, UNLESS_EAGER, RecordedCode, ScriptOutcome, ScriptState
from fuselight_server.repro import source_edits
from fuselight_server.repro.source_names import neutral_names, neutral_texts, renamed
from fuselight_server.repro.source_program import SourceProgram, Tracing, program_of_code
from fuselight_server.repro.source_reduction import SourceReduction

CODE = RecordedCode(
    """\
import torch
import math

LIMIT = 3

class Ledger:
    def total(self, entries, currency):
        note = "customer 42"
        for entry in entries:
            if entry > LIMIT:
                note = note + str(entry)
        return format(self.balance) + note

def unrelated(rows):
    return math.sqrt(rows)

value_1 = Ledger.__new__(Ledger)
value_1.balance = torch.rand((4, 8))
value_1.owner = "someone"
value_2 = [1, 2, 3]

def run_1(x0, x1):
    return value_1.total(x0, x1)""",
    "run_1",
    "value_2, 'EUR'",
    "InternalTorchDynamoError: ValueVariable() is not a constant",
)


class Stub:
    """torch, for a program that only has to run."""

    def rand(self, _shape: object) -> object:
        return object()

    ones = rand


def formats(text: str) -> bool:
    """Whether eager mode runs a program, which has Python format an object."""
    formatted: list[object] = []

    def record(value: object) -> str:
        formatted.append(value)
        return ""

    names = {"torch": Stub(), "format": record}
    try:
        exec(text.replace("import torch\n", ""), names)  # noqa: S102 - the text is ours
    except Exception:  # noqa: BLE001 - an edit may leave out anything
        return False
    return "import torch\n" in text and any(type(value) is object for value in formatted)


def reduced(
    code: RecordedCode,
    fails: Callable[[str], bool],
    observed: Tracing = Tracing.FAILURE,
    seconds: float = 1e6,
) -> tuple[SourceReduction, SourceProgram | None]:
    """Reduce with a compiler that fails on programs for which `fails` is true."""
    clock = itertools.count()

    async def trial(program: SourceProgram) -> ScriptOutcome:
        if not fails(program.text):
            return ScriptOutcome(ScriptState.RIGHT)
        return ScriptOutcome(ScriptState.FAULT, code.error, place="_dynamo/x.py: y")

    reduction = SourceReduction(trial, lambda: float(next(clock)), seconds)
    return reduction, asyncio.run(reduction.reduce([program_of_code(code, observed, "torch 2.13")]))


def test_what_the_fault_does_not_need_is_gone() -> None:
    _, program = reduced(CODE, formats)
    assert program is not None
    assert program.script.count("\n") <= 30
    for word in (
        "unrelated",
        "math",
        "LIMIT",
        "customer",
        "Ledger",
        "balance",
        "owner",
        "someone",
        "EUR",
        "total",
    ):
        assert word not in program.script, program.script
    compile(program.script, "repro.py", "exec")


def test_a_program_can_run_without_compiled_code_and_ends_with_the_mark() -> None:
    script = program_of_code(CODE, Tracing.FAILURE, "torch 2.13").script
    assert UNLESS_EAGER in script
    assert MARK in script
    assert script.endswith("\n")
    lines = script.splitlines()
    assert lines[lines.index(UNLESS_EAGER) + 1] == '    run_1 = torch.compile(run_1, backend="eager")'


def test_a_compile_that_does_not_end_is_ended_by_the_program() -> None:
    script = program_of_code(CODE, Tracing.HANG, "torch 2.13").script
    assert "faulthandler.dump_traceback_later(" in script
    assert script.index("dump_traceback_later") < script.rindex("run_1(")


def test_another_failure_is_not_taken() -> None:
    """A program that fails in another way has another fault."""

    async def trial(program: SourceProgram) -> ScriptOutcome:
        words = CODE.error if "math" in program.text else "TorchRuntimeError: shapes"
        return ScriptOutcome(ScriptState.FAULT, words)

    reduction = SourceReduction(trial, lambda: 0.0, 1.0)
    program = asyncio.run(reduction.reduce([program_of_code(CODE, Tracing.FAILURE, "")]))
    assert program is not None
    assert "math" in program.text


@pytest.mark.parametrize(
    ("first_text", "second_text", "same"),
    [
        ("KeyError: 'Ledger' at 0x7f01", "KeyError: 'A' at 0x9a22", True),
        ("AssertionError: 3 of 4", "AssertionError: 1 of 2", True),
        ("AssertionError: 3 of 4", "KeyError: 3 of 4", False),
        ("E: a\nof line 3", "E: a\nof line 4", True),
    ],
)
def test_names_and_numbers_are_no_part_of_an_error(first_text: str, second_text: str, *, same: bool) -> None:
    first, second = SourceProgram("class Ledger: pass\nLedger()"), SourceProgram("class A: pass\nA()")
    signatures = [
        program.signature(ScriptOutcome(ScriptState.FAULT, text))
        for program, text in ((first, first_text), (second, second_text))
    ]
    assert (signatures[0] == signatures[1]) is same


def test_the_function_of_torch_that_raises_is_part_of_an_error() -> None:
    program = SourceProgram("f()")
    here, there = (ScriptOutcome(ScriptState.FAULT, "E: a", place=place) for place in ("a.py: b", "a.py: c"))
    assert program.signature(here) != program.signature(there)


def test_a_spent_budget_keeps_the_smallest_so_far() -> None:
    reduction, program = reduced(CODE, formats, seconds=20)
    assert reduction.is_spent
    assert program is not None
    assert "format(self." in program.text


def test_nothing_that_fails_is_nothing() -> None:
    reduction, program = reduced(CODE, lambda _text: False)
    assert program is None
    assert reduction.refusals == ["right"]


def edits(source: str, kind: Callable[[ast.Module], object]) -> set[str]:
    """The texts of the edits of a kind."""
    texts = kind(ast.parse(source))
    return {ast.unparse(edit()) for edit in texts}  # type: ignore[attr-defined]


def test_statements_take_the_place_of_what_is_around_them() -> None:
    texts = edits("for i in y:\n    g()\nelse:\n    h()\nf()", source_edits.unwrapped)
    assert texts == {"g()\nf()", "h()\nf()"}


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("x = g(a, b)\nf()", {"x = a\nf()", "x = b\nf()", "x = g(a)\nf()", "x = g(b)\nf()"}),
        ("x = a + b\nf()", {"x = a\nf()", "x = b\nf()"}),
        ("x = [a, b]\nf()", {"x = [a]\nf()", "x = [b]\nf()"}),
        ("x = 7\nf()", {"x = 2\nf()"}),
        ("x = f'{a}b'\nf()", {"x = a\nf()"}),
        ("class A(B):\n    pass\nf()", {"class A:\n    pass\nf()"}),
        ("f(a)", {"f()"}),
    ],
)
def test_expressions_become_their_parts(source: str, texts: set[str]) -> None:
    assert texts <= edits(source, source_edits.simpler_expressions)


def test_a_parameter_that_is_not_used_goes_with_its_argument() -> None:
    source = "class A:\n    def g(self, x, y=1):\n        return x\na.g(1, 2)\nf(a.g(1, y=3))"
    texts = edits(source, source_edits.without_parameters)
    assert "class A:\n\n    def g(self, x):\n        return x\na.g(1)\nf(a.g(1))" in texts


def test_what_nothing_reads_is_gone_and_all_that_it_needed() -> None:
    source = "import math\na = 1\nb = a\nc.d = b\nclass C(B):\n    pass\nf(e)"
    assert ast.unparse(source_edits.without_unused(ast.parse(source))) == "f(e)"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a = 1\nb = a\nf(b, b)", "f(1, 1)"),
        ("a = g()\nf(a)", "f(g())"),
        ("a = g()\nf(a, a)", "a = g()\nf(a, a)"),
        ("a = g()\ndef h():\n    return a\nf(a)", "a = g()\n\ndef h():\n    return a\nf(a)"),
        (
            "a = 1\ndef h():\n    global a\n    a = 2\nf(a)",
            "a = 1\n\ndef h():\n    global a\n    a = 2\nf(a)",
        ),
    ],
)
def test_a_value_stands_where_its_variable_was(source: str, text: str) -> None:
    assert ast.unparse(source_edits.inlined(ast.parse(source))) == text


def test_one_name_stays_one_name() -> None:
    source = "import torch\ndef step(rate, rows=None):\n    return getattr(rows, 'rate')\nstep(1, rows=torch)"
    tree = ast.parse(source)
    text = ast.unparse(renamed(tree, neutral_names(tree), neutral_texts(tree)))
    assert text == "import torch\n\ndef f(x, y=None):\n    return getattr(y, 'x')\nf(1, y=torch)"


@pytest.mark.parametrize("seconds", [2, 3, 8])
def test_names_are_neutral_however_short_the_time_is(seconds: int) -> None:
    reduction, program = reduced(CODE, formats, seconds=seconds)
    assert reduction.is_spent
    assert program is not None
    assert not {"Ledger", "total", "customer", "owner"} & set(re.findall(r"\w+", program.script))
