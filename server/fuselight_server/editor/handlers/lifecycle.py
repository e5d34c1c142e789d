"""Start and end: what the client can do, which folders there are, when to stop."""

from __future__ import annotations

import logging
import os

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder

from fuselight_server.base.process_ends import has_ended
from fuselight_server.editor.handlers import configuration, diagnostics, disk_polling, files, views
from fuselight_server.editor.handlers.client_features import client_features
from fuselight_server.editor.handlers.server import Server, register
from fuselight_server.editor.messages.params import TrustParams

PARENT_SECONDS = 2.0
"""Seconds between two checks of the client's process, on systems without an event for its end."""


def initialize(server: Server, params: types.InitializeParams) -> None:
    """Read the client's capabilities and folders before the answer."""
    options = params.initialization_options if isinstance(params.initialization_options, dict) else {}
    state = server.state
    state.trusted = options.get("trusted") is not False
    state.client_settings = configuration.initial_settings(options)
    state.client = client_features(params.capabilities, options)
    server.encoding = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
    folders = list(params.workspace_folders or ())
    if not folders and params.root_uri:
        folders = [types.WorkspaceFolder(uri=params.root_uri, name="")]
    configuration.add_folders(server, folders)
    if not state.client.push:
        options_ = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False)
        register(server, types.TEXT_DOCUMENT_DIAGNOSTIC, diagnostics.pull, options_)
    if params.process_id is not None:
        server.spawn(leave_with(server, params.process_id), "watching the client")


def initialized(server: Server, _params: types.InitializedParams) -> None:
    """Read settings and watch files, once the client listens."""
    server.spawn(_begin(server), "starting")


async def _begin(server: Server) -> None:
    if server.state.client.watch:
        await _register(
            server,
            "fuselight-files",
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
            types.DidChangeWatchedFilesRegistrationOptions(watchers=files.WATCHERS),
        )
    else:
        server.spawn(disk_polling.poll(server), "looking for changed files")
    if server.state.client.text_content:
        options = types.TextDocumentContentRegistrationOptions(schemes=[views.SCHEME])
        await _register(server, "fuselight-texts", types.WORKSPACE_TEXT_DOCUMENT_CONTENT, options)
    await configuration.start_folders(server)


async def _register(server: Server, identity: str, method: str, options: object) -> None:
    """Register what the client lets a server register after the start."""
    registration = types.Registration(id=identity, method=method, register_options=options)
    await server.client_register_capability_async(types.RegistrationParams([registration]))


def trust(server: Server, params: TrustParams) -> None:
    """Answer `fuselight/trust`. Revoked trust ends every run; granted trust loads the last runs of the folders."""
    server.state.trusted = params.trusted
    if params.trusted:
        server.spawn(configuration.load_results(server), "reading the last runs")
    else:
        server.spawn(server.analysis.restart(None), "stopping workers")
    server.spawn(server.analysis.agents.apply(), "listening for agents")
    server.ui.runs_changed()


async def shutdown(server: Server, _params: None) -> None:
    """End runs and workers before the answer, so that no process outlives `exit`."""
    server.repros.end()
    await server.analysis.close()


async def leave_with(server: Server, process_id: int) -> None:
    """End this process when the client's ends: its pipe may be held open by others."""
    if await has_ended(process_id, PARENT_SECONDS):
        await _leave(server)


async def _leave(server: Server) -> None:
    logging.getLogger(__name__).warning("the client is gone")
    server.repros.end()
    await server.analysis.close()
    os._exit(1)  # a thread still reads stdin, which nothing will end
