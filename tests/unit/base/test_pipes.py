"""The writer of the server's pipe: order, a client that does not read, a closed client."""

from __future__ import annotations

import os

import pytest

from fuselight_server.base.pipes import ThreadedWriter

MANY = 10 * 2**16
"""Bytes that no pipe holds."""


def test_a_slow_client_blocks_nothing_and_gets_all_messages_in_order() -> None:
    """More data than the pipe holds is accepted immediately and arrives completely."""
    read, write = os.pipe()
    pipe = os.fdopen(write, "wb")
    writer = ThreadedWriter(pipe)
    messages = [bytes([number]) * MANY for number in range(5)]
    for message in messages:
        writer.write(message)  # would never return if it waited for the reader below
    with os.fdopen(read, "rb") as reader:
        assert reader.read(5 * MANY) == b"".join(messages)
        writer.drain(10.0)
        pipe.close()
        assert reader.read() == b""


def test_closing_writes_pending_data() -> None:
    """What was written before the end is not lost."""
    read, write = os.pipe()
    writer = ThreadedWriter(os.fdopen(write, "wb"))
    writer.write(b"last words")
    writer.close()
    with os.fdopen(read, "rb") as reader:
        assert reader.read() == b"last words"


def test_the_next_write_reports_a_closed_client() -> None:
    """The error of the thread is raised where the server can handle it."""
    read, write = os.pipe()
    os.close(read)
    pipe = os.fdopen(write, "wb")
    writer = ThreadedWriter(pipe)
    writer.write(b"unheard")
    writer.drain(10.0)
    with pytest.raises(BrokenPipeError):
        writer.write(b"again")
    with pytest.raises(BrokenPipeError):  # what it holds is tried once more; closed it is all the same
        pipe.close()
    assert pipe.closed
