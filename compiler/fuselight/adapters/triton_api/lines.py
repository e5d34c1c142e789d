"""Line maps: from a line of a compiler's output to the line of the Triton source that it comes from.

Invariant: the map has one number for each line of any text and never raises. A line whose origin is missing or in
another file has 0. Inlined code belongs to the innermost line of the source that led to it, so that a line of
`tl.sum` counts for the call of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fuselight.shared.report import file_name

_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$")
_USED = re.compile(r"loc\(")
_STEP = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d+|(#loc\d*)\b')
_METADATA = re.compile(r"^!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)")
_LINE = re.compile(r"\bline: (\d{1,9})\b")
_ATTACHED = re.compile(r"!dbg !(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"((?:[^"\\]|\\.)*)"\s+)?"((?:[^"\\]|\\.)*)"')
_LOCATION = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d{1,9})\b(?:[^/;]*?(?://|;)(.*))?")
_IN_COMMENT = re.compile(r"([^\s@\[\]][^@\[\]]*?):(\d{1,9}):\d+")
_DISASSEMBLED = re.compile(r'^\s*//## File "([^"]*)", line (\d{1,9})')
_ENDS = re.compile(r"^\s*(?:\}|\.section\b|\.end_amdgpu|\.Lfunc_end|//-----)")
_NO_CODE = re.compile(r"^\s*(?:$|//|;|\.|[\w$.]+:(?!:))")
_DEPTH = 64
"""Links that are followed from one location: inlining goes a dozen deep, a damaged text may go in circles."""


def line_map(stage: str, text: str, file: str) -> tuple[int, ...]:
    """For each line of `text`, the text of `stage`, its line in `file`."""
    lines = text.split("\n")
    reader = _READERS.get(stage)
    return tuple(reader(lines, file)) if reader is not None else (0,) * len(lines)


def call_site(location: str, file: str) -> int:
    """The innermost line of `file` in a comment of LLVM's after `.loc`, as `a.py:7:1 @[ b.py:29:26 ]`; 0 for none."""
    name = file_name(file)
    return next((int(line) for path, line in _IN_COMMENT.findall(location) if file_name(path) == name), 0)


def _mlir(lines: list[str], file: str) -> Iterator[int]:
    """TTIR and TTGIR: the last `loc(...)` of a line is its operation's, those before are its arguments'."""
    defined = {match[1]: match[2] for line in lines if (match := _DEFINED.match(line))}
    known: dict[str, int] = {}

    def resolve(expression: str, depth: int) -> int:
        for match in _STEP.finditer(expression):
            path, line, link = match.groups()
            if link is None:
                line_number = int(line) if path == file else 0
            elif depth == 0:
                line_number = 0
            elif link in known:
                line_number = known[link]
            else:
                known[link] = 0  # a location that refers to itself ends here
                line_number = known[link] = resolve(defined.get(link, ""), depth - 1)
            if line_number:
                return line_number
        return 0

    for line in lines:
        starts = [match.end() for match in _USED.finditer(line)]
        if not starts or line.startswith("#"):
            yield 0
        else:
            yield resolve(line[starts[-1] :], _DEPTH)


def _llvm(lines: list[str], file: str) -> Iterator[int]:
    """LLVM IR: `!dbg !N` names a DILocation, whose scope names its file and whose `inlinedAt` the caller."""
    nodes = {match[1]: (match[2], match[3]) for line in lines if (match := _METADATA.match(line))}
    files = {
        number
        for number, (kind, fields) in nodes.items()
        if kind == "File" and _is(_word(fields, "directory"), _word(fields, "filename"), file)
    }
    known: dict[str, int] = {}
    for line in lines:
        attached = _ATTACHED.search(line)
        if attached is None or line.startswith(("!", "define")):
            yield 0
            continue
        if attached[1] not in known:
            known[attached[1]] = _located(attached[1], nodes, files)
        yield known[attached[1]]


def _located(number: str, nodes: dict[str, tuple[str, str]], files: set[str]) -> int:
    """The line of the DILocation `number`, or of the innermost one that it was inlined at, which is in `files`."""
    for _ in range(_DEPTH):
        kind, fields = nodes.get(number, ("", ""))
        if kind != "Location":
            break
        line = _LINE.search(fields)
        if line is not None and _scope_file(_link(fields, "scope"), nodes) in files:
            return int(line[1])
        number = _link(fields, "inlinedAt")
    return 0


def _scope_file(scope: str, nodes: dict[str, tuple[str, str]]) -> str:
    for _ in range(_DEPTH):
        _, fields = nodes.get(scope, ("", ""))
        number = _link(fields, "file")
        if number:
            return number
        scope = _link(fields, "scope")
    return ""


def _link(fields: str, name: str) -> str:
    match = re.search(rf"\b{name}: !(\d+)", fields)
    return match[1] if match else ""


def _word(fields: str, name: str) -> str:
    match = re.search(rf'\b{name}: "((?:[^"\\]|\\.)*)"', fields)
    return match[1] if match else ""


def _assembler(lines: list[str], file: str) -> Iterator[int]:
    """PTX and AMD's assembly: `.loc` applies to the instructions after it."""
    own = {match[1] for line in lines if (match := _FILE.match(line)) and _is(match[2], match[3], file)}
    current = 0
    for line in lines:
        located = _LOCATION.match(line)
        if located is not None:
            number, position, comment = located.groups()
            current = int(position) if number in own else call_site(comment or "", file)
        elif _ENDS.match(line):
            current = 0
        yield current if located is None and not _NO_CODE.match(line) else 0


def _is(directory: str | None, name: str, file: str) -> bool:
    return (f"{directory}/{name}" if directory else name).lstrip("/") == file.lstrip("/")


def _sass(lines: list[str], file: str) -> Iterator[int]:
    """Output of nvdisasm: a comment with file and line applies to the instructions after it."""
    current = 0
    for line in lines:
        located = _DISASSEMBLED.match(line)
        if located is not None:
            current = int(located[2]) if located[1].lstrip("/") == file.lstrip("/") else 0
        elif _ENDS.match(line):
            current = 0
        yield current if re.match(r"^\s*/\*[0-9a-f]+\*/", line) else 0


_READERS: dict[str, Callable[[list[str], str], Iterator[int]]] = {
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _assembler,
    "amdgcn": _assembler,
    "sass": _sass,
}
