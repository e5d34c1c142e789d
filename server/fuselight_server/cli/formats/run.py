"""The processes of a program in the terminal: one report, and which process failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fuselight.shared.started_processes import ProcessEnd
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs import FindingStream, print_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.commands.run import process_remarks


def print_run(
    jobs: Sequence[OpenedJob],
    ends: Collection[ProcessEnd],
    terminal: Terminal,
    interrupted_at: float | None = None,
) -> None:
    """Print the report of all processes, then those that failed or whose logs end within a compile."""
    if jobs:
        print_jobs(jobs, FindingStream(terminal), terminal)
    for remark in process_remarks(jobs, ends, interrupted_at):
        terminal.print((remark.label, "bold red" if remark.failed else "bold"), f" {remark.text}.")
