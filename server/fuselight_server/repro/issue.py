"""The text of an issue for a small program: what, expected, actual, versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.repro.model import Observed
from fuselight_server.repro.text import operators_of, script_of, what_differs

if TYPE_CHECKING:
    from fuselight.shared.report import ScriptOutcome
    from fuselight_server.repro.model import SmallProgram

_MAX_OPERATORS = 4
_MAX_TEXT = 1500


@dataclass(frozen=True)
class ConfirmedProgram:
    """A program that a new process of Python has confirmed."""

    program: SmallProgram
    fault: ScriptOutcome
    """Of the run that shows the fault."""
    stage: str = ""
    """The stage of the compiler, in words; empty if it is not known."""
    setting: str = ""
    """A setting of torch with which the fault does not show; empty if none is known."""

    @property
    def script(self) -> str:
        """The file."""
        return script_of(self.program)

    @property
    def line_count(self) -> int:
        """Lines of the file."""
        return self.script.count("\n")

    @property
    def title(self) -> str:
        """As a title of an issue: `torch.compile returns other results than eager mode: torch.acosh`."""
        names = operators_of(self.program)[:_MAX_OPERATORS]
        what = what_differs(self.program)
        return f"torch.compile: {what}{': ' if names else ''}{', '.join(names)}"


def issue_of(confirmed: ConfirmedProgram, releases: str = "") -> str:
    """The issue as Markdown. `releases`: in which releases of torch it is, in words."""
    program = confirmed.program
    is_failure = program.observed is Observed.FAILURE
    expected = "It compiles: eager mode runs the function." if is_failure else "The results of eager mode."
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
