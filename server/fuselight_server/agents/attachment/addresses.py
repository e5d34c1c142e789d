"""Where a language server listens for agents: a folder that only its user can read, with a socket and its address.

Invariant: what is connected to belongs to this user: the folder has mode 0700, and where a system has no such sockets,
the loopback port asks for a secret that the folder has.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight.shared.owned_folders import folders_of
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.files import within

PURPOSE = "agents"
_FILE = "address.json"
_SOCKET = "s"
_MAX_BYTES = 1 << 20
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class AgentAddress:
    """How to reach one language server."""

    folder: str
    """The folder of the address; a Unix socket is in it."""
    workspace: tuple[str, ...]
    """The workspace folders of the server."""
    port: int = 0
    """Of the loopback interface; 0: the Unix socket."""
    secret: str = ""
    """What a client of the port sends first."""

    @property
    def socket_path(self) -> str:
        """The path of the Unix socket."""
        return str(Path(self.folder, _SOCKET))

    def write(self) -> None:
        """Publish it. Raises OSError."""
        write_whole(str(Path(self.folder, _FILE)), json.dumps(asdict(self)).encode(), mode=0o600)

    def connect(self) -> socket.socket:
        """Connect to the server. Raises OSError."""
        if self.port:
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=_CONNECT_SECONDS)
            connection.sendall(self.secret.encode() + b"\n")
        else:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(self.socket_path)
        connection.settimeout(None)
        return connection


def connect_to(folder: Path) -> socket.socket:
    """Connect to the server that listens in a folder. Raises CommandError."""
    address = _read(str(folder))
    if address is None:
        raise CommandError(f"`{folder}` is not the address of a language server. Restart the editor's agent.")
    try:
        return address.connect()
    except OSError as error:
        raise CommandError(
            f"the language server at `{folder}` does not answer ({error.strerror or error}). "
            "Start the agent's server again from the editor."
        ) from None


def connect_for(path: Path) -> socket.socket:
    """Connect to the language server of an editor that has a path in its workspace. Raises CommandError."""
    real = os.path.realpath(path)
    holding = [
        (max(map(len, roots)), address)
        for address in _known()
        if (roots := [root for root in map(os.path.realpath, address.workspace) if within(real, root)])
    ]
    for _, address in sorted(holding, key=lambda item: -item[0]):
        with contextlib.suppress(OSError):
            return address.connect()
    raise CommandError(
        f"no editor with Fuselight has `{path}` open. Open the folder there, or leave out --attach: "
        "the server then reads the files on disk."
    )


def _known() -> Iterator[AgentAddress]:
    for folder in folders_of(PURPOSE):
        address = _read(folder)
        if address is not None:
            yield address


def _read(folder: str) -> AgentAddress | None:
    try:
        data = parse_json(read_regular(Path(folder, _FILE), _MAX_BYTES, follow_link=False))
        return AgentAddress(
            folder, tuple(map(str, data["workspace"])), int(data["port"]), str(data["secret"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
