"""The server's commands. Any argument of a client may be missing or of another type."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from lsprotocol import types

from fuselight.shared.codec import encode
from fuselight.shared.report import Tier
from fuselight_server.base.finding import Span
from fuselight_server.base.formatting import format_count
from fuselight_server.base.markdown import code_block, code_span
from fuselight_server.base.store import Store
from fuselight_server.base.views import forget_views
from fuselight_server.editor.handlers.server import Server, installed
from fuselight_server.editor.messages.answers import OfferedDevice
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import PROGRAM
from fuselight_server.editor.results.finding_hover import markdown
from fuselight_server.editor.results.lens_facts import SHOW_FIRST
from fuselight_server.editor.results.shown_findings import shown_findings
from fuselight_server.editor.session.target_device import offered
from fuselight_server.execution.runs.kernel_cache import forget
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.last_results import forget_results
from fuselight_server.execution.worker_client.process import PRINTED
from fuselight_server.explain.benchmarks import history
from fuselight_server.explain.searches.last_search import forget_searches

LOG_TAIL = 120
"""Lines of the log in a problem report."""


def path_in(options: dict[str, Any], key: str = "uri") -> str | None:
    """Return the path of the URI that a command was given; None where that names no file."""
    uri = options.get(key)
    return convert.path(uri) if isinstance(uri, str) else None


def run(server: Server, options: dict[str, Any], tier: Tier = Tier.CAPTURE) -> None:
    """Run a target, or what a file compiles."""
    path, target = path_in(options), options.get("target")
    if path is None:
        server.ui.say("Fuselight runs files only: save this to a file first.", error=False)
    else:
        server.analysis.requests.command(path, target if isinstance(target, str) else None, tier)


async def show_first(server: Server, options: dict[str, Any]) -> None:
    """Show the line of a target that is to be fixed first, in whichever file it is."""
    path, target = path_in(options), options.get("target")
    result = server.state.captures.get(Key(path, target)) if path and isinstance(target, str) else None
    line = result.first_line if result is not None else None
    if line is not None:
        span = Span(line.path, line.line)
        place = convert.range_(span, server.view)
        shown = types.ShowDocumentParams(
            uri=server.uri_of(span.path),
            take_focus=True,
            selection=types.Range(start=place.start, end=place.start),
        )
        await server.window_show_document_async(shown)


def kernels(server: Server, options: dict[str, Any]) -> None:
    """Generate the kernels of a target, or of what a file compiles."""
    run(server, options, Tier.KERNELS)


def cancel(server: Server, options: dict[str, Any]) -> None:
    """Cancel the runs of a file, or all."""
    server.analysis.cancel(path_in(options))


async def restart_worker(server: Server, options: dict[str, Any]) -> None:
    """Stop the workers of a folder, or all; the next run starts fresh ones."""
    await server.analysis.restart(path_in(options, "folder"))


def ask_again(server: Server, options: dict[str, Any]) -> None:
    """Forget the answer whether code may run in a folder; a client that keeps answers has forgotten its copy."""
    path = path_in(options, "folder") or path_in(options)
    if path is not None:
        folder = server.state.folder_of(path)
        server.ui.forget_answers(folder)
        server.analysis.consent.forget_folder(folder)
        server.analysis.agents.forget_folder(folder)
        server.analysis.live.settings_changed()
        server.ui.runs_changed()


def clear_caches(server: Server, _options: dict[str, Any]) -> None:
    """Forget every result, here and in the folders' stores."""
    stores = {Store(Path(key.path).parent) for key in server.state.results if key.name == PROGRAM}
    stores |= {
        Store.at(Path(folder.path)) for folder in server.state.folders.values() if folder.uri is not None
    }
    stores |= {Store.of(Path(key.path)) for key in server.state.results if key.name != PROGRAM}
    stores |= {
        Store.of(Path(document.path)) for document in server.state.documents.values() if document.runnable
    }
    server.state.drop(server.state.results)
    for store_folder in list(server.state.failed_tests):
        server.state.accept_failed_tests(store_folder, ())
        stores.add(Store(Path(store_folder)))
    server.analysis.notices.show_changes()  # before the answer
    server.ui.runs_changed()
    for store in stores:
        try:
            forget(store)
            history.forget(store)
            forget_searches(store)
            forget_results(store)
            forget_views(store)
            store.clear()
        except OSError as error:
            server.ui.say(f"{store.folder} could not be cleared: {error.strerror or error}", error=True)


def devices(server: Server, options: dict[str, Any]) -> list[OfferedDevice]:
    """List the devices that kernels can be generated for, the current one of a folder marked."""
    path = path_in(options, "folder")
    settings = server.state.folder_of(path).settings if path is not None else server.state.outside_settings()
    return offered(settings)


def copy_finding(server: Server, options: dict[str, Any]) -> str | None:
    """Return the finding of a code on a line as Markdown; without a code, every finding of the line."""
    path, code = path_in(options), options.get("code")
    line = convert.line_of(options.get("line"))
    if path is None or line is None:
        return None
    parts = [
        markdown(finding, edited=item.edited)
        + f"\n\n{code_span(f'{finding.span.path}:{finding.span.line}')}\n\n"
        + code_block((server.state.documents.read_line(path, finding.span.line) or "").strip(), "python")
        for item in shown_findings(server.state.view(), path)
        for finding in (item.finding,)
        if finding.span.line - 1 <= line <= (finding.span.end_line or finding.span.line) - 1
        and code in (None, finding.code)
    ]
    return "\n\n---\n\n".join(parts) or None


def problem_report(server: Server, _options: dict[str, Any]) -> str:
    """Return versions, settings and the end of the log, without the user's code."""
    lines = ["## Versions", ""]
    lines += [f"- fuselight {server.version}", f"- Python {platform.python_version()}, {platform.platform()}"]
    lines += [f"- {name} {installed(name)}" for name in ("pygls", "lsprotocol", "tree-sitter")]
    lines.append(f"- server: {sys.executable}")
    for folder in server.state.folders.values():
        interpreter = server.analysis.workers.interpreter(folder) if folder.path else None
        worker = server.analysis.workers.of_folder(folder)
        settings = {key: value for key, value in encode(folder.settings).items() if key != "environment"}
        lines += [
            "",
            f"## Folder {folder.path or '(files outside folders)'}",
            "",
            f"- interpreter: {interpreter.executable if interpreter else 'none'}",
            f"- worker: {_worker_words(worker.hello if worker else None)}",
            f"- consent: {folder.consent}; problem: {folder.problem or 'none'}",
            f"- settings: {settings or 'defaults'}",
        ]
    log = [line for line in server.state.log_lines if PRINTED not in line]
    printed = len(server.state.log_lines) - len(log)
    lines += ["", "## Log", "", "```", *log[-LOG_TAIL:], "```", ""]
    if printed:
        lines.append(f"Skipped: {format_count(printed, 'line')} that the program printed.")
    return "\n".join(lines)


def _worker_words(hello: Any) -> str:
    if hello is None:
        return "not started"
    versions = hello.versions
    return f"pid {hello.pid}, Python {versions.python}, torch {versions.torch}, triton {versions.triton}"


def stop_following(server: Server, _options: dict[str, Any]) -> None:
    """Read on in no log of a job; what was read stays."""
    server.analysis.jobs.stop_following()


COMMANDS = {
    "fuselight.server.run": run,
    "fuselight.server.kernels": kernels,
    SHOW_FIRST: show_first,
    "fuselight.server.cancel": cancel,
    "fuselight.server.stopFollowing": stop_following,
    "fuselight.server.askAgain": ask_again,
    "fuselight.server.restartWorker": restart_worker,
    "fuselight.server.clearCaches": clear_caches,
    "fuselight.server.devices": devices,
    "fuselight.server.copyFinding": copy_finding,
    "fuselight.server.problemReport": problem_report,
}
