"""A small program that is made of Python source, for a fault in tracing: its text, and how it fails.

Invariant: the text ends with one call, `f(x, y)`, which the file compiles and makes; without compiled code it is the
same call.
"""

from __future__ import annotations

import ast
import enum
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import MARK, UNLESS_EAGER, RecordedCode, ScriptOutcome

TRIAL_SECONDS = 3.0
"""How long a compile that does not end is tried while its program shrinks."""
FINAL_SECONDS, FINAL_SECONDS_OF_CODE = 30.0, 60.0
"""When it is confirmed: of a trace, and of a backend, whose compilers of C++ a busy machine slows down."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\b(?:0x)?[\da-f]*\d[\da-f]*\b")


class Tracing(enum.Enum):
    """What is wrong with the trace of a program."""

    FAILURE = "failure"
    BREAK = "break"
    HANG = "hang"


@dataclass(frozen=True)
class SourceProgram:
    """Python source whose last statement is the call that is compiled."""

    text: str
    observed: Tracing = Tracing.FAILURE
    backend: str = "eager"
    options: tuple[str, ...] = ()
    """Further arguments of torch.compile, as `dynamic=True`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    """How the reason of a graph break begins; empty where the program ends with the first break."""
    expected: str = ""
    """How its error has to begin; empty if any is taken."""
    seconds: float = TRIAL_SECONDS
    """For a compile that does not end."""
    versions: str = ""

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The text as a tree, which nobody changes."""
        return parse_python(self.text)

    @property
    def script(self) -> str:
        """The file."""
        *body, last = self.tree.body
        if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
            raise TypeError("the last statement is not a call")
        call = last.value
        function, given = (
            ast.unparse(call.func),
            ast.unparse(ast.Call(ast.Name("f"), call.args, call.keywords))[1:],
        )
        return "\n".join([*self._head(), *_spaced(body), "", "", *self._tail(function, given)]) + "\n"

    def _head(self) -> Iterator[str]:
        yield f'"""torch.compile: {WHAT[self.observed]}."""'
        yield f"# {self.versions}"
        yield "# `python repro.py` ends with exit status 1, `python repro.py eager` (no compiled code) with 0."
        if self.observed is Tracing.HANG:
            yield "import faulthandler"
        yield "import sys"
        yield ""

    def _tail(self, function: str, given: str) -> Iterator[str]:
        yield from (f"{name} = {text}" for name, text in self.settings.items())
        yield "torch.manual_seed(0)"
        is_whole = self.observed is Tracing.BREAK and not self.reason
        asked = [f'backend="{self.backend}"', *(["fullgraph=True"] if is_whole else []), *self.options]
        yield UNLESS_EAGER
        yield f"    {function} = torch.compile({function}, {', '.join(asked)})"
        if self.observed is Tracing.HANG:
            yield f"faulthandler.dump_traceback_later({self.seconds:g}, exit=True)"
            yield f"{function}{given}"
            return
        yield "try:"
        yield f"    {function}{given}"
        yield "except Exception as error:"
        yield f'    sys.exit(f"{MARK}{{type(error).__name__}}: {{error}}")'
        if self.reason:
            yield 'for reason in torch._dynamo.utils.counters["graph_break"]:'
            yield f"    if {self.reason!r} in reason:"
            yield f'        sys.exit(f"{MARK}Unsupported: {{reason}}")'

    def signature(self, outcome: ScriptOutcome) -> str:
        """What two programs with the same fault have in common: type and first line of the error, and where in torch.

        Names of the program and numbers do not count.
        """
        if self.observed is Tracing.HANG:
            return ""
        line = outcome.text.strip().partition("\n")[0]
        own = names_of(self.tree)
        line = _WORD.sub(lambda word: "_" if word[0] in own else word[0], line)
        place = "" if self.reason else outcome.place
        return f"{_NUMBER.sub('0', line)} {place}"


WHAT = {
    Tracing.FAILURE: "compilation fails",
    Tracing.BREAK: "a graph break",
    Tracing.HANG: "compilation does not end",
}


def program_of_code(code: RecordedCode, observed: Tracing, versions: str) -> SourceProgram:
    """The recorded call as a program. Raises SyntaxError if its text is not Python."""
    text = f"{code.definitions}\n{code.function}({code.arguments})\n"
    return SourceProgram(ast.unparse(parse_python(text)), observed, versions=versions)


def names_of(tree: ast.AST) -> set[str]:
    """The names that a program defines: functions, classes, parameters, variables, attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return {name for name in names if not name.startswith("__")}


def _spaced(body: list[ast.stmt]) -> Iterator[str]:
    """The statements, with blank lines around definitions as Python's style guide wants them."""
    before: ast.stmt | None = None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    imports = (ast.Import, ast.ImportFrom)
    for statement in body:
        if before is not None and (isinstance(statement, kinds) or isinstance(before, kinds)):
            yield from ("", "")
        elif isinstance(before, imports) and not isinstance(statement, imports):
            yield ""
        yield ast.unparse(ast.Module([statement], []))
        before = statement
