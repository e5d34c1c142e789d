"""Frames round-trip, and damage is an error, never another message."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.wire import (
    HEADER,
    MAGIC,
    MAX_FRAME,
    FrameReader,
    WireError,
    dump,
    frame,
    load,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.integers(min_value=0), max_size=12))
def test_payloads_come_out_however_the_stream_is_cut(payloads: list[bytes], places: list[int]) -> None:
    reader = FrameReader()
    out = [payload for part in cut(b"".join(map(frame, payloads)), places) for payload in reader.feed(part)]
    reader.end()
    assert out == payloads


@given(st.binary(min_size=1, max_size=300))
def test_garbage_is_an_error_or_waits_but_is_never_a_message(data: bytes) -> None:
    reader = FrameReader()
    try:
        assert list(reader.feed(data)) == []
        reader.end()
    except WireError:
        return
    raise AssertionError("garbage passed for a whole stream")


@given(st.binary(min_size=1, max_size=100), st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_flipped_byte_never_gives_another_message(payload: bytes, at: int, change: int) -> None:
    data = bytearray(frame(payload))
    data[at % len(data)] ^= change
    reader = FrameReader()
    with pytest.raises(WireError):  # noqa: PT012 - either of the two may notice
        assert list(reader.feed(bytes(data))) == []
        reader.end()


def test_half_a_frame_is_reported_at_the_end() -> None:
    reader = FrameReader()
    assert list(reader.feed(frame(b"{}")[:-1])) == []
    with pytest.raises(WireError, match="inside a message"):
        reader.end()


def test_fifty_megabytes_pass() -> None:
    payload = b"x" * 50_000_000
    assert list(FrameReader().feed(frame(payload))) == [payload]


def test_an_invalid_length_is_an_immediate_error() -> None:
    with pytest.raises(WireError, match="above the limit"):
        list(FrameReader().feed(HEADER.pack(MAGIC, MAX_FRAME + 1, 0)))
    with pytest.raises(WireError, match="above the limit"):
        frame(bytes(MAX_FRAME + 1))


def test_json_survives_odd_text_and_damage_is_an_error() -> None:
    value = {"path": "/a/\udcff", "text": "é𝄞\n"}
    assert load(dump(value)) == value
    for payload in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(WireError):
            load(payload)


def test_records_before_the_damage_count() -> None:
    payloads = FrameReader().feed(frame(b"[1]") + frame(b"[2]") + b"garbage")
    assert [next(payloads), next(payloads)] == [b"[1]", b"[2]"]
    with pytest.raises(WireError):
        next(payloads)
