"""Every code of our own: its severity, its origin, its title and its page.

Invariant: each code here has a page in docs/findings, and each page has a code here (a test holds the two
together). torch's own GB ids are not listed: torch ships their texts, and torch's site has their pages.
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import fuselight_server
from fuselight_server.base.finding import Severity

_GB_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
_GB_ID = re.compile(r"GB(\d{4,})")
_CODES = 1024
"""Codes whose links are cached: a report from elsewhere may hold any number of codes."""


class Origin(enum.Enum):
    """What has to run before a code can be found. The values are the words of its page."""

    SOURCE = "reading the source"
    CAPTURE = "`fuselight check`"
    NOTEBOOK = "`fuselight check` of a notebook"
    SAVE = "a run on save"
    KERNELS = "`fuselight kernels`"
    MEASURED = "`fuselight bench`"
    RESULTS = "`fuselight accuracy` or `fuselight bench`"
    ACCURACY = "`fuselight accuracy`"
    RANKS = "`fuselight check --ranks`"
    JOB = "`fuselight open`"
    UPGRADE = "`fuselight upgrade`"


@dataclass(frozen=True)
class CodeInfo:
    """One code of ours."""

    code: str
    severity: Severity
    origin: Origin
    title: str
    """What the code means whatever the program, without a full stop."""

    @property
    def page(self) -> str:
        """File name of its page in docs/findings."""
        return f"{self.code}.md"


_HINT, _INFO, _WARNING, _ERROR = Severity
_SOURCE, _CAPTURE, _NOTEBOOK, _SAVE, _KERNELS, _MEASURED, _RESULTS, _ACCURACY, _RANKS, _JOB, _UPGRADE = Origin
CATALOGUE: dict[str, CodeInfo] = {
    entry.code: entry
    for entry in (
        CodeInfo("FL101", _WARNING, _CAPTURE, "not compiled: the frame was skipped"),
        CodeInfo("FL102", _WARNING, _CAPTURE, "no longer compiled: the recompile limit was reached"),
        CodeInfo("FL103", _WARNING, _CAPTURE, "not compiled: a generator"),
        CodeInfo("FL104", _INFO, _CAPTURE, "not compiled: disabled in the code"),
        CodeInfo(
            "FL105", _ERROR, _CAPTURE, "not compiled: the compiler failed and torch fell back to eager mode"
        ),
        CodeInfo("FL106", _HINT, _CAPTURE, "nothing to compile: no tensor operators"),
        CodeInfo("FL107", _WARNING, _CAPTURE, "graph break"),
        CodeInfo("FL201", _WARNING, _CAPTURE, "recompiled"),
        CodeInfo("FL202", _WARNING, _CAPTURE, "compiled code does not follow a change of the program"),
        CodeInfo("FL203", _WARNING, _CAPTURE, "many or slow guards"),
        CodeInfo("FL204", _INFO, _CAPTURE, "compiled code does not use the cache of a function"),
        CodeInfo("FL205", _WARNING, _CAPTURE, "compiled code does not make a change that eager mode makes"),
        CodeInfo("FL301", _WARNING, _CAPTURE, "a dynamic dimension was fixed to one size"),
        CodeInfo("FL302", _WARNING, _CAPTURE, "a dynamic number was fixed to one value"),
        CodeInfo("FL401", _ERROR, _CAPTURE, "the code raised an exception"),
        CodeInfo("FL402", _ERROR, _CAPTURE, "the compiler failed"),
        CodeInfo("FL403", _ERROR, _CAPTURE, "Fuselight failed"),
        CodeInfo("FL404", _ERROR, _CAPTURE, "graph break under fullgraph=True"),
        CodeInfo("FL405", _ERROR, _CAPTURE, "time limit exceeded"),
        CodeInfo("FL406", _ERROR, _CAPTURE, "out of memory"),
        CodeInfo("FL407", _ERROR, _CAPTURE, "the process was killed by a signal"),
        CodeInfo("FL408", _ERROR, _CAPTURE, "the code ended the process"),
        CodeInfo("FL409", _ERROR, _CAPTURE, "the run returned no readable result"),
        CodeInfo("FL410", _ERROR, _CAPTURE, "compiled code does not run an exception handler"),
        CodeInfo("FL501", _ERROR, _CAPTURE, "invalid directive"),
        CodeInfo("FL502", _HINT, _CAPTURE, "no example inputs"),
        CodeInfo("FL503", _WARNING, _SOURCE, "unused ignore comment"),
        CodeInfo("FL504", _ERROR, _CAPTURE, "the interpreter cannot run torch.compile"),
        CodeInfo("FL601", _INFO, _CAPTURE, "a missing device was replaced by the CPU"),
        CodeInfo("FL602", _INFO, _CAPTURE, "captured without data (on fake tensors)"),
        CodeInfo("FL603", _INFO, _SAVE, "a run on save did not write the program's files"),
        CodeInfo("FL604", _HINT, _SAVE, "a run on save ended before the end of the block"),
        CodeInfo("FL605", _HINT, _NOTEBOOK, "a cell of the notebook was left out of the run"),
        CodeInfo("FL606", _INFO, _CAPTURE, "the values that a Triton kernel writes are not known"),
        CodeInfo("FL607", _HINT, _CAPTURE, "not every access of a Triton kernel was checked"),
        CodeInfo("FL701", _INFO, _KERNELS, "no kernel is generated for an operator"),
        CodeInfo("FL702", _WARNING, _KERNELS, "not captured as a CUDA graph"),
        CodeInfo("FL703", _WARNING, _KERNELS, "the target device has no fast unit for a dtype"),
        CodeInfo("FL704", _WARNING, _KERNELS, "no kernels for a graph"),
        CodeInfo("FL705", _INFO, _KERNELS, "a graph break prevents fusing kernels"),
        CodeInfo("FL706", _INFO, _KERNELS, "a kernel that only copies"),
        CodeInfo("FL707", _INFO, _KERNELS, "a repeated block is compiled many times"),
        CodeInfo("FL801", _ERROR, _RESULTS, "compiled results differ from eager"),
        CodeInfo("FL802", _INFO, _MEASURED, "compiled code is slower than eager"),
        CodeInfo("FL803", _INFO, _ACCURACY, "NaN or infinity that eager mode has as well"),
        CodeInfo("FL911", _WARNING, _RANKS, "ranks compile different code"),
        CodeInfo("FL912", _ERROR, _RANKS, "ranks call different collectives"),
        CodeInfo("FL913", _WARNING, _RANKS, "only some ranks compile again"),
        CodeInfo("FL914", _WARNING, _JOB, "a compile did not end, or failed on some ranks"),
        CodeInfo("FL915", _INFO, _RANKS, "ranks compile for different values or shapes"),
        CodeInfo("FL916", _WARNING, _JOB, "ranks wait in a collective"),
        CodeInfo("FL917", _INFO, _CAPTURE, "a branch depends on the value of a collective"),
        CodeInfo("FL918", _WARNING, _RANKS, "ranks compile in different modes"),
        CodeInfo("FL921", _INFO, _JOB, "compiled again: the cache had no entry for the key"),
        CodeInfo("FL922", _WARNING, _JOB, "torch cannot cache this compile"),
        CodeInfo("FL931", _WARNING, _UPGRADE, "results change with another version of torch"),
        CodeInfo("FL932", _WARNING, _UPGRADE, "more kernels with another version of torch"),
        CodeInfo("FL933", _INFO, _UPGRADE, "another version of torch warns of this line"),
        CodeInfo("FL934", _WARNING, _UPGRADE, "slower with another version of torch"),
        CodeInfo("FL941", _ERROR, _CAPTURE, "a Triton kernel accesses memory outside of a tensor"),
        CodeInfo("FL942", _ERROR, _CAPTURE, "programs of a Triton kernel race for an element"),
        CodeInfo("FL943", _WARNING, _CAPTURE, "a Triton kernel leaves elements unwritten"),
        CodeInfo("FL944", _ERROR, _CAPTURE, "an offset of a Triton kernel overflows 32 bits"),
        CodeInfo("FL945", _INFO, _CAPTURE, "a Triton kernel uses few of the bytes that it fetches"),
        CodeInfo("FL946", _HINT, _CAPTURE, "Triton compiles a kernel again"),
        CodeInfo("FL947", _HINT, _CAPTURE, "the key of a Triton autotuner does not fit its sizes"),
        CodeInfo("FL948", _ERROR, _CAPTURE, "Triton kernels differ from their reference"),
        CodeInfo("FL949", _ERROR, _CAPTURE, "the first result of an autotuned Triton kernel is wrong"),
        CodeInfo("FL951", _WARNING, _JOB, "memory grows in every step"),
        CodeInfo("FL952", _ERROR, _JOB, "memory ran out"),
        CodeInfo("FL953", _INFO, _JOB, "memory in pieces between tensors"),
        CodeInfo("FL961", _ERROR, _CAPTURE, "a Triton kernel does not compile for the device"),
        CodeInfo("FL962", _INFO, _CAPTURE, "a Triton kernel spills registers"),
        CodeInfo("FL963", _HINT, _CAPTURE, "few warps of a Triton kernel fit on a multiprocessor"),
        CodeInfo("FL964", _HINT, _CAPTURE, "a Triton kernel accesses memory with narrow instructions"),
        CodeInfo("FL965", _INFO, _CAPTURE, "`tl.dot` without the fast matrix instructions"),
        CodeInfo("FL966", _HINT, _CAPTURE, "an unused argument makes Triton compile again"),
        CodeInfo("FL967", _INFO, _CAPTURE, "a Triton kernel computes in float64 without need"),
    )
}


def severity(code: str) -> Severity:
    """The severity of a code; a graph break is a warning unless its family says otherwise."""
    entry = CATALOGUE.get(code)
    return entry.severity if entry else Severity.WARNING


def origin(code: str) -> Origin:
    """The origin of a code; a capture finds graph breaks, which have torch's codes."""
    entry = CATALOGUE.get(code)
    return entry.origin if entry else Origin.CAPTURE


@functools.cache
def _pages() -> Path | None:
    """The folder of our pages: next to the package in a bundle or a wheel, at the top of a checkout."""
    package = Path(fuselight_server.__file__).resolve().parent
    for folder in (package / "docs" / "findings", package.parents[1] / "docs" / "findings"):
        if folder.is_dir():
            return folder
    return None


@functools.lru_cache(maxsize=_CODES)  # links are made with each publication of diagnostics, at each keystroke
def page_path(code: str) -> Path | None:
    """The page of one of our codes on this machine, None where the pages did not travel along."""
    folder, entry = _pages(), CATALOGUE.get(code)
    if folder is None or entry is None:
        return None
    path = folder / entry.page
    return path if path.is_file() else None


@functools.lru_cache(maxsize=_CODES)
def link(code: str) -> str | None:
    """URI of the page that explains `code`: torch's for a GB id, ours (a file) for the rest."""
    match = _GB_ID.fullmatch(code)
    if match:
        return f"{_GB_SITE}/gb{match.group(1)}.html"
    path = page_path(code)
    if path is None:
        return None
    rendered = path.with_suffix(".html")  # a wheel has it; an editor renders the text itself
    return (rendered if rendered.is_file() else path).as_uri()
