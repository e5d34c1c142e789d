"""The language server's process: its pipes, its parts, its registrations.

Invariant: the protocol owns the pipes that were stdin and stdout; whatever else writes to file descriptor 1 goes to
stderr. torch and the user's code are never imported here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lsprotocol import types
from pygls.io_ import run_async

from fuselight_server.base.interrupts import INTERRUPTED, STOPPED, raise_at_interrupts
from fuselight_server.base.pipes import ThreadedWriter, own_pipes
from fuselight_server.base.settings import Interpreter, Settings
from fuselight_server.editor.handlers import (
    agents,
    bench,
    code_action,
    code_lens,
    commands,
    configuration,
    doctor,
    files,
    fix_actions,
    fix_commands,
    forecast_actions,
    graphs,
    hover,
    inlay_hints,
    inputs,
    jobs,
    kernel_documents,
    lifecycle,
    on_demand,
    protocol,
    report_tree,
    repro,
    status,
    sync,
    target_at,
    tune,
    views,
)
from fuselight_server.editor.handlers.lsp_ui import LspUi
from fuselight_server.editor.handlers.pipes import BoundedReader
from fuselight_server.editor.handlers.server import OneLine, Server, register, register_command
from fuselight_server.editor.handlers.work_progress import VerificationProgress
from fuselight_server.editor.session.analysis import Analysis
from fuselight_server.editor.session.repros import ReproSession
from fuselight_server.execution.interpreters import expand, first

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from fuselight_server.editor.session.state import Folder
    from fuselight_server.execution.runs.keys import WorkerKey
    from fuselight_server.execution.runs.queue import OwnedWorker

LAST_WORDS = 2.0
"""Seconds that a client has to read the last messages."""


def main() -> None:
    """Serve one client on stdin and stdout until it leaves."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OneLine())
    raise_at_interrupts()
    stdin, stdout = own_pipes()
    server = make_server()
    code = 0
    try:
        asyncio.run(_serve(server, stdin, stdout))
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BrokenPipeError:
        code = 1
    except KeyboardInterrupt:
        sys.stderr.write(STOPPED)
        code = INTERRUPTED
    sys.stderr.flush()
    os._exit(code)  # not sys.exit: a thread may still wait for stdin, and would be waited for


async def _serve(server: Server, stdin: BinaryIO, stdout: BinaryIO) -> None:
    stop: Event = server.stop_event
    writer = ThreadedWriter(stdout)
    server.protocol.set_writer(writer)
    try:
        await run_async(
            stop_event=stop,
            reader=BoundedReader(
                stdin,
                server.thread_pool,
                logging.getLogger(__name__).warning,
                server.wire.refuse_deep,
            ),
            protocol=server.protocol,
            logger=logging.getLogger("pygls"),
            error_handler=server.report_server_error,
        )
    finally:
        with contextlib.suppress(Exception):  # the process ends now, whatever a worker does
            server.repros.end()
            await server.analysis.close()
        writer.drain(LAST_WORDS)


def make_server(
    make_worker: Callable[[WorkerKey, Settings, Callable[[str], None]], OwnedWorker] | None = None,
) -> Server:
    """Put the parts together. `make_worker` is for tests; None: real ones."""
    server = Server()
    server.ui = LspUi(server)
    server.analysis = Analysis(
        server.state,
        server.ui,
        make_worker=make_worker or _worker,
        find_interpreter=find_interpreter,
        tasks=server.tasks,
    )
    server.state.on_log = lambda line: server.window_log_message(
        types.LogMessageParams(type=types.MessageType.Log, message=line)
    )
    server.verifications = VerificationProgress(server)
    server.analysis.fixes.tasks.on_change = server.verifications.update
    server.job_progress = jobs.JobProgress(server)
    server.repro_progress = repro.ReproProgress(server)
    server.repros = ReproSession(server.analysis.agents.unsaved_texts, server.state.log)
    server.repros.on_change = server.repro_progress.update
    server.analysis.jobs.on_change = server.job_progress.update
    _register(server)
    return server


def _register(server: Server) -> None:
    for method, handler in (
        (types.INITIALIZE, lifecycle.initialize),
        (types.INITIALIZED, lifecycle.initialized),
        (types.SHUTDOWN, lifecycle.shutdown),
        (types.TEXT_DOCUMENT_DID_OPEN, sync.opened),
        (types.TEXT_DOCUMENT_DID_CHANGE, sync.changed),
        (types.TEXT_DOCUMENT_WILL_SAVE, sync.will_save),
        (types.TEXT_DOCUMENT_DID_SAVE, sync.saved),
        (types.TEXT_DOCUMENT_DID_CLOSE, sync.closed),
        (types.NOTEBOOK_DOCUMENT_DID_OPEN, sync.notebook_opened),
        (types.NOTEBOOK_DOCUMENT_DID_CHANGE, sync.notebook_changed),
        (types.NOTEBOOK_DOCUMENT_DID_SAVE, sync.notebook_saved),
        (types.NOTEBOOK_DOCUMENT_DID_CLOSE, sync.notebook_closed),
        (types.TEXT_DOCUMENT_HOVER, hover.hover),
        (types.WORKSPACE_DID_CHANGE_CONFIGURATION, configuration.changed),
        (types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, configuration.folders_changed),
        (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, files.watched_changed),
        (types.WORKSPACE_TEXT_DOCUMENT_CONTENT, views.text_content),
        (types.WINDOW_WORK_DONE_PROGRESS_CANCEL, status.cancelled),
        (protocol.TRUST, lifecycle.trust),
        (protocol.INTERPRETER_CHANGED, configuration.interpreter_changed),
        (protocol.LOOK_AGAIN, configuration.look_again),
        (protocol.REPORT_TREE, report_tree.report_tree),
        (protocol.TARGET_AT, target_at.answer),
        (protocol.KERNELS_AT, kernel_documents.kernels_at),
        (protocol.KERNEL_DOCUMENT, kernel_documents.kernel_document),
        (protocol.KERNEL_LINES, kernel_documents.kernel_lines),
        (protocol.GRAPHS, graphs.answer),
        (protocol.MEASURED, bench.answer),
        (protocol.MEASURED_EXPORT, bench.export),
        (protocol.TUNED, tune.answer),
        (protocol.DOCTOR, doctor.examine),
        (protocol.OPEN_JOB, jobs.open_job),
        (protocol.CLOSE_JOB, jobs.close_job),
        (protocol.JOB, jobs.answer_page),
        (protocol.AGENT_ADDRESS, agents.agent_address),
    ):
        register(server, method, handler)
    register(server, types.TEXT_DOCUMENT_CODE_LENS, code_lens.code_lens, types.CodeLensOptions())
    register(
        server,
        types.TEXT_DOCUMENT_CODE_ACTION,
        code_action.code_action,
        types.CodeActionOptions(
            code_action_kinds=[types.CodeActionKind.QuickFix, fix_actions.FIX_ALL, code_action.RUN_KIND],
            resolve_provider=True,
        ),
    )
    register(server, types.CODE_ACTION_RESOLVE, fix_commands.resolve)
    register(server, types.TEXT_DOCUMENT_INLAY_HINT, inlay_hints.inlay_hints, types.InlayHintOptions())
    register(server, types.WORKSPACE_DID_RENAME_FILES, files.renamed, files.PYTHON_FILES)
    register(server, types.WORKSPACE_DID_DELETE_FILES, files.deleted, files.PYTHON_FILES)
    for name, command in COMMANDS.items():
        register_command(server, name, command)


COMMANDS = {
    **commands.COMMANDS,
    **bench.COMMANDS,
    **tune.COMMANDS,
    **on_demand.COMMANDS,
    **fix_commands.COMMANDS,
    **inputs.COMMANDS,
    **forecast_actions.COMMANDS,
    **repro.COMMANDS,
    **code_action.COMMANDS,
    **views.COMMANDS,
}


def _worker(worker_key: WorkerKey, settings: Settings, log: Callable[[str], None]) -> OwnedWorker:
    from fuselight_server.execution.worker_client.client import Worker  # noqa: PLC0415 - the first run needs it

    return Worker(
        Interpreter(worker_key.executable, worker_key.args),
        cwd=worker_key.folder,
        env={**os.environ, **dict(worker_key.environment)},
        log=log,
        idle_seconds=settings.idle_minutes * 60,
        # Sampling stops the process, which would falsify the measured times.
        sample_after=0.0 if worker_key.for_benchmarks else settings.sample_after_seconds,
    )


def find_interpreter(folder: Folder) -> Interpreter | None:
    """Look for the interpreter of a folder, for a client that names none."""
    if folder.settings.interpreter:
        named = expand(folder.settings.interpreter, Path(folder.path), os.environ)
        return Interpreter(named, why="`fuselight.interpreter`")
    return first(Path(folder.path), os.environ, active_first=False)


if __name__ == "__main__":
    main()
