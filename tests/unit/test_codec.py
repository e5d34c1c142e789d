"""Reports and messages survive the wire, and readers accept older and newer writers, never damage."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuselight.codec import DecodeError, decode, encode
from fuselight.protocol import (
    Answer,
    Cancel,
    Hello,
    Locate,
    Message,
    Progress,
    Refused,
    RunRequest,
    Shutdown,
    from_json,
    to_json,
)
from fuselight.report import Location, Report, TunedResult

st.register_type_strategy(float, st.floats(allow_nan=False))  # equal to nothing, itself included
MESSAGES = st.one_of(
    *(st.from_type(kind) for kind in (Answer, Cancel, Hello, Locate, Progress, Refused, Shutdown))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
st.register_type_strategy(
    TunedResult,
    st.builds(
        TunedResult,
        **{  # type: ignore[arg-type] # `...` asks for a value of the field's type, which Any has none of
            **{one.name: ... for one in dataclasses.fields(TunedResult)},
            "options": st.dictionaries(st.text(), JSON, max_size=3),
            "kernels": st.dictionaries(st.text(), st.dictionaries(st.text(), JSON, max_size=3), max_size=3),
        },
    ),
)


@given(MESSAGES)
def test_every_message_round_trips(message: Message) -> None:
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


@settings(  # a report is large, and a machine can be busy: 100 take as long as all other tests of the codec
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=40
)
@given(st.from_type(Report))
def test_a_stored_report_round_trips(report: Report) -> None:
    assert decode(Report, json.loads(json.dumps(encode(report)))) == report


@given(JSON)
def test_any_json_gives_a_message_none_or_the_one_error(data: Any) -> None:
    try:
        from_json(data)
    except DecodeError:
        return


@given(JSON)
def test_any_json_in_an_envelope_gives_a_request_or_the_one_error(data: Any) -> None:
    try:
        assert isinstance(
            from_json({"type": "CaptureRequest", "id": 1, "generation": 1, "target": data}), RunRequest
        )
    except DecodeError:
        return


def test_a_key_of_a_newer_writer_is_skipped() -> None:
    assert from_json({"type": "Cancel", "id": 3, "because": ["new"]}) == Cancel(3)


def test_an_unknown_type_of_a_newer_writer_is_ignored() -> None:
    assert from_json({"type": "Rename", "id": 3}) is None


def test_a_key_that_an_older_writer_lacks_takes_its_default() -> None:
    assert decode(Location, {"path": "a.py", "line": 1}) == Location("a.py", 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"path": "a.py"}, "line is missing"),
        ({"path": "a.py", "line": "7"}, "line should be int, not '7'"),
        ({"path": "a.py", "line": True}, "line should be int, not True"),
        (["a.py", 1], "the value should be an object (Location)"),
    ],
)
def test_a_mismatch_names_its_location(data: Any, words: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode(Location, data)
    assert words in str(error.value)


def test_a_nested_mismatch_names_its_path() -> None:
    data = {"type": "Refused", "id": 1, "reason": "failed", "failure": {"culprit": "nobody"}}
    with pytest.raises(DecodeError, match=r"failure\.culprit should be one of"):
        from_json(data)
