"""The commands of IPython in a cell, replaced by Python that does nothing.

Invariant: a cell keeps its number of lines, and Python on a line keeps its columns. A command is found where a
statement begins, by the tokens before it: never within brackets, strings, comments or a continued line. No command
runs; a statement that `%time` or `%timeit` measures is Python, and stays.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

LINE_END = re.compile(r"\r\n|\n|\r")
MARKER = "# %% fuselight"
"""The line before each cell of a module's text. A cell has no such line: it would get a blank at its end."""

_PYTHON_CELLS = frozenset(
    {
        "capture",
        "fuselight",
        "memit",
        "prun",
        "pyinstrument",
        "scalene",
        "snakeviz",
        "time",
        "timeit",
        "wandb",
    }
)
"""Commands on the first line of a cell whose other lines are Python."""
_CELL = re.compile(r"\s*%%(?P<name>\w+)")
_COMMAND = re.compile(r"(?P<indent>[ \t]*)(?:[%!?]|[,;/](?=[A-Za-z_]))")
"""No statement of Python begins with any of them."""
_HELP = re.compile(r"(?P<indent>[ \t]*)%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?\d+\])*\?\??\s*(?:;\s*)?$")
_TIMED = re.compile(
    r"(?P<indent>[ \t]*)(?P<command>%time(?:it)?(?:[ \t]+(?:-[nrp][ \t]*\d+|-[tcqov]+|--[\w-]+))*[ \t]+)(?=[^\s-])"
)
_ASSIGNED = re.compile(r"(?P<target>[ \t]*[^\W\d][\w.,\[\]'\" \t*]*=[ \t]*)[!%](?=\S)")
_TOKEN = re.compile(
    r"""(?P<comment>\#.*) | (?P<open>[rRbBuUfFtT]*(?P<quotes>\"{3}|'{3}))
      | (?P<string>\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*') | (?P<up>[(\[{]) | (?P<down>[)\]}])""",
    re.VERBOSE,
)
_CLOSER = {quotes: re.compile(r"(?:[^\\]|\\.)*?" + quotes) for quotes in ('"""', "'''")}
_NOTHING = "pass"
IPYTHON = "get_ipython"
"""The function that gives IPython. What a command gives is a call of it, as when IPython runs it."""


@dataclass(frozen=True)
class PythonCell:
    """The Python of a cell."""

    lines: tuple[str, ...]
    """As many as the cell has, without line ends."""
    commands: frozenset[int] = frozenset()
    """The 0-based lines that differ from the cell's: no edit of the Python can be made there."""
    first_row: int = 0
    """The first row after a command for the whole cell, as `%%time`: nothing can be put above it."""
    other: str = ""
    """The command that hands the whole cell to something else than Python, as `%%bash`; all lines are empty then."""


@functools.lru_cache(maxsize=1024)  # an editor asks for every cell at each keystroke
def python_of(text: str) -> PythonCell:
    """Return the Python of a cell in which IPython runs `text`."""
    lines = LINE_END.split(text)
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    command = _CELL.match(lines[first]) if first is not None else None
    if first is None or command is None:
        return _replaced(lines)
    if command["name"] not in _PYTHON_CELLS:
        return PythonCell(
            ("",) * len(lines), frozenset(range(len(lines))), len(lines), f"%%{command['name']}"
        )
    rest = _replaced(lines[first + 1 :])
    head = [*lines[:first], _NOTHING]
    commands = {first, *(first + 1 + row for row in rest.commands)}
    return PythonCell((*head, *rest.lines), frozenset(commands), first + 1)


def _replaced(lines: list[str]) -> PythonCell:
    """Replace the commands on lines of Python."""
    new: list[str] = []
    commands: set[int] = set()
    state = _Open()
    while len(new) < len(lines):
        row = len(new)
        line = lines[row]
        timed = _TIMED.match(line) if state == _Open() else None
        replacement = _replacement(line) if state == _Open() and timed is None else None
        if replacement is not None:
            end = _end_of_command(lines, row)
            new += [replacement, *[""] * (end - row - 1)]
            commands.update(range(row, end))
            continue
        if timed is not None or line == MARKER:
            commands.add(row)
        new.append(_statement_of(timed) if timed is not None else f"{line} " if line == MARKER else line)
        state = _state_after(new[row], state)
    return PythonCell(tuple(new), frozenset(commands))


def _statement_of(timed: re.Match[str]) -> str:
    """The statement that a command measures, where it is on its line."""
    width = len(timed["command"]) - len("; ")
    return f"{timed['indent']}{_NOTHING.ljust(width)}; {timed.string[timed.end() :]}"


def _replacement(line: str) -> str | None:
    """What stands for the command on a line that begins a statement; None for a line of Python."""
    command = _COMMAND.match(line) or (_HELP.match(line) if "?" in line else None)
    if command:
        return f"{command['indent']}{_NOTHING}"
    assigned = _ASSIGNED.match(line)
    if assigned:
        return f"{assigned['target']}{IPYTHON}()"
    return None


def _end_of_command(lines: list[str], row: int) -> int:
    """The row after a command, which a backslash continues."""
    while lines[row].endswith("\\") and row + 1 < len(lines):
        row += 1
    return row + 1


@dataclass(frozen=True)
class _Open:
    """What is open at the end of a line: brackets, a triple-quoted string, a backslash."""

    depth: int = 0
    quotes: str = ""
    continued: bool = False


def _state_after(line: str, state: _Open) -> _Open:
    position, depth = 0, state.depth
    if state.quotes:
        closed = _CLOSER[state.quotes].match(line)
        if closed is None:
            return state
        position = closed.end()
    while token := _TOKEN.search(line, position):
        position = token.end()
        if token["comment"]:
            return _Open(depth)
        if token["open"]:
            closed = _CLOSER[token["quotes"]].match(line, position)
            if closed is None:
                return _Open(depth, token["quotes"])
            position = closed.end()
        depth = max(0, depth + bool(token["up"]) - bool(token["down"]))
    return _Open(depth, continued=line.endswith("\\"))
