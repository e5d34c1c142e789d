"""The server object that every feature gets, and the registration of features.

Invariant: an exception in a feature is logged with the method and the versions and answered as a short error; the
server goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import logging
import platform
import threading
from collections.abc import Callable, Coroutine, Iterator
from importlib import metadata
from typing import Any, Protocol, cast

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer

from fuselight.shared.report import is_user_file
from fuselight.shared.report.visible import visible
from fuselight.shared.version import version
from fuselight_server.base.background import BackgroundTasks, trace_of
from fuselight_server.editor.handlers.notebook_messages import CellMessages
from fuselight_server.editor.handlers.protocol import Protocol as WireProtocol
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.notebooks import OpenNotebooks
from fuselight_server.editor.session.repros import ReproSession
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.ui import Ui
from fuselight_server.execution.runs.keys import Key

COMMAND_SECONDS = 3.0
"""How long a client waits for a command: Emacs gives up after 10 seconds."""
_LOGGED = 300
"""Characters of an error in the log."""


class OneLine(logging.Filter):
    """Has pygls log one short line for each message that it cannot handle, and none where we log one ourselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a record of pygls; False: drop it."""
        if not record.name.startswith("pygls"):
            return True
        words = visible(record.getMessage()[:_LOGGED].partition("\n")[0])
        record.msg, record.args, record.exc_info, record.exc_text = words, (), None, None
        return not words.startswith(("Unable to handle message", "Unable to deserialize message"))


def installed(name: str) -> str | None:
    """Version of one of our libraries; None where it travels without its metadata."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class ClientUi(Ui, Protocol):
    """What features ask of the user interface; `lsp_ui` implements it."""

    def refresh_hints(self) -> None:
        """Let the client ask for inlay hints again."""
        ...

    def status_changed(self) -> None:
        """Send the statuses of folders that differ from those that were sent."""
        ...

    def run_of(self, token: str | int) -> Key | None:
        """Return the run that a progress token belongs to; None where it is over."""
        ...

    def forget_answers(self, folder: Folder) -> None:
        """Forget the answers about a folder and its programs that outlast this process."""
        ...


class CancellableProgress(Protocol):
    """Progress that is no run's; `work_progress` and `jobs` implement it."""

    def update(self) -> None:
        """Show what is in progress."""
        ...

    def cancel(self, token: str | int) -> bool:
        """Cancel what a progress token belongs to; False where it is none of ours."""
        ...


class Server(LanguageServer):
    """pygls' server with our state."""

    def __init__(self) -> None:
        super().__init__(
            "fuselight",
            version(),
            protocol_cls=WireProtocol,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=types.NotebookDocumentSyncOptions(
                # All cells: their order, and which of them are code, make the module.
                notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="*")],
                save=True,
            ),
            max_workers=2,
        )
        self.state = State()
        self.notebooks = OpenNotebooks()
        self.cell_messages = CellMessages(self.notebooks)
        self.wire.cell_messages = self.cell_messages
        self.analysis: Analysis
        self.ui: ClientUi
        self.verifications: CancellableProgress
        self.job_progress: CancellableProgress
        self.repro_progress: CancellableProgress
        self.repros: ReproSession
        self.shown_texts: dict[str, None] = {}
        """URIs of texts in no file that the client was shown, the newest last."""
        self.automatic_saves: set[str] = set()
        """URIs of documents that the editor, not the user, is about to save."""
        self.stop_event = threading.Event()
        self.encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
        self.reading_settings = asyncio.Lock()
        """Held while settings are read and applied: the settings requested last are applied last."""
        self.tasks = BackgroundTasks(self.failed)
        self._shown_failures: set[str] = set()

    @property
    def wire(self) -> WireProtocol:
        """The protocol, as the class that it is."""
        return cast("WireProtocol", self.protocol)

    @property
    def view(self) -> convert.Client:
        """What conversion to the client's types needs."""
        roots = tuple(folder.path for folder in self.state.folders.values() if folder.path)
        return convert.Client(
            encoding=self.encoding,
            read_line=self.state.documents.read_line,
            uri_of=self.uri_of,
            is_user_file=lambda path: is_user_file(path, roots),
        )

    def uri_of(self, path: str) -> str:
        """Return the client's own URI of an open file, else one made from the path."""
        document = self.state.documents.at(path)
        return document.uri if document else convert.uri(path)

    def snapshot(self, uri: str) -> Snapshot | None:
        """Return the state of an open document that features read."""
        runs = self.analysis.runs
        snapshot = self.state.snapshot(uri, runs.in_flight, runs.queue.waiting)
        if snapshot is None:
            return None
        fixes = self.analysis.fixes
        first = {
            key: fix
            for key, capture in snapshot.captures.items()
            if (fix := fixes.attempts.first_fix(capture))
        }
        asked = frozenset(key for key in self.analysis.consent.asked if key.path == snapshot.path)
        on_choice = frozenset(filter(self.analysis.permissions.runs_on_request, snapshot.captures))
        background = self.analysis.background_runs.automatic
        return dataclasses.replace(
            snapshot, first_fixes=first, asked=asked, on_choice=on_choice, background=background
        )

    def announce(self, method: str, params: object) -> None:
        """Send one of our notifications, if the client has asked for it: to others it is an unknown message."""
        if method in self.state.client.notifications:
            self.protocol.notify(method, params)

    def spawn(self, work: Coroutine[Any, Any, Any], what: str) -> None:
        """Run `work` on the loop; its failure is logged as that of `what`."""
        self.tasks.start(work, what)

    def failed(self, what: str, error: BaseException) -> None:
        """Log a failure, and show the user once per feature that the log has it."""
        self.state.log(
            f"{what} failed (fuselight {self.version}, Python {platform.python_version()}, "
            f"pygls {installed('pygls')}): {error!r}\n{trace_of(error)}"
        )
        if what not in self._shown_failures:
            self._shown_failures.add(what)
            self.window_show_message(
                types.ShowMessageParams(
                    type=types.MessageType.Error,
                    message=f"Fuselight: {what} failed ({type(error).__name__}). The log has the details.",
                )
            )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log a message that pygls could not handle; a request has been answered with an error."""
        if source is not FeatureRequestError:
            cause = error.__cause__ or error
            words = " ".join(f"{type(cause).__name__}: {cause}"[:_LOGGED].split())
            self.state.log(f"message not handled: {words}")


def register(
    server: Server, method: str, handler: Callable[[Server, Any], Any], options: object = None
) -> None:
    """Let `handler` answer `method`."""
    server.feature(method, options)(_guarded(server, method, handler))


def register_command(server: Server, name: str, handler: Callable[[Server, dict[str, Any]], Any]) -> None:
    """Let `handler` answer the command `name`; it gets the first argument, empty where that is no object."""
    chosen = _answered_early(handler, name) if inspect.iscoroutinefunction(handler) else handler
    server.command(name)(_guarded(server, name, chosen, _options))


def _answered_early(
    handler: Callable[[Server, dict[str, Any]], Coroutine[Any, Any, Any]], name: str
) -> Callable[[Server, dict[str, Any]], Coroutine[Any, Any, Any]]:
    """Answer a command that takes long with nothing, for a client that does not wait, while it goes on."""

    async def answered(server: Server, options: dict[str, Any]) -> Any:
        if server.state.client.long_commands:
            return await handler(server, options)
        work = asyncio.ensure_future(handler(server, options))
        finished, _ = await asyncio.wait({work}, timeout=COMMAND_SECONDS)
        if finished:
            return work.result()
        server.spawn(_result_of(work), name)
        return None

    return answered


async def _result_of(work: asyncio.Future[Any]) -> Any:
    return await work


def _options(*arguments: Any) -> dict[str, Any]:
    return arguments[0] if arguments and isinstance(arguments[0], dict) else {}


def _guarded(
    server: Server,
    method: str,
    handler: Callable[[Server, Any], Any],
    read: Callable[..., Any] = lambda params: params,
) -> Callable[..., Any]:
    """Wrap `handler`, which gets what `read` makes of the parameters."""

    @contextlib.contextmanager
    def answered() -> Iterator[None]:
        try:
            yield
        except JsonRpcException:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary where a defect of ours stops
            server.failed(method, error)
            message = f"{method} failed: {type(error).__name__}. Fuselight's log has the details."
            raise JsonRpcInternalError(message=message) from None

    async def guarded_async(*params: Any) -> Any:
        with answered():
            return await handler(server, read(*params))

    def guarded(*params: Any) -> Any:
        with answered():
            return handler(server, read(*params))

    chosen = guarded_async if inspect.iscoroutinefunction(handler) else guarded
    # pygls asks of an annotation whether it is a subclass of its server, which Any is no class for before Python 3.11,
    # and whether the server is an instance of it, when the server goes in first. Without annotations it asks nothing.
    chosen.__annotations__.clear()
    return chosen
