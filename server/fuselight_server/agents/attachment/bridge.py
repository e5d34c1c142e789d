"""`fuselight mcp --attach`: stdin and stdout of this process, byte by byte, as a connection to a language server.

Invariant: it ends when either side does, and reads nothing of what passes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import BinaryIO, NoReturn

from fuselight_server.base.interrupts import INTERRUPTED
from fuselight_server.base.pipes import own_pipes

_CHUNK = 1 << 16


def bridge(connection: socket.socket) -> NoReturn:
    """Carry bytes both ways until the client or the server ends, then end the process."""
    stdin, stdout = own_pipes()
    code = 0
    try:
        sender = threading.Thread(target=_send, args=(stdin, connection), name="sender", daemon=True)
        sender.start()
        _receive(connection, stdout)
    except KeyboardInterrupt:
        code = INTERRUPTED
    os._exit(code)  # not sys.exit: the thread may wait for stdin, and would be waited for


def _send(stdin: BinaryIO, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(stdin.fileno(), _CHUNK):
            connection.sendall(data)
    with contextlib.suppress(OSError):  # the server answers what it has, and closes its side
        connection.shutdown(socket.SHUT_WR)


def _receive(connection: socket.socket, stdout: BinaryIO) -> None:
    with contextlib.suppress(OSError):
        while data := connection.recv(_CHUNK):
            stdout.write(data)
            stdout.flush()
