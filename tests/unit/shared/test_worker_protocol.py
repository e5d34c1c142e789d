"""What every client of a worker makes of its bytes, its hello and its end, without a process."""

from __future__ import annotations

import signal
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight import PACKAGE
from fuselight.shared import wire
from fuselight.shared.protocol import PROTOCOL, Answer, Hello, Partial, Progress, Refused, Started, to_json
from fuselight.shared.report import Culprit, Failure, Versions
from fuselight.shared.worker_launch import (
    launch_path,
    platform_problem,
    program_command,
    start_error,
    worker_command,
    worker_environment,
)
from fuselight.shared.worker_protocol import (
    PRINTED_BYTES,
    Conversation,
    Unreadable,
    damage,
    deadline,
    ended_how,
    hello_problem,
    message_bytes,
)
from tests.support.reports import report

HELLO = to_json(Hello(PROTOCOL, Versions("3.12", "2.13.0", None, "1", "linux", "/py"), 7, forks=True))
SENT = (Started(1, 8, 60.0), Partial(1, report()), Answer(1, report()), Refused(2, "cancelled"))


@given(st.lists(st.integers(min_value=1, max_value=200), max_size=20))
def test_messages_come_out_however_the_stream_is_cut(sizes: list[int]) -> None:
    stream = b"".join(message_bytes(entry) for entry in SENT)
    conversation, messages = Conversation("/py"), []
    for size in [*sizes, len(stream)]:
        messages += [incoming.message() for incoming in conversation.receive(stream[:size])]
        stream = stream[size:]
    conversation.end_output()
    assert tuple(messages) == SENT


def test_a_driver_can_skip_or_defer_what_it_need_not_decode() -> None:
    conversation = Conversation("/py")
    long = Refused(3, "x" * 300_000)
    sent = b"".join(message_bytes(entry) for entry in (*SENT, long, {"type": "Unheard", "id": 1}))
    incoming = list(conversation.receive(sent))
    assert [incoming_message.is_partial for incoming_message in incoming] == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [incoming_message.is_large for incoming_message in incoming] == [
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    assert incoming[-1].message() is None
    assert incoming[-1].data() == {"type": "Unheard", "id": 1}


def test_a_message_that_does_not_fit_keeps_its_data() -> None:
    sent = {**to_json(SENT[2]), "report": {"tier": 5}}
    (incoming,) = Conversation("/py").receive(message_bytes(sent))
    message = incoming.message()
    assert isinstance(message, Unreadable)
    assert message.data == sent
    assert "report" in str(message.error)
    (no_object,) = Conversation("/py").receive(wire.frame(b"[1]"))
    assert no_object.data() == {}


def test_damage_names_where_it_is() -> None:
    conversation = Conversation("/py")
    incoming = conversation.receive(message_bytes(SENT[0]) + b"garbage")
    assert next(incoming).message() == SENT[0]
    with pytest.raises(wire.WireError) as raised:
        next(incoming)
    assert damage(raised.value).startswith("its answer is damaged: expected a message at byte ")
    assert damage(KeyError("x")) == "its answer could not be read: KeyError: 'x'"
    half = Conversation("/py")
    assert list(half.receive(message_bytes(SENT[0])[:-1])) == []
    with pytest.raises(wire.WireError):
        half.end_output()


NO_TORCH = Failure(Culprit.ENVIRONMENT, "no_torch", "no torch", "install it")


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        (HELLO, None),
        ({**HELLO, "from_the_future": 1}, None),
        (
            {**HELLO, "protocol": PROTOCOL + 1},
            f"the worker speaks protocol {PROTOCOL + 1}, the client {PROTOCOL}",
        ),
        ({"type": "Hello"}, f"the worker speaks protocol None, the client {PROTOCOL}"),
        ({**HELLO, "problem": {"culprit": "moon"}}, "hello cannot be read: culprit should be one of"),
    ],
)
def test_a_worker_serves_if_its_hello_has_no_problem_and_our_protocol(
    hello: dict[str, object], message: str | None
) -> None:
    problem = hello_problem(hello)
    assert (problem is None) == (message is None)
    if problem is not None and message is not None:
        assert message in problem.message
        assert problem.next_step


def test_the_problem_of_a_hello_comes_before_its_protocol() -> None:
    """An interpreter without torch is reported first: another version of Fuselight would not change that."""
    hello = Hello(
        PROTOCOL + 1, Versions("3.12", None, None, "1", "linux", "/py"), 7, forks=True, problem=NO_TORCH
    )
    assert hello_problem(to_json(hello)) == NO_TORCH


def test_a_run_has_its_limit_and_the_overtime_or_no_deadline() -> None:
    assert deadline(100.0, 60.0, 15.0) == 175.0
    assert deadline(100.0, 0, 15.0) is deadline(100.0, None, 15.0) is None


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (0, "ended with status 0"),
        (3, "ended with status 3"),
        (-9, "was killed by SIGKILL"),
        (-250, "was killed by signal 250"),
        (None, "ended with status None"),
    ],
)
def test_an_exit_status_in_words(status: int | None, how: str) -> None:
    conversation = Conversation("/py")
    assert ended_how(status) == how
    assert conversation.end(status=status).sentence() == f"the worker {how}"
    assert conversation.note(b"Traceback\nno torch\n\n") == ["Traceback", "no torch", ""]
    assert conversation.end(status=status).sentence() == f"the worker {how}: no torch"


LAST = Progress(1, "call", path="/w/model.py", line=6)


@pytest.mark.parametrize(
    ("why", "status", "has_process", "kind", "message", "is_lost"),
    [
        ("", -signal.SIGKILL, True, "signal", "ended by SIGKILL while the code ran at model.py:6", False),
        ("", -signal.SIGKILL, False, "damaged_answer", "it ended by itself", True),
        ("", 1, True, "damaged_answer", "it ended by itself", False),
        ("", 1, False, "damaged_answer", "it ended by itself", True),
        (
            "it did not answer in time",
            -signal.SIGKILL,
            True,
            "damaged_answer",
            "it did not answer in time",
            False,
        ),
        ("it did not answer in time", None, False, "damaged_answer", "it did not answer in time", False),
    ],
)
def test_the_end_of_a_worker_means_for_its_run(
    why: str, status: int | None, *, has_process: bool, kind: str, message: str, is_lost: bool
) -> None:
    """Only a worker that ended by itself before the run had a process is not the run's doing."""
    conversation = Conversation("/py")
    conversation.note(b"some words\n")
    end = conversation.end(why, status)
    failure = end.run_failure(LAST, has_process=has_process)
    assert (failure.kind, message in failure.message) == (kind, True), failure
    assert failure.next_step
    assert end.loses(has_process=has_process) == is_lost
    assert (failure.traceback == "some words\n") == (kind == "damaged_answer")
    assert [place.line for place in failure.stack] == ([6] if kind == "signal" else [])


def test_a_worker_that_never_got_ready_names_its_interpreter() -> None:
    conversation = Conversation("/py")
    silent, dead = conversation.silent_start(120.0), conversation.end(status=1).start_failure()
    assert silent.message == "/py did not get ready within 120 s"
    assert dead.message == "/py ended before it was ready: it printed nothing"
    conversation.note(b"ImportError: libcudart.so\n")
    dead = conversation.end(status=1).start_failure()
    assert dead.message == "/py ended before it was ready: ImportError: libcudart.so"
    assert {silent.culprit, dead.culprit} == {Culprit.ENVIRONMENT}


def test_only_the_end_of_what_is_printed_is_kept() -> None:
    conversation = Conversation("/py")
    for number in range(30):
        conversation.note(bytes([65 + number % 26]) * 1000)
    assert len(conversation.printed) == PRINTED_BYTES
    assert conversation.printed.endswith("D" * 1000)
    assert conversation.note(b"\xff") == ["\\xff"]


def test_processes_of_ours_read_utf8_and_the_users_program_gets_no_option() -> None:
    assert worker_command("/py", ("-I",)) == ["/py", "-I", "-X", "utf8", launch_path()]
    assert worker_command("/py", job=["doctor"])[-2:] == [launch_path(), "doctor"]
    assert program_command("/py", ["--", "train.py"]) == ["/py", launch_path(), "run", "--", "train.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="paths of PYTHONPATH are separated by a colon")
def test_our_package_is_hidden_from_user_code_where_a_scheduler_put_it() -> None:
    ours = PACKAGE.rpartition("/")[0]
    base = {"PYTHONPATH": f"/a::{ours}/", "HOME": "/h"}
    changes = {"COLOR": "blue"}
    kept = {"HOME": "/h", "COLOR": "blue"}
    assert worker_environment(base, changes) == {**base, **changes}
    assert worker_environment(base, changes, hides_package=True) == {"PYTHONPATH": "/a", **kept}
    only_ours = {**base, "PYTHONPATH": ours}
    assert worker_environment(only_ours, changes, hides_package=True) == kept
    assert base["PYTHONPATH"] == f"/a::{ours}/", "the driver's own variables stay"


def test_what_keeps_a_process_from_starting_is_in_words() -> None:
    error = FileNotFoundError(2, "No such file or directory")
    assert start_error("/none", error) == "/none cannot be started: No such file or directory"
    assert platform_problem("linux") is platform_problem("darwin") is None
    assert platform_problem("win32") is not None
