"""The Python code of a notebook: its code cells as one program, without the commands of IPython.

Invariant: every line keeps its place. A statement that IPython times is kept, as it is Python; another command does
nothing. A cell of another language, and a cell whose commands cannot be replaced, become empty lines.
"""

from __future__ import annotations

import ast
import json
import re
import warnings

_COMMAND = re.compile(r"^([ \t]*)(?:[%!?].*|[\w.]+\?\??[ \t]*)$")
_ASSIGNED = re.compile(r"^([ \t]*[\w.,\[\] \t]+=[ \t]*)[%!].*$")
_TIMED = re.compile(r"^([ \t]*)%time(?:it)?[ \t]+(?!-)(\S.*)$")
_CELL = re.compile(r"\s*%%(\w+)")
_OF_PYTHON = frozenset({"time", "timeit", "capture", "prun"})
"""Commands on the first line of a cell whose other lines are Python."""
_MAY_HAVE_COMMANDS = re.compile(r"^[ \t]*[%!?]|=[ \t]*[%!]|\?[ \t]*$", re.MULTILINE)
_MOST_COMMANDS = 100
_LONGEST = 50_000
"""Characters of a cell in which commands are replaced."""


def code_of_notebook(text: str | bytes) -> str:
    """The code cells of a notebook as one text. Raises ValueError for a text that is no notebook."""
    try:
        cells = json.loads(text)["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return "\n\n".join(map(_python_of, codes))


def _python_of(cell: str) -> str:
    """A cell without commands, with as many lines."""
    if not _MAY_HAVE_COMMANDS.search(cell):
        return cell
    lines = cell.split("\n")
    empty = "\n" * (len(lines) - 1)
    whole = _CELL.match(cell)
    if len(cell) > _LONGEST or (whole is not None and whole[1] not in _OF_PYTHON):
        return empty
    for _ in range(_MOST_COMMANDS):
        number = _line_of_error("\n".join(lines))
        if number is None:
            return "\n".join(lines)
        if not 0 < number <= len(lines) or not _replace(lines, number - 1):
            break
    return empty


def _line_of_error(code: str) -> int | None:
    """The line that Python does not accept; None if there is none, 0 where Python does not say it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's escapes
            ast.parse(code)
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return 0
    return None


def _replace(lines: list[str], index: int) -> bool:
    """Replace the command on a line, and on those that continue it; false if it has none."""
    line = lines[index]
    timed = _TIMED.sub(r"\1\2", line)
    new = timed if timed != line else _ASSIGNED.sub(r"\1None", _COMMAND.sub(r"\1pass", line))
    if new == line:
        return False
    lines[index] = new
    while new is not timed and line.endswith("\\") and index + 1 < len(lines):
        index += 1
        line, lines[index] = lines[index], ""
    return True
