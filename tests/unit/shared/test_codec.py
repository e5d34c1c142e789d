"""Reports and messages survive the wire, and readers accept older and newer writers, never damage."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.protocol import (
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
from fuselight.shared.report import (
    Location,
    Report,
    TargetRef,
    TensorError,
    Tier,
    Timing,
    TunedResult,
    Versions,
)
from fuselight.shared.report.facts import FileFacts
from fuselight.shared.report.place import MAX_LINES

# in the bounds of every field; Hypothesis reads none of `Annotated`
st.register_type_strategy(float, st.floats(1e-3, 1e9))
st.register_type_strategy(int, st.integers(0, MAX_LINES))


def short_tuples(kind: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """Values of a tuple type. Those of Hypothesis have 5 entries on average, at each level of a report."""
    kinds = typing.get_args(kind)
    if kinds[-1:] == (...,):
        return st.lists(st.from_type(kinds[0]), max_size=2).map(tuple)
    return st.tuples(*map(st.from_type, kinds))


st.register_type_strategy(tuple, short_tuples)
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
            **{field.name: ... for field in dataclasses.fields(TunedResult)},
            "options": st.dictionaries(st.text(), JSON, max_size=3),
            "kernels": st.dictionaries(st.text(), st.dictionaries(st.text(), JSON, max_size=3), max_size=3),
        },
    ),
)


@pytest.mark.slow
@given(MESSAGES)
def test_every_message_round_trips(message: Message) -> None:
    assert from_json(json.loads(json.dumps(to_json(message)))) == message


SMALLEST = Report(
    Versions("3.11", "2.13.0", None, "0", "linux", "python"),
    TargetRef("m.py", "f", 1, "function"),
    Tier.CAPTURE,
    1,
)


@pytest.mark.slow
@pytest.mark.parametrize("field", typing.get_type_hints(Report).items(), ids=lambda field: field[0])
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=8)
@given(data=st.data())
def test_a_stored_report_round_trips(field: tuple[str, Any], data: st.DataObject) -> None:
    """One field at a time: values of all fields at once are 20 times as large, and no field affects another."""
    name, kind = field
    report = dataclasses.replace(SMALLEST, **{name: data.draw(st.from_type(kind))})
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
        ({"path": "a.py", "line": -1}, "line should be in range(0, 10000001), not -1"),
        ({"path": "a.py", "line": 2**63}, "line should be in range(0, 10000001)"),
        ({"path": "a.py", "line": 1, "end_line": 2**63}, "end_line should be in range(0, 10000001)"),
        ({"path": "a.py", "line": 1, "column": 10**400}, "column should be in range("),
        (["a.py", 1], "the value should be an object (Location)"),
    ],
)
def test_a_mismatch_names_its_location(data: Any, words: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode(Location, data)
    assert words in str(error.value)


@pytest.mark.parametrize("us", [0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_a_time_that_no_clock_shows_is_a_mismatch(us: float) -> None:
    data = {"clock": "wall", "median_us": us, "low_us": 1.0, "high_us": 1.0, "calls": 1}
    with pytest.raises(DecodeError, match="median_us should be in"):
        decode(Timing, data)


@pytest.mark.parametrize("number", [float("inf"), -1.0, 0.0, 5e-324])
def test_other_numbers_are_as_they_are(number: float) -> None:
    error = TensorError("output", number, None, number, passed=False)
    assert decode(TensorError, json.loads(json.dumps(encode(error)))) == error


@pytest.mark.parametrize("span", [[], [1], [1, 2, 3], "12", {"0": 1}, [1, 2**40]])
def test_a_row_of_another_length_is_a_mismatch(span: Any) -> None:
    assert decode(FileFacts, {"untraced": [[1, 2]]}).untraced == ((1, 2),)
    with pytest.raises(DecodeError, match=r"untraced\[0\]"):
        decode(FileFacts, {"untraced": [span]})


def test_a_nested_mismatch_names_its_path() -> None:
    data = {"type": "Refused", "id": 1, "reason": "failed", "failure": {"culprit": "nobody"}}
    with pytest.raises(DecodeError, match=r"failure\.culprit should be one of"):
        from_json(data)
