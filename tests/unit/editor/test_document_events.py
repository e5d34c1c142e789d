"""The order in which the parts of a session take in what happens to a document."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight_server.base.background import BackgroundTasks, log_failures
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.document_events import DocumentEvents
from fuselight_server.editor.session.run_requests import SaveRuns
from fuselight_server.editor.session.state import Folder
from fuselight_server.execution.runs.keys import Key
from fuselight_server.source.document import SourceDocument

PATH = "/w/m.py"


class Recorder:
    """Stands for a part of the session: notes each call, and the text of the document at that moment."""

    def __init__(self, events: Events, name: str, **answers: Any) -> None:
        self._events, self._name, self._answers = events, name, answers

    def __getattr__(self, method: str) -> Any:
        def call(*_given: object, **_named: object) -> Any:
            self._events.calls.append((f"{self._name}.{method}", self._events.document.source.text))
            return self._answers.get(method)

        return call


class Events:
    """The events of one document, whose session is recorded."""

    def __init__(self, *, follows_disk: bool = False, is_early: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self.document = Document(
            "file:///w/m.py", PATH, 1, SourceDocument(PATH, "x = 1\ny = 2\n"), runnable=True
        )
        part: Any = functools.partial(Recorder, self)
        session: Any = SimpleNamespace(
            state=part("state", folder_of=Folder("/w", None)),
            runs=SimpleNamespace(in_flight=()),
            edits=part("edits"),
            early=part("early", keep_request=is_early),
            tasks=part("tasks"),
        )
        session.state.captures = {}
        session.state.documents = part("documents", at=self.document)
        requests = part("requests")
        requests.permissions = SimpleNamespace(targets=part("targets", compiled=(Key(PATH, "f"),)))
        requests.throttle = part("throttle")
        self.saves = SaveRuns(session, requests)
        self.saves.on_disk = part("on_disk", has_followed=follows_disk)
        self.documents = DocumentEvents(
            session,
            environments=part("environments"),
            stored=part("stored"),
            fixes=part("fixes"),
            live=part("live"),
            saves=self.saves,
        )

    def edit(self, *edits: tuple[tuple[int, int], tuple[int, int], str]) -> None:
        partials = [functools.partial(self.document.source.replace, *edit) for edit in edits]
        self.documents.changed(self.document, 2, partials)

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.calls]


EDIT = ((1, 4), (1, 5), "10")
BROKEN = ((1, 4), (1, 5), "(")
SECOND = ((2, 4), (2, 5), "20")


def test_an_edit_moves_every_place_before_anything_is_shown_verified_or_predicted() -> None:
    events = Events()
    events.edit(EDIT, SECOND)
    assert events.order == [
        "live.before_edit",
        "edits.edited",
        "edits.edited",
        "state.compare_with_text",
        "fixes.edited",
        "state.mark_findings",
        "live.edited",
        "on_disk.has_followed",
    ]
    assert events.document.version == 2


def test_each_change_is_taken_in_with_the_text_of_that_moment() -> None:
    events = Events()
    events.edit(EDIT, SECOND)
    texts = [text for name, text in events.calls if name in {"live.before_edit", "edits.edited"}]
    assert texts == ["x = 1\ny = 2\n", "x = 10\ny = 2\n", "x = 10\ny = 20\n"]
    assert {text for _, text in events.calls[3:]} == {"x = 10\ny = 20\n"}


def test_an_edit_that_follows_the_disk_is_a_save_after_everything_else() -> None:
    events = Events(follows_disk=True)
    events.edit(EDIT)
    after = events.order[events.order.index("on_disk.has_followed") :]
    assert [text for text in after if not text.startswith("state.")][-4:] == [
        "targets.drop_lost",
        "targets.compiled",
        "throttle.began",
        "requests.request_runs",
    ]


def test_a_save_before_the_settings_are_known_runs_nothing() -> None:
    events = Events(is_early=True)
    events.saves.saved(PATH, automatic=False)
    assert "on_disk.note" in events.order, "the editor has written the file"
    assert "requests.request_runs" not in events.order


def test_an_opened_document_is_compared_before_stored_results_are_shown() -> None:
    events = Events()
    events.documents.opened(events.document)
    assert events.order[:3] == ["state.open", "on_disk.note", "edits.opened"]
    assert events.order[3:] == [
        "stored.show_for", "tasks.start", "early.keep_request", "environments.look"
    ]  # fmt: skip
    events.document.runnable = False
    events.calls.clear()
    events.documents.opened(events.document)
    assert events.order == ["state.open"], "an untitled buffer has no file"


@pytest.mark.asyncio
async def test_a_background_task_that_fails_is_logged_with_its_traceback() -> None:
    log: list[str] = []
    tasks = BackgroundTasks(log_failures(log.append))

    async def fail() -> None:
        raise ValueError("no such thing")

    async def answer() -> int:
        return 3

    tasks.start(fail(), "looking for it")
    answered = tasks.start(answer(), "answering")
    assert not tasks.is_idle
    await tasks.wait()
    assert tasks.is_idle
    assert answered.result() == 3
    (line,) = log
    assert line.startswith("looking for it failed: ValueError('no such thing')\nTraceback")


def test_a_save_that_does_not_parse_waits_until_the_text_does() -> None:
    events = Events()
    events.edit(BROKEN)
    events.saves.saved(PATH, automatic=True)
    assert not events.document.waits, "the editor saved what is half-typed"
    events.saves.saved(PATH, automatic=False)
    assert events.document.waits
    assert "requests.request_runs" not in events.order
    assert events.order[-1] == "state.mark_results"
    events.edit(SECOND)
    assert events.document.waits, "it still does not parse"
    events.edit(((1, 4), (1, 5), "1"))
    assert not events.document.waits
    events.edit(BROKEN)
    assert not events.document.waits, "typed since, and not saved"
