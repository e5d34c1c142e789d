"""Reads registers, spills and assembly of a compiled binary, with the tools in Triton's package or its metadata.

Invariant: a tool that is missing, fails or takes too long gives a message in place of its result; it never raises.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuselight.adapters.triton_api import names

_SECONDS = 60
_USAGE = re.compile(r"\bREG:(\d+) STACK:(\d+)")
_AMD = {"registers": r"^\s*\.vgpr_count:\s+(\d+)", "spills": r"^\s*\.vgpr_spill_count:\s+(\d+)"}
_WORD_BYTES = 4


@dataclass(frozen=True)
class Usage:
    """Per thread."""

    registers: int | None = None
    spills: int | None = None
    """Bytes."""


def cubin_usage(cubin: bytes) -> tuple[Usage, tuple[str, ...]]:
    """From `cuobjdump`; with a sentence where it gave no answer."""
    output, problem = _run("cuobjdump", ["-res-usage"], cubin)
    match = _USAGE.search(output)
    if match is None:
        return Usage(), (problem or "cuobjdump named no registers: they are not shown",)
    # A Triton kernel has no arrays of its own in local memory: what is there was spilled.
    return Usage(int(match[1]), int(match[2])), ()


def amd_usage(assembly: str) -> tuple[Usage, tuple[str, ...]]:
    """From the metadata that LLVM writes at the end of the assembly."""
    matches = {name: re.search(pattern, assembly, re.MULTILINE) for name, pattern in _AMD.items()}
    registers, spills = matches["registers"], matches["spills"]
    if registers is None:
        return Usage(), ("the assembly has no `.vgpr_count`: registers are not shown",)
    return Usage(int(registers[1]), int(spills[1]) * _WORD_BYTES if spills is not None else None), ()


def sass(cubin: bytes) -> tuple[str, tuple[str, ...]]:
    """The instructions with their lines, by `nvdisasm`; with a sentence where it gave none."""
    output, problem = _run("nvdisasm", ["-c", "-g"], cubin)
    return output, (problem,) if problem else ()


def _run(tool: str, options: list[str], binary: bytes) -> tuple[str, str]:
    try:
        path = getattr(names.knobs().nvidia, tool).path
        with tempfile.TemporaryDirectory(prefix="fuselight-") as folder:
            file = Path(folder, "kernel.cubin")
            file.write_bytes(binary)
            done = subprocess.run(  # noqa: S603 - Triton's own tool
                [path, *options, str(file)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
    except (OSError, RuntimeError, subprocess.SubprocessError, AttributeError) as error:
        return "", f"{tool} did not run ({error}): what it would say is not shown"
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        word = words[-1] if words else f"status {done.returncode}"
        return "", f"{tool} failed ({word}): what it would say is not shown"
    return done.stdout, ""
