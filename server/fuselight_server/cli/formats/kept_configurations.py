"""What became of the autotuners whose fastest configurations are kept, for `fuselight kernels --keep-fastest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.base.formatting import format_place
from fuselight_server.commands.sources import shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.base.terminal import Terminal
    from fuselight_server.commands.fastest_configurations import KeptConfigurations


def print_kept(kept: Iterable[KeptConfigurations], terminal: Terminal) -> None:
    """Print one line for each autotuner."""
    rows = list(kept)
    for row in rows:
        location = row.winner.kernel.location
        place = format_place(shown_path(location.path), location.line)
        state = f"not written: {row.refusal}" if row.refusal else "written"
        terminal.print(f"{place}: {row.winner.title}: {state}")
    if not rows:
        terminal.print(
            "No autotuner has configurations to drop: Triton times them on a GPU, and each that is fastest for some "
            "sizes stays."
        )
