"""The pipes of a server to its client: nothing else in the process can write to them, and they never delay its work.

Invariant: messages are written whole and in order. A client that reads slowly costs memory, not time.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import BinaryIO


def own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the protocol off descriptors 0 and 1, so that a stray print or child process cannot break framing."""
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


class ThreadedWriter:
    """Writes in a thread of its own: a pipe holds 64 KiB, and the lenses of a huge file take more than a megabyte."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Write `data` after all earlier data. Raises OSError once the client is known to be gone."""
        if self._error is not None:
            raise self._error
        self._waiting.put(data)

    def drain(self, seconds: float) -> None:
        """Allow this long to write the data that waits; nothing may be written after."""
        self._waiting.put(None)
        self._thread.join(seconds)

    def close(self) -> None:
        """Write the data that waits, then close; for pygls, which closes its writer."""
        self.drain(1.0)
        self._pipe.close()

    def _work(self) -> None:
        while (data := self._waiting.get()) is not None:
            if self._error is not None:
                continue  # drop it: nobody reads
            try:
                self._pipe.write(data)
                self._pipe.flush()
            except OSError as error:
                self._error = error
