"""Steps of the session of one configuration: which calls are made, and when the profiler goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.measure import session as session_module
from fuselight.measure.profile.recording import Recording
from fuselight.measure.session import ConfigurationSession
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Profile

pytestmark = pytest.mark.torch


def session(compiles: int) -> tuple[ConfigurationSession, list[int]]:
    """A session of a target that compiles in each of so many calls after its first; the calls that were made."""
    calls: list[int] = []
    unit: Any = SimpleNamespace(prepare=lambda: lambda: calls.append(len(calls)), fresh=False)
    compiled: Any = SimpleNamespace(configuration=parse_configuration("default"), cudagraphs=False)
    configuration_session = ConfigurationSession(
        MeasurePlan(seconds=0.01), torch.device("cpu"), compiled, unit, (), lambda _: None,
        lambda: min(len(calls), compiles),
    )  # fmt: skip
    return configuration_session, calls


@pytest.mark.parametrize(("compiles", "number"), [(0, 1), (1, 2), (3, 4), (50, 8)])
def test_calls_are_made_until_one_compiles_nothing(compiles: int, number: int) -> None:
    settled, calls = session(compiles)
    settled.settle()
    assert len(calls) == number
    second = settled.row.second_us
    assert second is not None
    settled.warm()
    assert settled.row.second_us == second, "the second call was made"
    assert settled.row.warm_up_calls == len(calls) - number or compiles > number


def test_without_it_the_warm_up_makes_the_second_call() -> None:
    settled, calls = session(0)
    settled.warm()
    assert settled.row.second_us is not None
    assert settled.row.warm_up_calls == len(calls) - 1


@pytest.mark.parametrize("is_timed_later", [True, False])
def test_the_profiler_is_detached_once_the_profile_is_read(
    is_timed_later: bool,  # noqa: FBT001 - both cases
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    def profile(*_: object) -> object:
        steps.append("profile")
        return object()

    def read(*_: object) -> None:
        steps.append("read")
        raise ValueError("no such trace")

    monkeypatch.setattr(session_module, "trace_calls", profile)
    monkeypatch.setattr(session_module, "read_calls", read)
    monkeypatch.setattr(session_module, "detach", lambda *_: steps.append("detach"))
    configuration_session, _ = session(0)
    for _ in range(2):
        configuration_session.profile(timed_later=is_timed_later)
        configuration_session.read((), ())
    assert steps == ["profile", "read", *["detach"] * is_timed_later] * 2
    assert any("no such trace" in note for note in configuration_session.row.notes)


@pytest.mark.parametrize(("kind", "calls_in_profile", "calls_alone"), [("eager", 1, 0), ("default", 0, 1)])
def test_lines_are_found_by_a_call_that_no_other_process_disturbs(
    kind: str, calls_in_profile: int, calls_alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def record_lines(*_: object, **__: object) -> tuple[()]:
        calls.append("call")
        return ()

    recording = Recording("record functions", "cpu", (), ())
    unplaced = Profile("record functions", 1, 10.0, 9.0, 9.0, 1.0)
    monkeypatch.setattr(session_module, "trace_calls", lambda *_: object())
    monkeypatch.setattr(session_module, "read_calls", lambda _: recording)
    monkeypatch.setattr(session_module, "record_lines", record_lines)
    monkeypatch.setattr(session_module, "read_profile", lambda *_, **__: unplaced)
    told: list[str] = []
    configuration_session, _ = session(0)
    configuration_session.tell = told.append
    compiled: Any = configuration_session.compiled
    compiled.configuration, compiled.graphs = parse_configuration(kind), ()
    compiled.by_inductor = () if kind == "eager" else (object(),)
    configuration_session.profile()
    assert len(calls) == calls_in_profile
    again = configuration_session.read((), (), alone=False)
    assert again is bool(calls_alone)
    assert len(calls) == calls_in_profile, "another process may be active"
    if again:
        assert configuration_session.row.profile is None
        assert configuration_session.read((), (), alone=True) is False
    assert len(calls) == calls_in_profile + calls_alone
    assert configuration_session.row.profile == unplaced
    assert "finding the lines of eager operators" in told
    assert "reading the profile, 0 events" in told
    assert configuration_session.read((), ()) is False, "it is read once"
