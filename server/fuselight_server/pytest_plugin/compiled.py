"""What `fuselight_check` returns: numbers, findings and a forecast that explain themselves where an `assert` fails.

Invariant: a number is an `int` in everything but its repr, and pickles as one.
"""

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import Color, Terminal
from fuselight_server.cli.formats.findings import print_blocks
from fuselight_server.commands.accuracy_options import AccuracyPlan, accuracy_plan
from fuselight_server.commands.compile_checks import CompileCheck, causing, is_of_size
from fuselight_server.commands.trace_conditions import conditions_of
from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange
from fuselight_server.pytest_plugin.check_types import Explained
from fuselight_server.pytest_plugin.expectations import Expectation
from fuselight_server.pytest_plugin.finding_lines import finding_line
from fuselight_server.pytest_plugin.keywords import named_arguments, unknown_name
from fuselight_server.pytest_plugin.list_tuples import ListTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight.shared.report import Report
    from fuselight_server.commands.count_baseline import CountEntry
    from fuselight_server.pytest_plugin.checked_results import CheckedResults
    from fuselight_server.pytest_plugin.peak_memory import PeakMemory
    from fuselight_server.pytest_plugin.second_start import SecondStart

T = TypeVar("T")
S = TypeVar("S", bound="_CheckTuple[Any]")
_MAX_LINES = 5
"""Findings below a failed comparison: pytest shows eight lines of it."""
_WIDTH = 100
_ATTRIBUTES = (
    "graphs",
    "breaks",
    "recompiles",
    "findings",
    "forecast",
    "warm",
    "accuracy",
    "accuracy_with",
    "peak_memory",
    "outputs",
    "report",
    "expect",
)
CODES = {
    "graphs": ("GB", "FL1", "FL4"),
    "breaks": ("GB", "FL107", "FL404"),
    "recompiles": ("FL2", "FL102", "FL3"),
}
"""How the codes of findings begin that explain a number."""


class Count(int, Explained):
    """A number that a check has counted."""

    compiled: CompileResult
    what: str
    """The attribute that it is of: `graphs`."""
    _noun: str

    def __new__(cls, value: int, what: str, noun: str, compiled: CompileResult) -> Count:  # noqa: PYI034 - `Self` is younger than Python 3.10
        """A number with its noun in singular."""
        number = super().__new__(cls, value)
        number.what, number._noun, number.compiled = what, noun, compiled
        return number

    def __repr__(self) -> str:
        """`2 graphs of Net`."""
        return f"{format_count(int(self), self._noun)} of {self.compiled.label}"

    __str__ = int.__repr__

    def __format__(self, spec: str) -> str:
        """As the number."""
        return format(int(self), spec)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[int], tuple[int]]:
        """Travel between processes as the number alone."""
        return int, (int(self),)

    def explanation(self) -> list[str]:
        """List the findings, those that explain the number first."""
        return [*self.compiled.finding_lines(CODES[self.what]), *self.compiled.condition_notes()]


class _CheckTuple(ListTuple[T], Explained):
    """What a check has found, as a tuple that explains itself."""

    compiled: CompileResult

    @classmethod
    def of(cls: type[S], rows: Iterable[Any], compiled: CompileResult) -> S:  # noqa: PYI019 - typing.Self needs Python 3.11
        """What this check has found."""
        values = cls(rows)
        values.compiled = compiled
        return values

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[tuple[Any, ...]], tuple[Any, ...]]:
        """Travel between processes as a tuple."""
        return tuple, (tuple(self),)

    def explanation(self) -> list[str]:
        """List the findings of the check."""
        return self.compiled.finding_lines()


class Findings(_CheckTuple[Finding]):
    """The findings of a check."""

    @property
    def codes(self) -> Codes:
        """The code of each: `("GB0059", "FL201")`."""
        return Codes.of((finding.code for finding in self), self.compiled)

    def __repr__(self) -> str:
        """`2 findings of Net: model.py:8: GB0059 ...`."""
        listed = f": {'; '.join(map(finding_line, self))}" if self else ""
        return f"{format_count(len(self), 'finding')} of {self.compiled.label}{listed}"


class Codes(_CheckTuple[str]):
    """The codes of the findings of a check."""

    def __repr__(self) -> str:
        """`('GB0059',) of Net`."""
        return f"{tuple(self)!r} of {self.compiled.label}"


class Titles(_CheckTuple[str]):
    """Changes in words."""

    def __repr__(self) -> str:
        """`('the batch changes (x.size(0): 6 → 5)',) of Net`."""
        return f"{tuple(self)!r} of {self.compiled.label}"


class Changes(_CheckTuple[ExpectedChange]):
    """Changes of later calls that compile again, and what each costs."""

    @property
    def titles(self) -> Titles:
        """Each in words: `the batch changes (x.size(0): 6 → 5)`."""
        return Titles.of((change.title for change in self), self.compiled)

    @property
    def sizes(self) -> Changes:
        """Those of the sizes of tensors."""
        return Changes.of((change for change in self if is_of_size(change)), self.compiled)

    @property
    def likely(self) -> Changes:
        """Those that programs usually make: another batch size, another length."""
        return Changes.of((change for change in self if change.is_likely), self.compiled)

    def __repr__(self) -> str:
        """`1 change that compiles Net again: the batch changes (x.size(0): 6 → 5)`."""
        verb = "compiles" if len(self) == 1 else "compile"
        listed = f": {'; '.join(change.title for change in self)}" if self else ""
        return f"{format_count(len(self), 'change')} that {verb} {self.compiled.label} again{listed}"

    def explanation(self) -> list[str]:
        """List them, with what to do."""
        rows = [_change_line(change) for change in self[:_MAX_LINES]]
        return [*rows, *_more(len(self) - len(rows), "change")]


class CompileResult:
    """One check: a module or function was compiled and called."""

    def __init__(self, check: CompileCheck, outputs: tuple[Any, ...], label: str, number: int) -> None:
        """`label`: its name, which differs from those of the other checks of the test; `number`: from 1."""
        self.check = check
        self.outputs = outputs
        """What each call returned."""
        self.label = label
        self.number = number
        self.error: Exception | None = None
        self.start_twice: Callable[[CompileResult], SecondStart] | None = None
        self.compare_results: Callable[[CompileResult, dict[str, Any]], CheckedResults] | None = None
        self.estimate_memory: Callable[[CompileResult], PeakMemory] | None = None
        self.known_entry: Callable[[], CountEntry | None] = lambda: None
        """Reads its entry in the baseline, if there is one."""
        self.baseline: dict[str, CountEntry] = {}
        """Entries that the session writes into the baseline if the test passes."""

    def __repr__(self) -> str:
        """`<check of Net: 2 graphs, 1 break, 0 recompilations>`."""
        return f"<check of {self.label}: {self.check.counts}>"

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError, with the name that was probably meant."""
        __tracebackhide__ = True
        if name.startswith("_") or hasattr(type(self), name):
            return object.__getattribute__(self, name)  # the property's own error
        raise AttributeError(unknown_name("a check", name, _ATTRIBUTES))

    @property
    def report(self) -> Report:
        """Everything that was recorded (docs/report.md)."""
        return self.check.report

    @property
    def graphs(self) -> Count:
        """Graphs, each counted once however often it was compiled."""
        return Count(self.check.counts.graphs, "graphs", "graph", self)

    @property
    def breaks(self) -> Count:
        """Graph breaks, each line and cause counted once."""
        return Count(self.check.counts.breaks, "breaks", "break", self)

    @property
    def recompiles(self) -> Count:
        """How often something was compiled again."""
        return Count(self.check.counts.recompilations, "recompiles", "recompilation", self)

    @cached_property
    def findings(self) -> Findings:
        """All findings, as `fuselight check` shows them."""
        return Findings.of(self.check.findings, self)

    @property
    def forecast(self) -> Changes:
        """The changes of a later call that would compile again. Raises RuntimeError if nothing is known of them."""
        __tracebackhide__ = True
        if not self.check.has_forecast:
            reason = "nothing was compiled" if not self.graphs else "the calls change what its guards check"
            raise RuntimeError(
                f"there is no forecast of {self.label}: {reason}. `findings` lists the reasons."
            )
        return Changes.of((change for change in self.check.changes if change.recompiles), self)

    @cached_property
    def warm(self) -> SecondStart:
        """What a second start of the test compiles again. Runs the test twice, which takes as long as two sessions."""
        __tracebackhide__ = True
        if self.start_twice is None:
            raise RuntimeError("`warm` needs a check of a test.")
        return self.start_twice(self)

    @cached_property
    def accuracy(self) -> CheckedResults:
        """Whether its compiled calls give the results of eager mode. Runs the test again, more often if they do not."""
        __tracebackhide__ = True
        if self.compare_results is None:
            raise RuntimeError("`accuracy` needs a check of a test.")
        return self.compare_results(self, {})

    @cached_property
    def peak_memory(self) -> PeakMemory:
        """What its calls allocate at most, in eager mode and compiled: estimated. Runs the test again, alone."""
        __tracebackhide__ = True
        if self.estimate_memory is None:
            raise RuntimeError("`peak_memory` needs a check of a test.")
        return self.estimate_memory(self)

    @named_arguments(
        "accuracy_with()", 'It takes options by name. Write `against="default"` or `kernels=True`.'
    )
    def accuracy_with(
        self,
        *,
        against: str = "",
        kernels: bool = False,
        tries: str = "some",
        locate_seconds: float = AccuracyPlan.locate_seconds,
    ) -> CheckedResults:
        """As `accuracy`, with options of `fuselight accuracy`; each call of it runs the test again."""
        __tracebackhide__ = True
        if self.compare_results is None:
            raise RuntimeError("`accuracy_with` needs a check of a test.")
        options = {"against": against, "kernels": kernels, "tries": tries, "locate_seconds": locate_seconds}
        accuracy_plan(options)  # what does not fit is an error here, before a process is started
        return self.compare_results(self, options)

    @property
    def was_estimated(self) -> bool:
        """Whether `peak_memory` is known."""
        return "peak_memory" in vars(self)

    @property
    def was_compared(self) -> bool:
        """Whether `accuracy` is known."""
        return "accuracy" in vars(self)

    @property
    def was_started(self) -> bool:
        """Whether `warm` is known."""
        return "warm" in vars(self)

    @named_arguments("expect()", "It takes numbers by name. Write `graphs=1, breaks=0`.")
    def expect(
        self, *, graphs: int | None = None, breaks: int | None = None, recompiles: int | None = None
    ) -> CompileResult:
        """Fail the test unless these numbers were counted. Returns the check."""
        __tracebackhide__ = True
        values = {"graphs": graphs, "breaks": breaks, "recompiles": recompiles}
        Expectation.of(values, "expect()").check(self)
        return self

    def finding_lines(self, codes: tuple[str, ...] = ()) -> list[str]:
        """One line for each of the worst findings, those of `codes` first."""
        rows = causing(self.check, codes)
        lines = [finding_line(finding) for finding in rows[:_MAX_LINES]]
        return [*lines, *_more(len(rows) - len(lines), "finding")]

    def condition_notes(self) -> list[str]:
        """What its numbers depend on besides the code: a release or a setting that changed since the baseline."""
        known = self.known_entry()
        return conditions_of(self.report).notes(None if known is None else known.conditions)

    def findings_text(self) -> str:
        """The findings as `fuselight check` prints them."""
        stream = io.StringIO()
        print_blocks(
            self.check.findings, self.check.sources, Terminal(stream, color=Color.NEVER, width=_WIDTH)
        )
        return stream.getvalue().rstrip()


def _change_line(change: ExpectedChange) -> str:
    advice = f". {change.remedies[0]}" if change.remedies else ""
    return f"{change.title}: {change.cost}{advice}"


def _more(count: int, noun: str) -> list[str]:
    return [f"... and {format_count(count, f'more {noun}')}"] if count > 0 else []
