"""A small program in a process of an interpreter, without a worker: the program alone imports torch.

Invariant: the process and what it started have ended when the outcome is there, and an outcome that is no answer says
why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fuselight.shared.report import ScriptOutcome, ScriptState
from fuselight.shared.script_end import HIDDEN, NAME, outcome_of_end
from fuselight.shared.worker_launch import start_error
from fuselight_server.base.settings import Interpreter


async def run_program(
    interpreter: Interpreter, script: str, seconds: float, environ: Mapping[str, str]
) -> ScriptOutcome:
    """What a program shows that runs as `python repro.py`; it is ended after `seconds`."""
    with tempfile.TemporaryDirectory(prefix="fuselight-repro-") as folder:
        path = Path(folder, NAME)
        await asyncio.to_thread(path.write_text, script, encoding="utf-8")
        try:
            process = await asyncio.create_subprocess_exec(
                interpreter.executable,
                *interpreter.args,
                str(path),
                cwd=folder,
                env={name: value for name, value in environ.items() if name not in HIDDEN},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return ScriptOutcome(ScriptState.ERROR, start_error(interpreter.executable, error))
        try:
            printed, errors = await asyncio.wait_for(process.communicate(), seconds)
        except (TimeoutError, asyncio.TimeoutError):
            return ScriptOutcome(ScriptState.ERROR, f"it took longer than {seconds:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started, too
            await process.wait()
        errors_text, printed_text = (text.decode("utf-8", "replace") for text in (errors, printed))
        return outcome_of_end(process.returncode or 0, errors_text, printed_text, (f"{folder}{os.sep}",))
