"""Runs the checks of an interpreter (compiler/fuselight/doctor) and sums them up in words.

Invariant: the checks end, with a failed one if the process does not answer, and no code of the user's runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping

from fuselight.doctor import Check, Status
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.worker_launch import start_error, worker_command
from fuselight.shared.worker_protocol import ended_how
from fuselight_server.base.settings import Interpreter

SILENCE = 240.0
"""Seconds without an answer after which the process is ended: a compile has its own limit below that."""
_TAIL = 400
MARKS = {Status.OK: "ok", Status.WARNING: "warning", Status.FAILED: "FAILED", Status.SKIPPED: "skipped"}


async def examine(
    interpreter: Interpreter, environ: Mapping[str, str], *, compiles: bool = True
) -> AsyncIterator[Check]:
    """Yield each check of the interpreter as it is done."""
    job = ["doctor"] if compiles else ["doctor", "--no-compile"]
    try:
        process = await asyncio.create_subprocess_exec(
            *worker_command(interpreter.executable, interpreter.args, job),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        yield _failed(start_error(interpreter.executable, error))
        return
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("the process has no pipes")
    stderr = asyncio.create_task(process.stderr.read())
    try:
        while line := await asyncio.wait_for(process.stdout.readline(), SILENCE):
            yield decode(Check, parse_json(line))
        if await process.wait() != 0:
            printed = (await stderr).decode("utf-8", "replace").strip()[-_TAIL:]
            end = ended_how(process.returncode)
            yield _failed(f"{interpreter.executable} {end}: {printed or 'it printed nothing'}")
    except (TimeoutError, asyncio.TimeoutError):
        yield _failed(f"{interpreter.executable} gave no answer for {SILENCE:.0f} s")
    except (ValueError, DecodeError) as error:
        yield _failed(f"{interpreter.executable} gave an answer that cannot be read: {error}")
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        stderr.cancel()
        await asyncio.gather(stderr, return_exceptions=True)


def _failed(detail: str) -> Check:
    return Check(
        "interpreter",
        "Interpreter",
        Status.FAILED,
        detail,
        "the checks run in the Python that has your torch",
        "Choose another interpreter, or start it by hand to see what it says",
    )


def failed(checks: Iterable[Check]) -> bool:
    """Whether anything keeps torch.compile or Fuselight from working."""
    return any(check.status is Status.FAILED for check in checks)


def verdict(checks: Iterable[Check]) -> str:
    """Sum up the checks in one line."""
    done = list(checks)
    bad = sum(check.status is Status.FAILED for check in done)
    doubtful = sum(check.status is Status.WARNING for check in done)
    if bad:
        return f"{bad} of {len(done)} checks failed: fix the first one, then check again"
    if doubtful:
        return f"torch.compile works here; {doubtful} of {len(done)} checks have warnings"
    return f"torch.compile works here: {len(done)} checks, nothing to fix"
