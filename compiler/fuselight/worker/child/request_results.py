"""What the run of each kind of request adds to its report, besides what every run records.

Invariant: a result can be read at any time, because the report of a run that ends early is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fuselight.shared.report import Assembled, Measured, Problem, ReleaseOutputs, Report, Tuned, Verification

if TYPE_CHECKING:
    from fuselight.capture.dynamo import Parts
    from fuselight.capture.inductor import Generation
    from fuselight.capture.prims.paths import OperatorPaths


class RequestResult:
    """The result of a request that adds nothing."""

    @property
    def problems(self) -> Iterable[Problem]:
        """What could not be learned."""
        return ()

    @property
    def texts(self) -> Mapping[str, str]:
        """Sources of kernels, by key."""
        return {}

    @property
    def libraries(self) -> Iterable[str]:
        """Installed modules that other processes of this run have imported."""
        return ()

    @property
    def recorded(self) -> Parts | None:
        """What the recorder had when the calls of the report ended; None: all that it has."""
        return None

    def complete_report(self, report: Report) -> Report:
        """Add the result to what the run has recorded."""
        return report

    def final(self, report: Report) -> Report:
        """Change the whole report of a run that has ended."""
        return report


@dataclass(frozen=True)
class GeneratedKernels(RequestResult):
    """Tier kernels: what Inductor generates."""

    generation: Generation

    @property
    def problems(self) -> Iterable[Problem]:
        """As in RequestResult."""
        return self.generation.problems

    @property
    def texts(self) -> Mapping[str, str]:
        """As in RequestResult."""
        return self.generation.texts

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, generated=tuple(self.generation.graphs))


@dataclass(frozen=True)
class DecomposedOperators(RequestResult):
    """The paths of operators to their decompositions."""

    operators: OperatorPaths

    @property
    def problems(self) -> Iterable[Problem]:
        """As in RequestResult."""
        return self.operators.problems

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, operators=tuple(self.operators.paths))


@dataclass(frozen=True)
class AssembledKernels(RequestResult):
    """Kernels that Triton compiled, by the key of their source."""

    assembled: dict[str, Assembled] = field(default_factory=dict)

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, assembled=dict(self.assembled))


@dataclass
class VerifiedCalls(RequestResult):
    """The calls of a text, compared with those of the text before a fix."""

    verification: Verification | None = None
    """None before the first comparison."""
    recorded_calls: Parts | None = None
    """What the recorder had when the recorded calls ended, if further calls follow."""

    @property
    def recorded(self) -> Parts | None:
        """As in RequestResult."""
        return self.recorded_calls

    @property
    def so_far(self) -> Verification:
        """The comparisons so far, perhaps none."""
        return self.verification or Verification()

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, verification=self.verification)


@dataclass
class ComparedOutputs(RequestResult):
    """The results of the target with this release of torch, compared with those of an earlier one."""

    outputs: ReleaseOutputs

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, outputs=self.outputs)


@dataclass
class TimedResult(RequestResult):
    """Tiers measured and tuned: the result of the coordinator, and the report of a configuration's process."""

    measured: Measured | None = None
    tuned: Tuned | None = None
    captured: Report | None = None
    """The report of one configuration's process."""
    imported: list[str] = field(default_factory=list)
    """Installed modules that the processes of the configurations have imported."""

    @property
    def libraries(self) -> Iterable[str]:
        """As in RequestResult."""
        return self.imported

    def complete_report(self, report: Report) -> Report:
        """Return the report of one configuration's process with the measurements of the whole run."""
        report = replace(report, measured=self.measured, tuned=self.tuned)
        captured = self.captured
        if captured is None:
            return report
        return replace(
            captured,
            tier=report.tier,
            measured=report.measured,
            tuned=report.tuned,
            failures=(*captured.failures, *report.failures),
            notes=tuple(dict.fromkeys((*captured.notes, *report.notes))),
            problems=tuple(dict.fromkeys((*captured.problems, *report.problems))),
            phases=report.phases,
        )
