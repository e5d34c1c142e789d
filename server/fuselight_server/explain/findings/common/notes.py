"""FL601 to FL606: what the run did differently from the program as written, so that nobody is misled.

And FL101 of a `compile()` that has no effect.

Invariant: only notes that change how results are to be read are findings; the rest stay in the report.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import plain, sentence

_CODES = {
    "device_redirected": "FL601",
    "fake_tensors": "FL602",
    "writes_diverted": "FL603",
    "ended_early": "FL604",
    "cell_left_out": "FL605",
    "kernel_values_unknown": "FL606",
    "own_module": "FL101",
}
_MEANING = {
    "FL601": (
        "Breaks, guards and recompilations are those of the CPU run; code that checks the device may take a different "
        "path."
    ),
    "FL602": "Shapes and dtypes are real, values are not: code that reads values was not analyzed further.",
    "FL603": (
        "The files went to a temporary folder, where the program could read them, and which was deleted after the run. "
        "Press Run to execute the program with its writes."
    ),
    "FL604": "Code after this line was not analyzed. Press Run to execute the whole block.",
    "FL101": (
        "Before 2.14, torch starts no compile in its own code. "
        "Modules of your own classes inside this one are compiled, one by one."
    ),
    "FL605": "Names that this cell defines do not exist in the run. Fix its syntax, then run again.",
    "FL606": (
        "The tensors have numbers that are not the kernel's: code after this line that reads values, such as `.item()` "
        "or a branch on data, may do something else on a GPU. Fixes are not verified with them."
    ),
}


_HINTS = {
    "FL101": (
        (
            "Call torch.compile on the module and use the result: `model.encoder = torch.compile(model.encoder)`; "
            "the names of its parameters then have `_orig_mod` in them"
        ),
        "Or compile the module that calls it",
    )
}


def note_findings(context: Context) -> Iterator[Finding]:
    """The findings of the report's notes."""
    seen = set()
    for note in context.report.notes:
        code = _CODES.get(note.kind)
        home = context.innermost_user_frame((note.location,)) if note.location else None
        key = (code, note.text, home)
        if code is None or key in seen:
            continue
        seen.add(key)
        yield context.finding(
            code,
            plain(note.text).rstrip("."),
            sentence(plain(note.text)),
            _MEANING[code],
            at=home,
            cost=("its own operators run in eager mode",) if code == "FL101" else (),
            hints=_HINTS.get(code, ()),
        )
