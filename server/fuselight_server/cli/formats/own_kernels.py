"""The user's own Triton kernels in the terminal: what each was compiled to, its configurations, its assembly."""

from __future__ import annotations

import dataclasses
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.report import OwnKernel, Report
from fuselight_server.base.formatting import format_place
from fuselight_server.base.terminal import Terminal
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.kernels.own_kernels import (
    by_function,
    configuration_table,
    figures,
    launches_words,
    specialization,
    varied_words,
)


def print_own_kernels(report: Report, terminal: Terminal, asm: str | None) -> None:
    """Print each specialization, under its function."""
    device = report.own_kernels_device
    if not report.own_kernels or device is None:
        return
    terminal.print((f"\nTriton kernels of the program, compiled for {device.name}:", "bold"))
    for kernels in by_function(report.own_kernels).values():
        for kernel in kernels:
            place = format_place(shown_path(kernel.location.path), kernel.location.line)
            terminal.print("  ", (kernel.name, "bold cyan"), f"  {', '.join(figures(kernel))}")
            library = f" of {kernel.library}" if kernel.library else ""
            terminal.print((f"      {place}{library}, {launches_words(kernel)}", "dim"))
            terminal.print((f"      {specialization(kernel)}", "dim"))
            _print_details(kernel, terminal, asm)
    for line in varied_words(report):
        terminal.print((f"  {line}", "dim"))


def _print_details(kernel: OwnKernel, terminal: Terminal, asm: str | None) -> None:
    for option in kernel.options:
        if option.failure is None and option.registers is not None:
            spills = f", {option.spills} bytes spilled" if option.spills else ""
            is_option = option.option.startswith("num_")
            change = (
                f"{option.option}={option.value}"
                if is_option
                else f"{option.option} divisible by {option.value}"
            )
            terminal.print(f"      tried {change}: {option.registers} registers{spills}")
    for line in configuration_table(kernel) if kernel.configurations else ():
        terminal.print(f"      {line}")
    listing = kernel.assembled.listings.get(asm or "") if kernel.assembled is not None else None
    if listing is not None:
        terminal.print(listing.text)


def own_kernels_json(report: Report, asm: str | None) -> list[dict[str, Any]]:
    """Return each specialization without its listings, and with the one that was asked for."""
    rows = []
    for kernel in report.own_kernels:
        assembled = kernel.assembled
        light = dataclasses.replace(assembled, listings={}) if assembled is not None else None
        row: dict[str, Any] = encode(dataclasses.replace(kernel, assembled=light))
        if asm is not None:
            listing = assembled.listings.get(asm) if assembled is not None else None
            row["asm"] = None if listing is None else listing.text
        rows.append(row)
    return rows
