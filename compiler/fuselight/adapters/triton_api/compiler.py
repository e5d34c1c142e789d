"""Compiles one request of Inductor's with Triton down to the binary, and reports why if it cannot.

Invariant: nothing is launched or loaded. If a stage fails, the results of earlier stages are kept. What Triton would
print about a failure goes into the failure's message and not to the terminal.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.lines import call_site, line_map

TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
"""Stages whose result is text."""
_LONGEST = 400
"""Characters of the compiler's words that are shown."""
_LOCATION = re.compile(
    r"^(\s*\.loc\s+)(\d+ \d+ \d+)(?:, function_name \S+ inlined_at (\d+ \d+ \d+))?(\s+//(.*))$", re.MULTILINE
)
_DIAGNOSTIC = re.compile(r"^(?:(.*?):(\d{1,9}):\d+: )?error: (.*)$", re.MULTILINE)
_PTXAS = re.compile(r"^ptxas\S* (?:\S+, line (\d{1,9}); )?(?:fatal|error)\s*: (.*)$", re.MULTILINE)


@dataclass
class CompiledKernel:
    """The results of the stages that succeeded, and the failure if there is one."""

    texts: dict[str, str] = field(default_factory=dict)
    binary: bytes | None = None
    shared: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    failure: str | None = None
    failure_line: int | None = None
    lasting: bool = True
    """Whether another attempt would give the same result: a full disk, for example, is not the kernel's fault."""


def compile_request(
    request: dict[str, Any], file: str, first_line: int, cache: str, read_output: Callable[[], str]
) -> CompiledKernel:
    """Compile inside of `virtual_driver`, whose folder is `cache`.

    `first_line` is that of the kernel's `def`; `read_output` gives what MLIR printed.
    """
    compiled = CompiledKernel()
    try:
        # Without the page that Triton prints when ptxas fails: the exception holds the same text.
        with _lines_kept(file), patched(names.nvidia_compiler(), "print", lambda *_, **__: None):
            kernel: Any = names.compile_(**request)
    except Exception as error:  # noqa: BLE001 - Triton, MLIR and Python raise what they like
        compiled.texts = dict(_left_in(cache))
        compiled.lasting = not isinstance(error, (OSError, MemoryError))
        origins = line_map("ptx", compiled.texts.get("ptx", ""), file)
        compiled.failure, compiled.failure_line = _explained(error, read_output(), file, first_line, origins)
        return compiled
    metadata = kernel.metadata
    compiled.texts = {stage: kernel.asm[stage] for stage in TEXTS if stage in kernel.asm}
    compiled.binary = kernel.kernel
    compiled.shared, compiled.num_warps = metadata.shared, metadata.num_warps
    compiled.num_stages = metadata.num_stages
    return compiled


@contextlib.contextmanager
def _lines_kept(file: str) -> Iterator[None]:
    """Have the assembler note the kernel's line for code inlined into it.

    Triton passes PTX on without the places that inlined code was called from: instructions of `tl.sum` would have the
    lines of Triton's library and no more. The comments that LLVM writes next to them hold the call sites.
    """
    knobs = names.knobs()
    theirs = getattr(knobs.runtime, "add_stages_inspection_hook", None)
    if not hasattr(knobs.runtime, "add_stages_inspection_hook"):
        yield
        return

    def hook(*arguments: Any) -> Any:
        answer = theirs(*arguments) if theirs is not None else ("", "")
        if not arguments:
            return f"{answer[0]}fuselight", f"{answer[1]}fuselight"
        stages = arguments[1]
        if "ptx" in stages:
            make: Callable[[Any, Any], str] = stages["ptx"]
            stages["ptx"] = lambda source, metadata: at_call_sites(make(source, metadata), file)
        return answer

    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = hook
        yield


def at_call_sites(ptx: str, file: str) -> str:
    """The PTX with each `.loc` of inlined code pointing at the line of `file` that led to it."""
    name = re.search(rf'^\s*\.file\s+(\d+)\s+"{re.escape(file)}"', ptx, re.MULTILINE)
    if name is None:
        return ptx

    own = f"{name[1]} "
    inlined_at: dict[str, str] = {}
    """Since Triton 3.8 a `.loc` itself names the place that it was inlined at, in the order in which calls nest."""

    def moved(match: re.Match[str]) -> str:
        head, at, caller, comment, words = match.groups()
        if at.startswith(own):
            return match[0]
        if caller is None:
            line = str(call_site(words, file) or "")
        else:
            inlined_at[at] = caller
            for _ in inlined_at:
                if caller.startswith(own):
                    break
                caller = inlined_at.get(caller, caller)
            line = caller.split()[1] if caller.startswith(own) else ""
        return f"{head}{own}{line} 0{comment}" if line else match[0]

    return _at_first_line(_LOCATION.sub(moved, ptx))


def _at_first_line(ptx: str) -> str:
    """The PTX with each block of inline assembly at the line at which it begins.

    Since Triton 3.8, LLVM counts up a line for each line of the assembly: a load would be lines below its own.
    """
    inside, first = False, ""
    lines = []
    for line in ptx.split("\n"):
        if line.strip() in {"// begin inline asm", "// end inline asm"}:
            inside, first = line.endswith("begin inline asm"), ""
        elif inside and _LOCATION.match(line):
            first = first or line
            line = first  # noqa: PLW2901 - the line is replaced
        lines.append(line)
    return "\n".join(lines)


def _explained(
    error: Exception, output: str, file: str, first_line: int, origins: tuple[int, ...]
) -> tuple[str, int | None]:
    """The compiler's own words, shortened, and the line of the source that they are about.

    `output` is what MLIR printed; `origins` the lines that those of the PTX come from.
    """
    raised_by_triton = names.compilation_error()
    if isinstance(error, raised_by_triton):
        # The innermost error has the words; the outermost has the line in the kernel and not in a library.
        line = getattr(error.node, "lineno", None)
        inner: BaseException = error
        while isinstance(inner, raised_by_triton) and inner.__cause__ is not None:
            inner = inner.__cause__
        words = inner.error_message if isinstance(inner, raised_by_triton) else str(inner)
        return short(words or str(inner)), first_line + line - 1 if line is not None else None
    for path, number, words in _DIAGNOSTIC.findall(output):
        return short(words), int(number) if path == file else None
    assembler = _PTXAS.search(str(error))
    if assembler is not None:
        place = int(assembler[1] or 0)
        line = origins[place - 1] if 0 < place <= len(origins) else 0
        return short(f"ptxas: {assembler[2]}"), line or None
    return short(f"{type(error).__name__}: {error}"), None


def short(words: str) -> str:
    """The message on one line, shortened to a readable length."""
    text = " ".join(words.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _left_in(cache: str) -> Iterator[tuple[str, str]]:
    """The texts that Triton had put into its cache before it failed."""
    for stage in TEXTS:
        for path in Path(cache).glob(f"*/*.{stage}"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                yield stage, path.read_text(encoding="utf-8")
