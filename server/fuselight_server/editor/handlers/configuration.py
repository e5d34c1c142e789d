"""Settings: pulled from the client per folder, applied without a restart.

Invariant: after a change every folder has the settings that the client gives for it, and only workers whose
interpreter or environment changed are stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from fuselight_server.base.settings import Settings, parse_settings
from fuselight_server.base.store import Store
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.messages.params import FolderParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.run_ends import INTERPRETER_CHANGED
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.target_device import choose

SECTION = "fuselight"
CHOOSE_DEVICE = "fuselight.chooseDevice"
"""The client's command."""


def changed(server: Server, params: types.DidChangeConfigurationParams) -> None:
    """Answer `workspace/didChangeConfiguration`."""
    if isinstance(params.settings, dict):
        settings: Mapping[str, Any] = params.settings
        if SECTION in settings or not server.state.client.configuration:
            server.state.client_settings = settings.get(SECTION, settings)
    server.spawn(pull(server), "reading settings")


def interpreter_changed(server: Server, _params: FolderParams) -> None:
    """Answer `fuselight/interpreterChanged`: each folder's settings say whose interpreter changed."""
    server.spawn(pull(server), "reading settings")


async def look_again(server: Server, _params: FolderParams) -> None:
    """Answer `fuselight/lookAgain`: take in each folder's interpreter, and try again where none could run code."""
    await pull(server)
    for folder in list(server.state.folders.values()):
        if folder.problem is not None:
            await server.analysis.restart(folder.path)


def initial_settings(options: Mapping[str, Any]) -> object:
    """Return the settings in `initializationOptions`: under `settings`, or under the name of their section."""
    settings = options.get("settings")
    settings = options.get(SECTION) if settings is None else settings
    return settings[SECTION] if isinstance(settings, dict) and SECTION in settings else settings


async def pull(server: Server) -> None:
    """Ask for the settings of every folder and apply what changed, one such pull after the other."""
    async with server.reading_settings:
        await _pull(server)


async def _pull(server: Server) -> None:
    if "" not in server.state.folders:
        server.state.folders[""] = Folder(path="", uri=None, consent="unknown")
    folders = [folder for key, folder in server.state.folders.items() if folder.uri is not None or key == ""]
    shown: set[str] = set()
    bounds = {folder.path: _bounds(folder.settings) for folder in folders}
    for folder, data in zip(folders, await _ask(server, folders), strict=False):
        settings, warnings = parse_settings(data)
        for warning in warnings:
            if warning not in shown:  # the folders share the user's own settings
                server.state.log(f"settings: {warning}")
                server.ui.say(f"Fuselight: {warning}.", error=False)
            shown.add(warning)
        await _apply(server, folder, settings)
    if any(_bounds(folder.settings) != bounds[folder.path] for folder in folders):
        server.analysis.intake.rederive()
    for problem in {choose(folder.settings).problem for folder in folders} - {None}:
        server.state.log(f"settings: {problem}")
        if CHOOSE_DEVICE not in server.state.client.commands:  # else the client says it, from the status
            server.ui.say(f"Fuselight: {problem}", error=False)
    server.analysis.early.end()
    server.ui.runs_changed()
    server.analysis.live.settings_changed()
    server.state.mark_findings(document.path for document in server.state.documents.values())
    await server.analysis.agents.apply()


async def _ask(server: Server, folders: Sequence[Folder]) -> Sequence[Any]:
    if not server.state.client.configuration:
        return [server.state.client_settings] * len(folders)
    items = [types.ConfigurationItem(scope_uri=folder.uri, section=SECTION) for folder in folders]
    try:
        answers = await server.workspace_configuration_async(types.ConfigurationParams(items=items))
        # Some clients can be asked, and answer nothing where the user has put the settings elsewhere.
        return [server.state.client_settings if answer is None else answer for answer in answers]
    except Exception as error:  # noqa: BLE001 - runs wait for the settings: they go on with those that there are
        server.state.log(f"settings: the client did not tell them, so that nothing changes: {error!r}")
        return ()


def _bounds(settings: Settings) -> tuple[object, ...]:
    """From where on something is a finding: what is known is looked through again when it changes."""
    return settings.guards, settings.kernels.advise_from_percent, settings.kernels.advise_repeats


async def _apply(server: Server, folder: Folder, settings: Any) -> None:
    before, folder.settings = folder.settings, settings
    if before == settings:
        return
    same_worker = (
        before.resolved_interpreter == settings.resolved_interpreter
        and before.interpreter == settings.interpreter
        and before.environment == settings.environment
    )
    affected = [folder]
    if folder.path == "":
        affected = [folder for folder in server.state.folders.values() if folder.uri is None]
        for other_folder in affected:
            other_folder.settings = settings
    if not same_worker:
        for other_folder in affected:
            await server.analysis.restart(other_folder.path, INTERPRETER_CHANGED)
    if (before.code_lens, before.kernels) != (settings.code_lens, settings.kernels):
        server.ui.refresh_lenses()
    if before.inlay_hints != settings.inlay_hints:
        server.ui.refresh_hints()


def folders_changed(server: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Answer `workspace/didChangeWorkspaceFolders`."""
    for gone in params.event.removed:
        path = convert.path(gone.uri)
        if path is not None and server.state.folders.pop(path, None) is not None:
            server.spawn(server.analysis.restart(path), "stopping a worker")
            server.analysis.documents.remove_path(path)
    add_folders(server, params.event.added)
    server.spawn(start_folders(server), "adding folders")


def add_folders(server: Server, folders: Sequence[types.WorkspaceFolder]) -> None:
    """Take in workspace folders; those that are not on a disk are left out."""
    for folder in folders:
        path = convert.path(folder.uri)
        if path is not None and (path not in server.state.folders or not server.state.folders[path].uri):
            server.state.folders[path] = Folder(path=path, uri=folder.uri)


async def start_folders(server: Server) -> None:
    """Read the settings of every folder, and what earlier sessions and the last `fuselight run` in it found."""
    await pull(server)
    await load_results(server)


async def load_results(server: Server) -> None:
    """Read what earlier sessions and the last `fuselight run` in each folder found."""
    for folder in list(server.state.folders.values()):
        if folder.uri is not None:
            await server.analysis.program_reports.load(Store.at(Path(folder.path)))
            await server.analysis.failed_tests.load(Store.at(Path(folder.path)))
            await server.analysis.stored.show(Store.at(Path(folder.path)))
    for document in list(server.state.documents.values()):
        if document.runnable:
            await server.analysis.stored.show_for(document.path)
