"""What the findings and counts of a run depend on besides the code: the release of torch, and its settings.

Invariant: nothing is said of conditions that were not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight_server.base.formatting import format_list

_NESTED = "nested_graph_breaks"
_COMPILER = "compiler."


@dataclass(frozen=True)
class TraceConditions:
    """The release of torch, as `2.13`, and the settings that differ from its defaults."""

    torch: str = ""
    """Empty if it is unknown."""
    settings: dict[str, str] | None = None
    """Name to repr, as in a Report; None if they are unknown."""

    def changes_since(self, earlier: TraceConditions) -> tuple[str, ...]:
        """How they differ from those of an earlier run: `torch was 2.13, now 2.15`."""
        return tuple(self._changes(earlier))

    def _changes(self, earlier: TraceConditions) -> Iterator[str]:
        if self.torch and earlier.torch and self.torch != earlier.torch:
            yield f"torch was {earlier.torch}, now {self.torch}"
        if self.settings is None or earlier.settings is None:
            return
        for name in sorted({*self.settings, *earlier.settings}):
            before, now = (
                each.settings.get(name, "its default")
                for each in (earlier, self)
                if each.settings is not None
            )
            if before != now:
                yield f"`{_full(name)}` was {before}, now {now}"

    def notes(self, earlier: TraceConditions | None) -> list[str]:
        """Say what a count depends on besides the code: what changed since an `earlier` run, or a setting."""
        changes = self.changes_since(earlier) if earlier is not None else ()
        if changes:
            return [f"Changed since the baseline: {format_list(changes)}"]
        if (self.settings or {}).get(_NESTED) == "True":
            return [f"`{_full(_NESTED)}` is on: a break in a called function leaves another number of graphs"]
        return []


def conditions_of(report: Report) -> TraceConditions:
    """The conditions of the run of one target."""
    torch = ".".join((report.versions.torch or "").split(".")[:2])
    return TraceConditions(torch, report.environment.config)


def changes_of_targets(
    now: Mapping[str, TraceConditions], earlier: Mapping[str, TraceConditions]
) -> tuple[str, ...]:
    """How the conditions of targets, by name, differ from those of earlier runs of the same targets, each once."""
    both = (name for name in now if name in earlier)
    return tuple(dict.fromkeys(text for name in both for text in now[name].changes_since(earlier[name])))


def _full(name: str) -> str:
    """The setting as a program writes it."""
    return (
        f"torch.{name.replace(_COMPILER, 'compiler.config.', 1)}"
        if name.startswith(_COMPILER)
        else f"torch._dynamo.config.{name}"
    )
