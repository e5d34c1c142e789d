"""Commands for clients without windows of ours: each writes a page or a text into `.fuselight/views/` and shows it.

Invariant: what cannot be shown is answered with a message that says what to do, never with an error. The pages are
those of the extension. A text of a kernel is in no file where the client can ask for its content.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from lsprotocol import types

from fuselight_server.base.formatting import format_count
from fuselight_server.base.store import Store
from fuselight_server.base.views import view_name, write_view
from fuselight_server.editor.handlers import bench, graphs, jobs, kernel_documents, report_tree, tune
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.target_at import UNSAVED, NoTargetError, asked_target
from fuselight_server.editor.messages.answers import KernelEntry, OpenedJobs
from fuselight_server.editor.messages.params import (
    CloseJobParams,
    GraphsParams,
    KernelDocumentParams,
    KernelsAtParams,
    MeasuredParams,
    OpenJobParams,
    ReportTreeParams,
    TunedParams,
)
from fuselight_server.editor.presenters import client_commands, convert
from fuselight_server.editor.presenters.job_page import closed_page
from fuselight_server.editor.presenters.report_page import report_page
from fuselight_server.editor.results.shown_findings import is_address
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.kernels.documents import SOURCE
from fuselight_server.explain.pages.document import NotBuiltError, standalone_page

SHOW_GRAPHS = "fuselight.server.showGraphs"
OPEN_JOB = "fuselight.server.openJob"
CLOSE_JOB = "fuselight.server.closeJob"
SCHEME = "fuselight-kernel"
"""Of the URI of a kernel's text, as the extension makes it."""
_MAX_ASKED = 8
"""Kernels that a question offers."""


# Pages


@dataclass(frozen=True)
class _Subject:
    """A target of a file; the name is empty for the `__main__` block."""

    path: str
    target: str


@dataclass(frozen=True)
class _PageKind:
    """The pages of one script of the extension."""

    title: str
    script: str
    lens: str
    """Title of the lens that makes what the page shows."""


_BENCHMARK = _PageKind("Benchmark", "bench", "Benchmark")
_TUNING = _PageKind("Tuning", "tune", "Tune")
_GRAPHS = _PageKind("Graphs", "graphs", "Run")


async def show_benchmark(server: Server, options: dict[str, Any]) -> None:
    """Show the page of a target's last benchmark, or say how it stands."""

    async def page(subject: _Subject) -> Any:
        return await bench.measured(server, MeasuredParams(server.uri_of(subject.path), subject.target))

    await _show_page(server, options, _BENCHMARK, page)


async def show_tuning(server: Server, options: dict[str, Any]) -> None:
    """Show the page of a target's last search, or say how it stands."""

    async def page(subject: _Subject) -> Any:
        return await tune.tuned(server, TunedParams(server.uri_of(subject.path), subject.target))

    await _show_page(server, options, _TUNING, page)


async def show_graphs(server: Server, options: dict[str, Any]) -> None:
    """Show the graphs of a target."""

    async def page(subject: _Subject) -> Any:
        return graphs.graphs(server, GraphsParams(server.uri_of(subject.path), subject.target))

    await _show_page(server, options, _GRAPHS, page)


async def _show_page(
    server: Server,
    options: dict[str, Any],
    kind: _PageKind,
    page_of: Callable[[_Subject], Awaitable[Any]],
) -> None:
    """Show the page of the target that a command names or points at; where it has no data, say what to do.

    A line whose own target has no page shows the one of the file that has, such as the `__main__` block's.
    """
    try:
        reading, name = asked_target(server, path_in(options), options, kind.lens)
    except NoTargetError as error:
        message = str(error)
    else:
        subject = _Subject(reading.path, name)
        page = await page_of(subject)
        if page.found:
            await _show_found(server, subject, kind, page)
            return
        message = page.message
    pages = {} if isinstance(options.get("target"), str) else await _pages(server, options, page_of)
    if not pages:
        server.ui.say(message, error=False)
        return
    first, *others = pages
    chosen = await server.ui.offer("Which target?", tuple(pages)[:_MAX_ASKED]) if others else first
    if chosen in pages:
        await _show_found(server, pages[chosen][0], kind, pages[chosen][1])


async def _pages(
    server: Server, options: dict[str, Any], page_of: Callable[[_Subject], Awaitable[Any]]
) -> dict[str, tuple[_Subject, Any]]:
    """The pages of a file that have data, by the names of their targets."""
    path = path_in(options)
    reading = server.analysis.targets.reading(path) if path is not None and server.state.trusted else None
    if reading is None:
        return {}
    main = [""] if reading.main_line is not None else []
    names = dict.fromkeys((*(target.name for target in reading.targets), *main))
    subjects = [_Subject(reading.path, name) for name in names]
    pages = {subject.target or MAIN: (subject, await page_of(subject)) for subject in subjects}
    return {name: (subject, page) for name, (subject, page) in pages.items() if page.found}


async def _show_found(server: Server, subject: _Subject, kind: _PageKind, page: Any) -> None:
    """Write and show a page that has data."""
    file = os.path.basename(subject.path)  # noqa: PTH119 - paths stay text
    name = view_name(kind.title.lower(), file, subject.target or MAIN, of=subject.path)
    title = f"{kind.title}: {page.title}"
    await write_and_show(
        server, Store.of(Path(subject.path)), name, lambda: standalone_page(page, title, kind.script)
    )


async def show_job(server: Server, options: dict[str, Any]) -> None:
    """Show the page of an open job: the one that is named, else the last one that was opened."""
    wanted, against = options.get("job"), options.get("against")
    job = server.state.jobs.get(wanted) if isinstance(wanted, str) else None
    if job is None and wanted is None:
        job = next(reversed(list(server.state.jobs.values())), None)
    if job is None:
        text = closed_page(wanted).message if isinstance(wanted, str) else ""
        server.ui.say(text or f"No job is open: open its logs with `{OPEN_JOB}`.", error=False)
        return
    page = await jobs.page(server, job, against if isinstance(against, str) else None)
    folder = next((Path(folder.path) for folder in server.state.folders.values() if folder.uri), None)
    if folder is None:
        server.ui.say(
            "No page: open a folder in the editor, so that the page of the job has a place.", error=False
        )
    else:
        name = view_name("job", job.opened.name, of=job.source)
        await write_and_show(
            server, Store.at(folder), name, lambda: standalone_page(page, f"Job: {page.title}", "job")
        )


async def show_details(server: Server, options: dict[str, Any]) -> None:
    """Show the report of a target, or of each target that a file is part of."""
    path, target = path_in(options), options.get("target")
    if path is None:
        server.ui.say(UNSAVED, error=False)
        return
    tree = await report_tree.report_tree(server, ReportTreeParams(server.uri_of(path)))
    name = "" if target == MAIN else target
    nodes = [
        node
        for node in tree["nodes"]
        if not isinstance(name, str) or (node["target"] is not None and node["target"]["target"] == name)
    ]
    if not nodes:
        server.ui.say(f"No report of {target or 'this file'} is available: run it first.", error=False)
        return
    title = f"{target or os.path.basename(path)}"  # noqa: PTH119 - paths stay text
    file = view_name("report", os.path.basename(path), str(target or ""), of=path)  # noqa: PTH119 - the same
    await write_and_show(server, Store.of(Path(path)), file, lambda: report_page(title, nodes))


# Kernels


async def show_kernel(server: Server, options: dict[str, Any]) -> None:
    """Show the source of a kernel of some lines; where there are several, the user chooses."""
    path, target = path_in(options), options.get("target")
    if path is None:
        server.ui.say(UNSAVED, error=False)
        return
    params = KernelsAtParams(
        server.uri_of(path),
        line=convert.line_of(options.get("line")),
        last=convert.line_of(options.get("last")),
        target=target if isinstance(target, str) else None,
    )
    entries = kernel_documents.kernels_at(server, params)["kernels"]
    if not entries:
        server.ui.say("No kernels of these lines are available: press Kernels above the target.", error=False)
        return
    entry = entries[0] if _sources(entries) == 1 else await _chosen(server, entries)
    if entry is not None:
        await _show_kernel(server, entry)


def _sources(entries: list[KernelEntry]) -> int:
    return sum(entry["form"] == SOURCE for entry in entries)


async def _chosen(server: Server, entries: list[KernelEntry]) -> KernelEntry | None:
    titles = {f"{entry['label']} ({entry['description']})": entry for entry in entries}
    offered = list(titles)[:_MAX_ASKED]
    left = len(titles) - len(offered)
    more = f" {format_count(left, 'more text')} of these lines: use the line of a kernel." if left else ""
    answer = await server.ui.offer(f"Which kernel?{more}", tuple(offered))
    return titles.get(answer or "")


async def _show_kernel(server: Server, entry: KernelEntry) -> None:
    named = {
        "uri": entry["uri"],
        "target": entry["target"],
        "kernel": entry["kernel"],
        "form": entry["form"],
    }
    if server.state.client.text_content:
        place = quote(f"/{entry['target'] or MAIN}/{entry['name']}".replace("//", "/"))
        uri = f"{SCHEME}:{place}?{urlencode(named)}"
        server.shown_texts[uri] = None
        await _show(server, uri, f"The source of {entry['label']}", is_page=False)
        return
    text = _kernel_text(server, named)
    path = convert.path(named["uri"]) or ""
    stem, _, ending = entry["name"].rpartition(".")
    file = view_name(stem, of="\0".join((path, entry["target"], entry["kernel"])), ending=ending)
    await write_and_show(server, Store.of(Path(path)), file, lambda: text, is_page=False)


def _kernel_text(server: Server, named: dict[str, str]) -> str:
    return kernel_documents.kernel_document(server, KernelDocumentParams(**named))["text"]


def text_content(server: Server, params: types.TextDocumentContentParams) -> types.TextDocumentContentResult:
    """Answer `workspace/textDocumentContent`: the text of a kernel."""
    query = parse_qs(urlsplit(params.uri).query, keep_blank_values=True)
    named = {key: query.get(key, [""])[0] for key in ("uri", "target", "kernel", "form")}
    is_ours = all(named[key] for key in ("uri", "kernel", "form"))
    return types.TextDocumentContentResult(
        text=_kernel_text(server, named) if is_ours else "# This address does not name a kernel.\n"
    )


# Jobs and pages of the documentation


async def open_job(server: Server, options: dict[str, Any]) -> OpenedJobs:
    """Read the logs of a job, show its findings on the lines, and its page."""
    params = OpenJobParams(_uris(options.get("paths")), _uris(options.get("source")))
    answer = await jobs.open_job(server, params)
    if answer["message"]:
        server.ui.say(answer["message"], error=False)
    if answer["jobs"]:
        await show_job(server, {"job": answer["jobs"][-1]["id"]})
    return answer


def _uris(paths: object) -> list[str]:
    named = paths if isinstance(paths, (list, tuple)) else ()
    return [_as_uri(path) for path in named if isinstance(path, str)]


def _as_uri(path: str) -> str:
    return path if path.startswith("file:") else convert.uri(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 - paths stay text


def close_job(server: Server, options: dict[str, Any]) -> None:
    """Remove a job and its findings; without one, all of them."""
    job = options.get("job")
    jobs.close_job(server, CloseJobParams(job if isinstance(job, str) else None))


async def open_page(server: Server, options: dict[str, Any]) -> None:
    """Show a page of the documentation: in the editor where it is a file here, else in a browser."""
    address = options.get("address")
    if isinstance(address, str) and is_address(address):
        await _show(server, address, "The page", is_page=not address.startswith("file:"))


def no_action(_server: Server, _options: dict[str, Any]) -> None:
    """Do nothing: the command of a lens that only informs."""


# Showing


async def write_and_show(
    server: Server, store: Store, name: str, make: Callable[[], str], *, is_page: bool = True
) -> None:
    """Write a view, off the event loop, and show it."""
    if not server.state.trusted:
        server.ui.say("Fuselight writes no files into a workspace that is not trusted.", error=False)
        return
    try:
        path = await asyncio.to_thread(lambda: write_view(store, name, make()))
    except NotBuiltError as error:
        server.ui.say(f"No page: {error}.", error=False)
    except OSError as error:
        server.ui.say(f"{store.folder} could not be written: {error.strerror or error}.", error=True)
    else:
        await _show(server, convert.uri(str(path)), f"The page `{path}`", is_page=is_page)


async def _show(server: Server, uri: str, what: str, *, is_page: bool) -> None:
    """Show a document: a page in a browser, a text in the editor. Where the client cannot, say where it is."""
    shown = False
    if server.state.client.show_document:
        params = types.ShowDocumentParams(uri=uri, external=is_page or None, take_focus=True)
        try:
            answer = await server.window_show_document_async(params)
            shown = answer is not None and answer.success
        except Exception as error:  # noqa: BLE001 - a client that fails to show it is one that cannot
            server.state.log(f"{uri} was not shown: {error!r}")
    if not shown:
        where = convert.path(uri) or uri
        program = "a browser" if is_page else "the editor"
        server.ui.say(f"{what} is ready: open `{where}` in {program}.", error=False)


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {
    client_commands.SERVER_BENCHMARK: show_benchmark,
    client_commands.SERVER_TUNING: show_tuning,
    client_commands.SERVER_DETAILS: show_details,
    client_commands.SERVER_KERNEL: show_kernel,
    client_commands.SERVER_JOB: show_job,
    client_commands.SERVER_PAGE: open_page,
    client_commands.NO_ACTION: no_action,
    SHOW_GRAPHS: show_graphs,
    OPEN_JOB: open_job,
    CLOSE_JOB: close_job,
}
