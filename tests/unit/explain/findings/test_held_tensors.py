"""FL406: what held tensors when memory ran out, and what could not be allocated."""

from __future__ import annotations

from fuselight.shared.report import Culprit, Failure, Location, TensorHolder
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, report

REFUSED = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)


def failure(message: str, *holders: TensorHolder) -> Failure:
    return Failure(
        Culprit.USER,
        "memory",
        message,
        "use less",
        exception="RuntimeError",
        stack=(at(24),),
        holders=holders,
    )


def test_the_names_that_held_most_are_in_the_text_and_their_lines_are_related() -> None:
    losses = TensorHolder("losses", "list", 3_000_000_000, 12, "", Location(FILE, 9), 2_000_000_000)
    last = TensorHolder("self.last", "variable", 50_000_000, 1, "Net")
    (finding,) = findings(report(failures=(failure("killed", losses, last),)))
    assert (
        f"held by `losses` (3 GB: list of 12 tensors, 2 GB of it for their backward, {FILE.rpartition('/')[2]}:9), "
        "`self.last` in `Net` (50 MB: 1 tensor)." in " ".join(finding.message.split())
    )
    assert [(item.span.line, item.message) for item in finding.related] == [(9, "`losses` held 3 GB")]


def test_a_refused_allocation_says_how_much_was_requested() -> None:
    (finding,) = findings(report(failures=(failure(REFUSED),)))
    assert (finding.code, finding.title) == ("FL406", "out of memory: 4 TB were requested")
    assert "held by" not in finding.message
