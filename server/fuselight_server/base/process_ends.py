"""Waits for the end of a process that this one did not start."""

from __future__ import annotations

import asyncio
import os
import sys


async def has_ended(process_id: int, seconds: float) -> bool:
    """Wait until a process has ended; False where this system cannot say. Without an event, it looks each `seconds`."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process_id)
        except OSError as error:
            return isinstance(error, ProcessLookupError)
        has_an_end = asyncio.Event()
        asyncio.get_running_loop().add_reader(handle, has_an_end.set)
        try:
            await has_an_end.wait()
        finally:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
    else:
        while _lives(process_id):  # noqa: ASYNC110 - such systems have no event for it
            await asyncio.sleep(seconds)
    return True


def _lives(process_id: int) -> bool:
    if sys.platform == "win32":  # os.kill would end it; the end of stdin has to serve
        return True
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
