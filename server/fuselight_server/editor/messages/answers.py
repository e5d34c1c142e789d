"""What the server sends: the answers of its own requests and commands, its notifications, its questions.

Invariant: the keys are those of the message, and each is always there; None is unknown. Lines and columns are 0-based,
columns in the units of the client's position encoding. After a change, run `scripts/message_types.py`, which writes the
same types for the extension.
"""

from __future__ import annotations

from typing import Literal, TypedDict

FolderState = Literal["untrusted", "idle", "starting", "running", "failed", "noInterpreter"]
"""What a folder's runs do."""
ConsentChoice = Literal["run", "command", "never", "later"]
"""`run`: also on each save; `command`: when the user asks for it; `later`: ask again."""


class MessagePosition(TypedDict):
    """A place in a text."""

    line: int
    character: int


class MessageRange(TypedDict):
    """Part of a text, without its end."""

    start: MessagePosition
    end: MessagePosition


# FolderStatus


class TargetDevice(TypedDict):
    """The device that `fuselight.device` selects, and the problem with its value."""

    key: str
    words: str
    problem: str | None


class OfferedDevice(TypedDict):
    """An entry of the device picker."""

    key: str
    name: str
    detail: str
    own: bool
    """Whether the user's settings define it."""
    current: bool


class FolderStatus(TypedDict):
    """The state of a folder. `idle` with generation N: the results of every run up to N are published."""

    folder: str | None
    state: FolderState
    text: str
    detail: str
    generation: int
    interpreter: str | None
    why: str | None
    """Why this interpreter is used."""
    torch: str | None
    device: TargetDevice | None
    """None while no server runs, in the extension."""
    running: list[str]
    """The runs in progress, in words."""
    verifying: list[str]
    """Titles of the fixes whose verification is in progress or waits."""


class FileChanged(TypedDict):
    """A file about which more, or less, is known now."""

    uri: str


class TargetChanged(TypedDict):
    """A target whose benchmarks or searches began, moved on or ended."""

    uri: str
    target: str
    """Empty for the `__main__` block of the file."""


# Questions


class OfferedAnswer(TypedDict):
    """A button of a question."""

    title: str
    answer: ConsentChoice


class ConfirmRun(TypedDict):
    """A question before code runs: about a folder, or about the `__main__` block of a program."""

    folder: str
    program: str | None
    """The program that would run: a file, or `...#first-call` for the part of it up to its first call."""
    message: str
    detail: str
    answers: list[OfferedAnswer]
    explicit: bool
    """Whether the user started the run."""


class PreviewedEdit(TypedDict):
    """A change of a file."""

    range: MessageRange
    newText: str


class PreviewedFile(TypedDict):
    """The changes of a fix in one file."""

    uri: str
    version: int | None
    """Of the open document; None if the file is not open."""
    edits: list[PreviewedEdit]


class FixPreview(TypedDict):
    """A fix that changes behavior, to be shown before it is applied."""

    label: str
    documents: list[PreviewedFile]


# Targets and reports


class TargetAt(TypedDict):
    """The target that a command at a line means; None for the entire file."""

    target: str | None


class NodeTarget(TypedDict):
    """The identity of a target."""

    uri: str
    target: str
    """Empty for the `__main__` block of the file."""


class NodeKernel(TypedDict):
    """The generated text that a node opens."""

    uri: str
    target: str
    kernel: str
    form: str
    name: str
    """File name; its ending selects the language."""


class ReportNode(TypedDict):
    """A node of the report view."""

    id: str
    label: str
    description: str
    tooltip: str
    accessibilityLabel: str
    """Label and description, as a screen reader says them."""
    icon: str
    """The name of a codicon."""
    uri: str | None
    range: MessageRange | None
    contextValue: str
    target: NodeTarget | None
    """Of a target: its identity for the server."""
    kernel: NodeKernel | None
    """The generated text that the node opens, instead of a source line."""
    children: list[ReportNode]


class ReportTree(TypedDict):
    """The reports of a file, one node for each target."""

    nodes: list[ReportNode]


# Kernels


class KernelEntry(TypedDict):
    """An entry of the kernel picker."""

    uri: str
    """The file of the target."""
    target: str
    """Empty for the `__main__` block of the file."""
    kernel: str
    """The server's name of the kernel."""
    form: str
    name: str
    """File name; its ending selects the language."""
    label: str
    description: str


class KernelEntries(TypedDict):
    """The kernels of some lines."""

    kernels: list[KernelEntry]


class KernelForm(TypedDict):
    """A text of a kernel that can be shown instead."""

    form: str
    name: str


class KernelSourceLink(TypedDict):
    """Lines `first` to `last` of compiled code were generated from these lines of the kernel's source."""

    lines: list[int]
    first: int
    last: int


class KernelLink(KernelSourceLink):
    """Lines `first` to `last` of a generated text were generated from these lines of a file."""

    uri: str


class KernelText(TypedDict):
    """The text of a kernel; when `found` is false, `text` says what to do."""

    found: bool
    text: str
    links: list[KernelLink]
    sourceLinks: list[KernelSourceLink]
    forms: list[KernelForm]
    stale: bool


class KernelLine(TypedDict):
    """A line that is marked for its share of the time; level 3 is the largest share."""

    line: int
    level: int


class KernelLines(TypedDict):
    """The marked lines of a file, in their order."""

    lines: list[KernelLine]


# Benchmarks and searches


class StartAnswer(TypedDict):
    """What came of a command that starts a benchmark or a search."""

    started: bool
    target: str | None
    """None if nothing was started."""
    message: str


class Exported(TypedDict):
    """A benchmark as text."""

    text: str
    name: str
    """The suggested file name."""


# Jobs and agents


class JobEntry(TypedDict):
    """An open job."""

    id: str
    source: str
    """URI of the log or folder that it was opened from."""
    name: str
    when: str
    """Local time of its start; empty if no log has it."""
    summary: str
    partial: bool


class FollowedJob(TypedDict):
    """Logs that are read on while they grow."""

    name: str
    """Of the log or folder."""
    words: str
    """What was read so far: `12 compiles, 3 findings in 2 processes`."""


class JobsChanged(TypedDict):
    """The open jobs, and those that are followed."""

    jobs: list[JobEntry]
    followed: list[FollowedJob]


class OpenedJobs(TypedDict):
    """What came of opening logs."""

    jobs: list[JobEntry]
    message: str
    """What to do; empty if there is nothing to say."""
    needsSource: bool
    """Whether a folder with the source would put findings on lines."""
    canceled: bool


class AttachmentAddress(TypedDict):
    """The folder that `fuselight mcp --attach` takes; empty where agents cannot attach."""

    address: str
