"""The rooms of the Python code and of the extension, what each contains, and which rooms it may import.

`python scripts/layers.py` writes the table of docs/architecture.md; `tests/test_layers.py` checks code and table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- rooms: written by scripts/layers.py -->\n", "<!-- end of rooms -->\n"
PACKAGES = ("fuselight", "fuselight_server")
PARTS = ("src", "webview")
"""Folders of the extension: one bundle for VS Code, one for each page in a browser."""


@dataclass(frozen=True)
class Room:
    """A folder of modules, and what they may import besides the standard library and each other."""

    name: str
    contents: str
    imports: tuple[str, ...] = ()
    """Rooms; a name covers the rooms inside it."""
    libraries: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """`fuselight` or `fuselight_server`; of the extension `src` or `webview`."""
        return self.name.partition(".")[0]

    @property
    def is_inner(self) -> bool:
        """Whether it lies in another room."""
        return self.name.count(".") > 1


_C, _S = "fuselight", "fuselight_server"
_X, _W = PARTS


def _room(name: str, contents: str, imports: str = "", libraries: str = "") -> Room:
    """`imports`: names in the same package, or with `fuselight.` or `src.` in front of them."""
    package = name.partition(".")[0]
    whole = tuple(
        other if other.startswith((f"{_C}.", f"{_X}.")) else f"{package}.{other}" for other in imports.split()
    )
    return Room(name, contents, whole, tuple(libraries.split()))


ROOMS = (
    _room(
        f"{_C}.shared",
        "data that both processes know, standard library only: JSON codec, Report, messages, grammar of inputs, "
        "devices, configurations, tuned files, built-in suites, how files of others are read, notebooks as Python; "
        "`worker_launch.py` and `worker_protocol.py` are what every client of a worker shares: its command line, its "
        "bytes, its end",
    ),
    _room(f"{_C}.adapters", "torch and Triton behind names of ours", "shared adapters.torch_api"),
    _room(
        f"{_C}.adapters.torch_api",
        "private names of torch, one module per subject (`dynamo/`, `inductor/`, `choices/`, `distributed/`), each "
        "tolerating a torch that lacks the name",
        "shared",
        "torch",
    ),
    _room(
        f"{_C}.adapters.triton_api",
        "compiles a kernel without a GPU; `launches/` computes launches of the program's own kernels on the CPU, with "
        "each access checked",
        "shared adapters.torch_api",
        "torch",
    ),
    _room(
        f"{_C}.adapters.virtual_gpu",
        "code generation for a GPU that may be absent",
        "shared adapters.torch_api adapters.triton_api",
        "torch",
    ),
    _room(f"{_C}.capture", "what torch.compile does to a call → Report parts"),
    _room(
        f"{_C}.capture.dynamo",
        "breaks, guards, recompilations, forecasts",
        "shared adapters",
        "torch",
    ),
    _room(
        f"{_C}.capture.inductor",
        "generated kernels",
        "shared adapters capture.dynamo",
        "torch",
    ),
    _room(
        f"{_C}.capture.prims",
        "decompositions",
        "shared adapters capture.dynamo",
        "torch",
    ),
    _room(
        f"{_C}.capture.calls",
        "imports the file, builds the object, makes its calls",
        "shared adapters capture.dynamo",
        "torch",
    ),
    _room(
        f"{_C}.replay",
        "replays a tuned configuration in the user's program; measures nothing",
        "shared adapters",
        "torch",
    ),
    _room(
        f"{_C}.measure",
        "benchmarks: timing, `profile/`, `accuracy/`, `machine/`",
        "shared adapters capture replay",
        "torch",
    ),
    _room(
        f"{_C}.tune",
        "the search for the fastest configuration: `knobs.json` is the catalog",
        "shared measure",
    ),
    _room(f"{_C}.doctor", "checks of the environment", "shared adapters", "torch"),
    _room(
        f"{_C}.remote",
        "what a sweep runs next to a worker, on this machine or another: its blocking client; standard library only",
        "shared",
    ),
    _room(
        f"{_C}.worker",
        "`launch.py`, the entry of every process",
        "shared doctor worker.child worker.host worker.processes worker.results",
    ),
    _room(
        f"{_C}.worker.startup",
        "imported by Python at the start of each process that a program under `fuselight run` starts",
        "shared adapters",
    ),
    _room(f"{_C}.worker.processes", "start, pipes, limits and end of processes", "shared", "torch"),
    _room(
        f"{_C}.worker.child",
        "one run: the target, its state, its failures, `fuselight run`",
        "shared adapters capture measure worker.processes",
        "torch",
    ),
    _room(
        f"{_C}.worker.live",
        "edited text, traced again with recorded arguments",
        "shared adapters capture measure worker.child worker.processes",
        "torch",
    ),
    _room(
        f"{_C}.worker.verify",
        "old and new text of a fix, compared on calls",
        "shared adapters capture measure worker.child worker.live worker.processes",
        "torch",
    ),
    _room(
        f"{_C}.worker.results",
        "calls of what a program compiles, compared with eager mode and float64",
        "shared adapters capture measure replay worker.child worker.live worker.verify",
        "torch",
    ),
    _room(
        f"{_C}.worker.repro",
        "graphs of a call, or a call that Dynamo traces, as Python without values, and runs of small programs that are "
        "made of them",
        "shared adapters capture worker.child",
        "torch",
    ),
    _room(
        f"{_C}.worker.memory",
        "what calls and training steps allocate, estimated on fake tensors, in eager mode and with Inductor's wrapper",
        "shared adapters capture worker.child worker.verify",
        "torch",
    ),
    _room(
        f"{_C}.worker.timed",
        "one process for each configuration of a benchmark or a search",
        "shared adapters capture measure replay tune worker.child worker.memory worker.processes",
        "torch",
    ),
    _room(
        f"{_C}.worker.ranks",
        "a target as each rank of a world without a network: one process for each rank",
        "shared adapters capture worker.child worker.processes",
        "torch",
    ),
    _room(
        f"{_C}.worker.host",
        "the long-lived process that never runs user code",
        "shared adapters capture worker.child worker.live worker.memory worker.processes worker.ranks worker.repro "
        "worker.results worker.timed worker.verify",
    ),
    _room(
        f"{_C}.notebook",
        "in the kernel of a notebook: `%load_ext fuselight` and its magics; shows reports by the view that an "
        "installed package offers as an entry point",
        "shared adapters capture.dynamo",
        "IPython",
    ),
    _room(
        f"{_S}.base",
        "shared by every room of the server: text of files, settings, Finding, numbers as text, Ctrl-C, cancel "
        "tokens, the folder `.fuselight/`",
        "fuselight.shared",
    ),
    _room(
        f"{_S}.source",
        "reads source without running it (tree-sitter); which functions an edit changes; LibCST edits",
        "fuselight.shared base",
        "libcst tree_sitter tree_sitter_python",
    ),
    _room(
        f"{_S}.execution",
        "interpreters with the user's torch, and what they can compile",
        "fuselight.shared fuselight.doctor base",
    ),
    _room(
        f"{_S}.execution.worker_client",
        "the asyncio client: owns the worker process; samples a run that makes no progress",
        "fuselight.shared base",
    ),
    _room(f"{_S}.execution.runs", "run keys, planning, queue, kept results", "fuselight.shared base source"),
    _room(f"{_S}.explain", "Report → words, pages and pictures"),
    _room(
        f"{_S}.explain.pages",
        "pages as HTML files: document, tables, one script, colors that the extension's pages import",
        "fuselight.shared",
    ),
    _room(
        f"{_S}.explain.kernels",
        "cost of each line; the user's own Triton kernels",
        "fuselight.shared base",
    ),
    _room(
        f"{_S}.explain.benchmarks",
        "measured time of each line, verdict, page, history",
        "fuselight.shared base explain.kernels explain.memory explain.pages",
    ),
    _room(
        f"{_S}.explain.searches",
        "plan, page and decision of a search",
        "fuselight.shared fuselight.tune base explain.benchmarks explain.memory explain.pages",
    ),
    _room(
        f"{_S}.explain.memory",
        "whether a step fits into a device, and its peak in words",
        "fuselight.shared base",
    ),
    _room(
        f"{_S}.explain.ranks",
        "a program as many ranks: collectives with estimated times, and where ranks differ",
        "fuselight.shared base",
    ),
    _room(
        f"{_S}.explain.findings",
        "Report → findings",
        "fuselight.shared base source explain.findings.breaks explain.findings.common "
        "explain.findings.kernels explain.findings.recompilations explain.ranks",
    ),
    _room(f"{_S}.explain.findings.common", "catalog of codes, context, texts", "fuselight.shared base"),
    _room(
        f"{_S}.explain.findings.advice",
        "changes that may cure a recompilation, whether a trial shows that they do, and what to expect else",
        "fuselight.shared base explain.findings.common",
    ),
    _room(
        f"{_S}.explain.findings.recompilations",
        "guards, recompilations, fixed values",
        "fuselight.shared base explain.findings.advice explain.findings.common",
    ),
    _room(
        f"{_S}.explain.findings.breaks",
        "graph breaks and code that is not compiled",
        "fuselight.shared base explain.findings.advice explain.findings.common explain.findings.recompilations",
    ),
    _room(
        f"{_S}.explain.findings.forecasts",
        "what other inputs will do",
        "fuselight.shared base explain.findings.advice explain.findings.common",
    ),
    _room(
        f"{_S}.explain.findings.kernels",
        "kernels and measured times as findings",
        "fuselight.shared base explain.benchmarks explain.findings.common explain.kernels",
    ),
    _room(
        f"{_S}.explain.graphs",
        "boxes and arrows",
        "fuselight.shared base source explain.findings.breaks explain.findings.common explain.findings.recompilations "
        "explain.kernels",
    ),
    _room(f"{_S}.fixes", "finding → verified fixes"),
    _room(
        f"{_S}.fixes.syntax",
        "the user's code as a LibCST tree, and what is known of its names",
        "fuselight.shared base source",
        "libcst",
    ),
    _room(
        f"{_S}.fixes.rewrites",
        "families of fixes: new text for a finding; `families.py` lists them",
        "fuselight.shared base source explain fixes.syntax",
        "libcst",
    ),
    _room(
        f"{_S}.fixes.verification",
        "runs a fix, and decides what may be offered",
        "fuselight.shared base source execution explain fixes.rewrites fixes.syntax",
    ),
    _room(
        f"{_S}.repro",
        "small programs that show a fault of the compiler: their text, and their reduction by runs",
        "fuselight.shared",
    ),
    _room(f"{_S}.jobs", "jobs that ran elsewhere, from the files that they left"),
    _room(
        f"{_S}.jobs.trace_log",
        "torch's structured logs (`TORCH_TRACE`) of every process, as data; long texts are read on demand",
        "fuselight.shared",
    ),
    _room(
        f"{_S}.jobs.caches",
        "what the caches of torch.compile did in a job, why a key differs from that of another start, "
        "where the time of a start went",
        "fuselight.shared base explain.findings.common jobs.trace_log",
    ),
    _room(
        f"{_S}.jobs.ranks",
        "what the ranks of a job did: table, first differences, timeline, waits from the flight recorder",
        "fuselight.shared base explain.findings.breaks explain.findings.common jobs.caches jobs.reports jobs.trace_log",
    ),
    _room(
        f"{_S}.jobs.reports",
        "logs → Reports as a run yields them; which local file and line is which of the job",
        "fuselight.shared base jobs.trace_log",
    ),
    _room(
        f"{_S}.jobs.memory",
        "snapshots of the allocator of each process: peak, growth and pieces by line, ranks compared",
        "fuselight.shared base explain.findings.common jobs.ranks jobs.reports jobs.trace_log",
    ),
    _room(
        f"{_S}.jobs.comparison",
        "a job against an earlier one: findings, graphs, kernels, compile times, caches, versions",
        "fuselight.shared base jobs.caches jobs.reports jobs.trace_log",
    ),
    _room(
        f"{_S}.upgrades",
        "the same targets with two versions of torch, compared: findings, graphs, kernels by line, failures",
        "fuselight.shared base explain jobs.comparison",
    ),
    _room(
        f"{_S}.commands",
        "use cases: plain arguments in, data out; the terminal and the editor show it",
        "fuselight.shared base source execution explain fixes jobs repro upgrades",
    ),
    _room(
        f"{_S}.sweep",
        "every model of a suite, in processes of this machine or on a Ray cluster; comparison and page",
        "fuselight.shared fuselight.remote base source execution explain",
    ),
    _room(
        f"{_S}.agents",
        "the server for coding agents (MCP): tools over use cases, long work by handles, consent",
        "fuselight.shared base explain jobs commands agents.protocol",
    ),
    _room(
        f"{_S}.agents.protocol",
        "the Model Context Protocol by itself: messages, both revisions, a conversation; it knows no tool and no "
        "transport",
        "fuselight.shared",
    ),
    _room(
        f"{_S}.agents.attachment",
        "agents at a language server that runs: its address, its listener, the bridge from stdin and stdout",
        "fuselight.shared base agents.protocol",
    ),
    _room(
        f"{_S}.editor",
        "the language server; LSP types appear only here",
        "base execution editor.handlers editor.session",
        "lsprotocol pygls",
    ),
    _room(
        f"{_S}.editor.messages",
        "the data of the messages that Fuselight adds to LSP, and what a client can do",
        "",
        "attrs",
    ),
    _room(
        f"{_S}.editor.rules",
        "Report and edited text → breaks that the new lines surely cause, without a trace",
        "fuselight.shared base source explain",
    ),
    _room(
        f"{_S}.editor.results",
        "results that move with edits, whether they are current, and the snapshot of a document that features read",
        "fuselight.shared base source execution explain jobs commands editor.messages",
    ),
    _room(
        f"{_S}.editor.session",
        "the mutable state, its documents, runs, results, fixes and predictions: when to run, consent, live runs",
        "fuselight.shared base source execution explain fixes jobs commands agents editor.messages editor.results "
        "editor.rules",
    ),
    _room(
        f"{_S}.editor.presenters",
        "data → LSP types and trees",
        "fuselight.shared base source explain jobs commands editor.messages editor.results",
        "lsprotocol pygls",
    ),
    _room(
        f"{_S}.editor.handlers",
        "one LSP feature per file",
        "fuselight.shared fuselight.doctor base source execution explain fixes jobs editor.messages "
        "editor.presenters editor.results editor.session",
        "attrs lsprotocol pygls",
    ),
    _room(
        f"{_S}.cli",
        "the terminal: one command per file; `formats/` prints",
        "fuselight.shared fuselight.doctor base execution explain jobs repro upgrades commands sweep editor agents",
    ),
    _room(
        f"{_S}.pytest_plugin",
        "the fixture `fuselight_check` and the marker of tests, in the process of pytest; alone of the server's rooms "
        "it runs user code, which is the test's own",
        "fuselight.shared fuselight.capture fuselight.worker base explain commands cli",
        "pytest _pytest",
    ),
    _room(
        f"{_S}.kernel",
        "what the kernel of a notebook shows below a cell, as text and HTML",
        "fuselight.shared base explain commands cli",
    ),
)

EXTENSION_ROOMS = (
    _room(
        f"{_X}.messages",
        "the data that processes exchange: `protocol.ts` the requests of LSP by name, `server_types.ts` and "
        "`page_types.ts` their data and that of the pages, written by "
        "`scripts/message_types.py`; what the extension and each page send each other",
        libraries="vscode-languageclient",
    ),
    _room(
        f"{_X}.workbench",
        "VS Code behind names of ours: messages to the user, settings, notebooks of cells, the log of LSP messages",
        libraries="node vscode vscode-languageclient",
    ),
    _room(
        f"{_X}.webviews",
        "a panel next to the source for each subject of a page, its HTML and its policy",
        "messages workbench",
        "node vscode",
    ),
    _room(
        f"{_X}.interpreter",
        "the Pythons of the machine, and which of them runs the server and the models",
        "workbench",
        "node vscode",
    ),
    _room(
        f"{_X}.server",
        "the language client and its life; answers to the server's questions (consent, preview of a fix); what is "
        "changed in its diagnostics and quick fixes",
        "messages workbench interpreter",
        "node vscode vscode-languageclient",
    ),
    _room(
        f"{_X}.cursor",
        "the file, folder, lines, target and finding that the user means; a generated kernel stands for its source",
        "messages workbench server",
        "vscode",
    ),
    _room(
        f"{_X}.status",
        "the status item with its menu, the target device, inlay hints",
        "messages workbench cursor",
        "vscode",
    ),
    _room(f"{_X}.report", "the report of the active file as a tree", "messages server cursor", "vscode"),
    _room(
        f"{_X}.help",
        "pages of finding codes, the check of the environment, a report of a problem",
        "messages workbench server status",
        "vscode",
    ),
    _room(
        f"{_X}.kernels",
        "generated kernels as read-only texts, lines that belong together, heat",
        "messages workbench server cursor",
        "node vscode",
    ),
    _room(
        f"{_X}.graphs",
        "the page of a target's graphs",
        "messages workbench webviews server cursor report",
        "vscode",
    ),
    _room(
        f"{_X}.bench",
        "the page of a benchmark, its export, its commands",
        "messages workbench webviews server cursor",
        "vscode",
    ),
    _room(f"{_X}.tune", "the page of a search", "messages webviews server bench", "vscode"),
    _room(
        f"{_X}.jobs",
        "logs of jobs: commands that open, compare and close them, and the page of a job",
        "messages workbench webviews server bench",
        "vscode",
    ),
    _room(
        f"{_X}.agents",
        "offers the tools of the language server to coding agents, of the editor and of others",
        "messages workbench server",
        "vscode",
    ),
    _room(
        _X,
        "`main.ts` makes the parts and connects them; `commands.ts` the commands; what tests wait for",
        "agents bench cursor graphs help interpreter jobs kernels messages report server status tune workbench",
        "vscode vscode-languageclient",
    ),
    _room(f"{_W}.page", "elements, messages of VS Code, what a reader has opened and selected"),
    _room(
        f"{_W}.graphs",
        "the picture and the tree of a target's graphs",
        "src.messages page",
        "@dagrejs/dagre",
    ),
    _room(
        f"{_W}.measured",
        "what pages of measurements share: frame, sections, tables, charts, the flame chart of compiles, numbers as "
        "text",
        "src.messages page",
        "echarts",
    ),
    _room(
        f"{_W}.bench", "sections, tables and charts of a benchmark", "src.messages page measured", "echarts"
    ),
    _room(f"{_W}.tune", "sections and charts of a search", "src.messages page measured"),
    _room(f"{_W}.job", "sections, tables and charts of a job", "src.messages page measured", "echarts"),
)


MAX_IN_ROOM = {f"{_S}.editor.session": (100, 10)}
"""Of rooms whose files could again all know each other: arrows between the files, and the longest chain of them."""
LONG_HANDLERS = {
    "bench": 300,
    "code_action": 170,
    "commands": 210,
    "configuration": 180,
    "fix_commands": 180,
    "inputs": 150,
    "jobs": 200,
    "kernel_documents": 220,
    "own_kernel_documents": 150,
    "lsp_ui": 200,
    "notebook_messages": 360,
    "protocol": 260,
    "server": 280,
    "status": 170,
    "sync": 180,
    "views": 380,
    "work_progress": 160,
}
"""Lines of handlers with several requests or with the wire itself; each of the others has at most `MAX_HANDLER`."""
MAX_HANDLER = 120
MAX_PARTS = 8
"""Arguments of a constructor in these rooms: one that needs more takes a part that has them."""


def room_of(module: str, rooms: tuple[Room, ...] = ROOMS) -> Room | None:
    """The innermost of `rooms` that a module lies in."""
    holding = [room for room in rooms if module == room.name or module.startswith(f"{room.name}.")]
    return max(holding, key=lambda room: len(room.name), default=None)


def covers(rooms: tuple[str, ...], name: str) -> bool:
    """Whether `name` is one of `rooms` or lies in one."""
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def table() -> str:
    """The tables of the packages in Markdown: outer rooms, with the rooms inside them."""
    lines: list[str] = []
    for package, folder in (
        ("fuselight", "compiler/fuselight"),
        ("fuselight_server", "server/fuselight_server"),
    ):
        lines += ["", f"| room in `{folder}/` | contents | may import |", "|---|---|---|"]
        for room in (room for room in ROOMS if room.package == package and not room.is_inner):
            inner = [
                other_room
                for other_room in ROOMS
                if other_room.is_inner and other_room.name.startswith(f"{room.name}.")
            ]
            words = room.contents + "".join(
                f"; `{_short(other_room.name, room.name)}/` {other_room.contents}" for other_room in inner
            )
            outer = dict.fromkeys(
                _outer(name, package)
                for other_room in (room, *inner)
                for name in other_room.imports
                if not covers((room.name,), name)
            )
            lines.append(f"| `{_short(room.name, package)}/` | {words} | {', '.join(outer) or 'nothing'} |")
    return "\n".join([*lines[1:], *_extension_tables()]) + "\n"


def _extension_tables() -> Iterator[str]:
    """The lines of the tables of the extension, whose rooms have no rooms inside them."""
    for part in PARTS:
        yield from ("", f"| room in `extension/{part}/` | contents | may import |", "|---|---|---|")
        for room in (extension_room for extension_room in EXTENSION_ROOMS if extension_room.package == part):
            name = "its files" if room.name == part else f"`{_short(room.name, part)}/`"
            rooms = [_short(other, part).replace("src/", "src: ") for other in room.imports]
            yield f"| {name} | {room.contents} | {', '.join((*rooms, *room.libraries)) or 'nothing'} |"


def _short(name: str, within: str) -> str:
    return name.removeprefix(f"{within}.").replace(".", "/")


def _outer(name: str, package: str) -> str:
    top = ".".join(name.split(".")[:2])
    return top.removeprefix(f"{package}.")


def with_table(text: str) -> str:
    """The page with the table as it should be. Raises ValueError where the page has no place for it."""
    before, start, rest = text.partition(START)
    _old, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"{PAGE.name} has no lines `{START.strip()}` and `{END.strip()}`")
    return f"{before}{START}\n{table()}\n{END}{after}"


def main() -> int:
    """Write the table."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
