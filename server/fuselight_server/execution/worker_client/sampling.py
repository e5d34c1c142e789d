"""Where a run that makes no progress is: its Python stack, read from outside by py-spy.

Invariant: sampling never changes the run. The process is not stopped (a line can be off by a moment), and
where the system does not permit it the answer says why; the caller then asks the run itself (faulthandler)
or names the phase.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Location, Stack

_NAME = "py-spy.exe" if sys.platform == "win32" else "py-spy"


@dataclass(frozen=True)
class Sample:
    """The stack of the thread that runs the user's code; `why_not` says why there is none."""

    stack: Stack = ()
    why_not: str | None = None


def py_spy_path() -> str | None:
    """The py-spy program that came with our libraries, or one on PATH."""
    folders = [Path(sysconfig.get_path("scripts"))]
    # In the packaged extension the libraries lie in a plain folder, with their programs in its `bin`.
    folders += [Path(entry) / "bin" for entry in sys.path if entry]
    for folder in folders:
        if (folder / _NAME).is_file():
            return str(folder / _NAME)
    return shutil.which("py-spy")


async def sample(pid: int, *, seconds: float = 5.0) -> Sample:
    """Read the Python stack of process `pid`, giving up after `seconds`. Trouble is an answer, too."""
    program = py_spy_path()
    if program is None:
        return Sample(why_not="py-spy is not installed")
    try:
        process = await asyncio.create_subprocess_exec(
            program, "dump", "--json", "--nonblocking", "--pid", str(pid),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return Sample(why_not=f"py-spy could not be started: {error}")
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except asyncio.TimeoutError:
        return Sample(why_not=f"py-spy gave no answer within {seconds:g} s")
    finally:
        if process.returncode is None:
            # `Process.kill` first reads the exit status, which asyncio's watcher waits for and then misses.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        words = err.decode("utf-8", "replace").strip().splitlines()
        return Sample(why_not=words[0] if words else f"py-spy ended with {process.returncode}")
    try:
        return Sample(stack=read_dump(parse_json(out)))
    except (ValueError, KeyError, TypeError) as error:
        return Sample(why_not=f"py-spy's answer could not be read: {error!r}")


def read_dump(threads: Any) -> Stack:
    """The stack in `py-spy dump --json` output that matters: the main thread's, outermost frame first.

    The main thread is the one whose id is the process's (Linux) or, where the system gives none, the one with
    the outermost module-level frame; it runs the user's code, other threads only help.
    """
    if not isinstance(threads, list) or not threads:
        raise ValueError("no threads")
    main = next((t for t in threads if t.get("os_thread_id") == t.get("pid")), None)
    if main is None:
        main = next((t for t in threads if t["frames"] and t["frames"][-1]["name"] == "<module>"), threads[0])
    return tuple(
        Location(path=frame["filename"], line=frame["line"], function=frame["name"])
        for frame in reversed(main["frames"])
        if frame["line"] > 0
    )
