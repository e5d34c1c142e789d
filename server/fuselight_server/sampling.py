"""Where a silent run is: its stack, read from outside by py-spy.

Invariant: sampling never changes a run and never fails it. Where the system does not permit it (containers, macOS
without root) the answer is None, once and for all for this server, with the reason in the log; the worker's own
`faulthandler` dump then names the line at the end of a run, and until then its phase is what is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fuselight.report import Location, Stack

_TIMEOUT = 5.0


class Sampler:
    """Reads stacks with py-spy, until it turns out that it may not."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._program = find_py_spy()
        self._refused = self._program is None
        if self._program is None:
            log("py-spy is not installed beside the server: runs are not sampled")

    async def sample(self, pid: int) -> Stack | None:
        """Read the main thread's stack of `pid`, outermost first; None where it cannot be had."""
        if self._refused or self._program is None:
            return None
        process = await asyncio.create_subprocess_exec(
            self._program,
            *("dump", "--json", "--nonblocking", "--pid", str(pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, error = await asyncio.wait_for(process.communicate(), _TIMEOUT)
        except (TimeoutError, asyncio.TimeoutError):
            return None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if process.returncode:
            self._note_refusal(error.decode("utf-8", "replace"))
            return None
        return read_dump(out)

    def _note_refusal(self, error: str) -> None:
        lowered = error.lower()
        if any(word in lowered for word in ("permission", "not permitted", "root", "ptrace")):
            self._refused = True
            self._log(f"py-spy may not sample here, so runs show their phase alone: {error.strip()[:300]}")


def find_py_spy() -> str | None:
    """Find py-spy's program: beside this interpreter, in the bundle's libraries, or on PATH."""
    name = "py-spy.exe" if os.name == "nt" else "py-spy"
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    folders += [Path(entry) / "bin" for entry in sys.path if entry]
    for folder in folders:
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return str(folder / name)
    return shutil.which(name)


def read_dump(data: bytes) -> Stack | None:
    """Read `py-spy dump --json`: the main thread, outermost frame first. None for anything else."""
    try:
        threads: Any = json.loads(data)
        if not threads:
            return None
        main = next((thread for thread in threads if thread.get("thread_name") == "MainThread"), threads[0])
        return tuple(
            Location(str(frame["filename"]), int(frame["line"]), function=str(frame["name"]))
            for frame in reversed(main["frames"])
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def innermost(stack: Stack, roots: Sequence[str]) -> Location | None:
    """Pick the innermost frame of the user's: in a root, and in no folder of installed packages."""
    for place in reversed(stack):
        parts = Path(place.path).parts
        if "site-packages" in parts or "dist-packages" in parts:
            continue
        if any(place.path.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
            return place
    return None
