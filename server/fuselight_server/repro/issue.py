"""The text of an issue for a small program: what, expected, actual, versions."""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report import ScriptOutcome
from fuselight_server.repro.model import Observed, SmallProgram
from fuselight_server.repro.source_program import WHAT, SourceProgram, Tracing
from fuselight_server.repro.text import operators_of, script_of, what_differs

_MAX_OPERATORS = 4
_MAX_TEXT = 1500
_MAX_TITLE = 120
_EXPECTED: dict[Observed | Tracing, str] = {
    Observed.FAILURE: "It compiles: eager mode runs the function.",
    Tracing.FAILURE: "It compiles: eager mode runs the function.",
    Tracing.BREAK: "One graph: eager mode runs the function.",
    Tracing.HANG: "It compiles in a time as for other functions of this size: eager mode runs the function.",
}


@dataclass(frozen=True)
class ConfirmedProgram:
    """A program that a new process of Python has confirmed."""

    program: SmallProgram | SourceProgram
    fault: ScriptOutcome
    """Of the run that shows the fault."""
    stage: str = ""
    """The stage of the compiler, in words; empty if it is not known."""
    setting: str = ""
    """A setting of torch with which the fault does not show; empty if none is known."""

    @property
    def script(self) -> str:
        """The file."""
        return script_of(self.program) if isinstance(self.program, SmallProgram) else self.program.script

    @property
    def line_count(self) -> int:
        """Lines of the file."""
        return self.script.count("\n")

    @property
    def title(self) -> str:
        """As a title of an issue: `torch.compile returns other results than eager mode: torch.acosh`."""
        if not isinstance(self.program, SmallProgram):
            line = (
                self.fault.text.strip().partition("\n")[0]
                if self.program.observed is not Tracing.HANG
                else ""
            )
            if len(line) > _MAX_TITLE:
                line = f"{line[: _MAX_TITLE - 1]}…"
            return f"torch.compile: {WHAT[self.program.observed]}{': ' if line else ''}{line}"
        names = operators_of(self.program)[:_MAX_OPERATORS]
        what = what_differs(self.program)
        return f"torch.compile: {what}{': ' if names else ''}{', '.join(names)}"


def issue_of(confirmed: ConfirmedProgram, releases: str = "") -> str:
    """The issue as Markdown. `releases`: in which releases of torch it is, in words."""
    program = confirmed.program
    expected = _EXPECTED.get(program.observed, "The results of eager mode.")
    lines = [f"# {confirmed.title}", "", "## Program", "", "```python", confirmed.script.rstrip(), "```", ""]
    lines += ["## Expected", "", expected]
    lines += [
        "",
        "## Actual",
        "",
        f'With `backend="{program.backend}"`:',
        "",
        "```",
        _shown(confirmed),
        "```",
    ]
    if confirmed.stage:
        lines += ["", f"Begins in {confirmed.stage}. `python repro.py eager` ends with exit status 0."]
    lines += ["", "## Versions", "", program.versions, ""]
    lines += [f"{releases}.", ""] if releases else []
    return "\n".join(lines)


def _shown(confirmed: ConfirmedProgram) -> str:
    parts = [confirmed.fault.printed.strip(), confirmed.fault.text.strip()]
    return "\n\n".join(part[:_MAX_TEXT] for part in parts if part).replace("```", "'''")
