"""Golden text inside the test: `expect(actual, \"\"\"...\"\"\")`.

Both sides are normalized. `pytest --update-golden` writes the actual text into the test's source, at the
end of the run. Invariant: without the flag nothing is written, and a difference fails.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path

updating = False
_updates: dict[Path, dict[tuple[int, int], str]] = {}

_NORMAL = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
    (re.compile(r"\b\d+\.\d+ s\b"), "N s"),
    (re.compile(r"torch \d+\.\d+\.\d+\S*"), "torch VERSION"),
    (re.compile(r"file://\S*/docs/"), "file://DOCS/"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)


def normal(text: str) -> str:
    """The text without parts that vary between runs."""
    for pattern, replacement in _NORMAL:
        text = pattern.sub(replacement, text)
    return text.strip("\n")


def expect(actual: str, expected: str) -> None:
    """Fail unless the texts agree; with the flag, record the text for the test's source instead."""
    seen, wanted = normal(actual), normal(textwrap.dedent(expected))
    if seen == wanted:
        return
    if updating:
        frame = sys._getframe(1)
        path = Path(frame.f_code.co_filename)
        _updates.setdefault(path, {})[_place(path, frame.f_lineno)] = seen
        return
    assert seen == wanted


def _place(path: Path, line: int) -> tuple[int, int]:
    """Line and column of the literal in the call that holds `line`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and node.lineno <= line <= (node.end_lineno or 0)
            and len(node.args) == 2
        ):
            last = node.args[1]
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                return last.lineno, last.col_offset
    raise AssertionError(f"{path}:{line}: expect() takes the text and a literal")


def write_updates() -> None:
    """Write the recorded texts into the tests' sources, last first, so that locations stay valid."""
    for path, texts in _updates.items():
        source = path.read_text(encoding="utf-8")
        constants = {
            (node.lineno, node.col_offset): node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant)
        }
        lines = source.splitlines(keepends=True)
        for place in sorted(texts, reverse=True):
            node = constants[place]
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            indent = " " * (len(lines[first]) - len(lines[first].lstrip()))
            head = lines[first].encode()[: node.col_offset].decode()
            tail = lines[last].encode()[node.end_col_offset :].decode()
            lines[first : last + 1] = [f"{head}{_literal(texts[place], indent)}{tail}"]
        path.write_text("".join(lines), encoding="utf-8")
    _updates.clear()


def _literal(text: str, indent: str) -> str:
    body = text.replace("\\", "\\\\").replace('"""', '\\"""')
    return '"""\\\n' + textwrap.indent(body, indent) + f'\n{indent}"""'
