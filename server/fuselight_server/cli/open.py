"""`fuselight open TRACE...`: what torch.compile did in a job, from its logs, on the lines of the local source.

Invariant: all formats print at the end, and have the same findings; of a job that is followed, the text has each
finding when it is first known, and again if it has changed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.terminal import Terminal, print_error, standard_output
from fuselight_server.base.thresholds import Thresholds
from fuselight_server.cli.options import add_color_option, at_least
from fuselight_server.cli.progress import complete_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight_server.commands.open import OpenRequest
    from fuselight_server.commands.opened_job import OpenedJob

FORMATS = ("text", "json", "sarif", "github", "html")
COMPARISON_FORMATS = ("text", "json", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "traces",
        metavar="TRACE",
        nargs="+",
        type=Path,
        help="logs that a job wrote with TORCH_TRACE=FOLDER, snapshots of torch's allocator, or folders with them",
    )
    parser.add_argument(
        "--source",
        metavar="DIR",
        action="append",
        type=Path,
        help="folder with the job's source; repeatable (default: the project of the working folder)",
    )
    parser.add_argument(
        "--against",
        metavar="TRACE",
        action="append",
        type=Path,
        help="logs of an earlier job to compare with, or a recording of `fuselight run --record`; repeatable",
    )
    parser.add_argument("--follow", action="store_true", help="go on while the job writes, until Ctrl-C")
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="output format (default: %(default)s)"
    )
    add_color_option(parser)
    parser.add_argument(
        "--guard-count",
        metavar="N",
        type=at_least(0),
        default=Thresholds.guard_count,
        help="warn from this many guards on, 0 for never (default: %(default)s)",
    )


def execute(options: argparse.Namespace) -> int:
    """Open the logs and print the findings; returns the exit code. Raises CommandError."""
    from fuselight.shared.shadow_files import is_recording  # noqa: PLC0415 - not for --help
    from fuselight_server.commands.open import OpenRequest  # noqa: PLC0415 - the same

    request = OpenRequest(
        paths=tuple(options.traces),
        source=tuple(options.source or (project_root(Path.cwd()),)),
        is_followed=options.follow,
        thresholds=Thresholds(guard_count=options.guard_count),
    )
    terminal = standard_output(options.color)
    if any(is_recording(str(path)) for path in options.traces):
        return _compare_recordings(options, terminal)
    if options.format == "html":
        _require_page()
    if options.against:
        return _compare(request, tuple(options.against), options.format, terminal)
    if options.format == "text":
        return _print_text(request, terminal)
    jobs = _open(request, None)
    from fuselight_server.commands.opened_job import outcome_of  # noqa: PLC0415 - not for --help

    terminal.write_data(f"{_formatted(jobs, options.format)}\n")
    if options.format == "html" and len(jobs) > 1:
        print_error("HTML shows the first job only; name the logs of another one")
    return outcome_of(jobs).exit_code


def _print_text(request: OpenRequest, terminal: Terminal) -> int:
    from fuselight_server.cli.formats.jobs import FindingStream, print_jobs  # noqa: PLC0415 - one format is printed
    from fuselight_server.commands.opened_job import outcome_of  # noqa: PLC0415 - not for --help

    stream = FindingStream(terminal)
    # Of logs that are read once, the text has what JSON has; only a job that goes on is worth a first answer.
    jobs = _open(request, stream if request.is_followed else None)
    print_jobs(jobs, stream, terminal)
    return outcome_of(jobs).exit_code


def _compare_recordings(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print where the values of two runs part; the exit code is 1 if they do."""
    from fuselight_server.cli.formats.value_records import (  # noqa: PLC0415 - not for --help
        comparison_as_json,
        print_comparison,
    )
    from fuselight_server.commands.value_records import compare_recordings  # noqa: PLC0415 - the same

    if len(options.traces) != 1 or len(options.against or ()) != 1:
        raise CommandError(
            "a recording of `fuselight run --accuracy --record` is compared with another one: `fuselight open A "
            "--against B`."
        )
    if options.format not in {"text", "json"}:
        raise CommandError(f"recordings have no format `{options.format}`. Use `--format text` or `json`.")
    compared = compare_recordings(options.traces[0], options.against[0])
    if options.format == "json":
        terminal.write_data(f"{comparison_as_json(compared)}\n")
    else:
        print_comparison(compared, terminal)
    return compared.exit_code


def _compare(request: OpenRequest, base: tuple[Path, ...], name: str, terminal: Terminal) -> int:
    """Print what differs from the earlier job; the exit code is that of its new findings."""
    from fuselight_server.cli.formats.jobs_comparison import (  # noqa: PLC0415 - one format is printed
        comparison_as_json,
        print_comparison,
    )
    from fuselight_server.commands.comparison import check_paths, compare_opened, only_job  # noqa: PLC0415 - the same

    if name not in COMPARISON_FORMATS:
        raise CommandError(
            f"a comparison has no format `{name}`. Use `--format text`, `json` or `html` with `--against`."
        )
    if request.is_followed:
        raise CommandError("a job that is followed cannot be compared. Leave out `--follow` or `--against`.")
    check_paths(request.paths, base)
    compared = compare_opened(
        only_job(_open(request, None), request.paths),
        only_job(_open(replace(request, paths=base), None), base),
    )
    if name == "json":
        terminal.write_data(f"{comparison_as_json(compared)}\n")
    elif name == "html":
        terminal.write_data(f"{_page(compared.job, compared.base)}\n")
    else:
        print_comparison(compared, terminal)
    return compared.exit_code


def _open(
    request: OpenRequest, stream: Callable[[tuple[OpenedJob, ...]], None] | None
) -> tuple[OpenedJob, ...]:
    from fuselight_server.commands.open import open_jobs  # noqa: PLC0415 - not for --help

    if stream is None:
        return complete_work(lambda show, token: open_jobs(request, show, token))

    def printing(show: Callable[[str], None]) -> Callable[[tuple[OpenedJob, ...]], None]:
        """Print partial results, after the progress is cleared."""

        def print_partial(jobs: tuple[OpenedJob, ...]) -> None:
            show("")
            stream(jobs)

        return print_partial

    return complete_work(lambda show, token: open_jobs(request, show, token, on_partial=printing(show)))


def _formatted(jobs: tuple[OpenedJob, ...], name: str) -> str:
    from fuselight_server.commands.opened_job import outcome_of  # noqa: PLC0415 - not for --help

    if name == "json":
        from fuselight_server.cli.formats.jobs import jobs_as_json  # noqa: PLC0415 - one format is printed

        return jobs_as_json(jobs)
    if name == "html":
        return _page(jobs[0], None)
    from fuselight_server.cli.formats import annotations  # noqa: PLC0415 - the same

    outcome = outcome_of(jobs)
    return annotations.as_sarif(outcome) if name == "sarif" else annotations.as_github(outcome)


def _require_page() -> None:
    """Raise CommandError if the page's script is not built, before logs are read."""
    from fuselight_server.explain.pages.document import NotBuiltError, page_parts  # noqa: PLC0415 - one format is printed

    try:
        page_parts("job")
    except NotBuiltError as error:
        raise CommandError(str(error)) from None


def _page(opened: OpenedJob, earlier: OpenedJob | None) -> str:
    """The page of a job, as the editor shows it, and what changed since the earlier job."""
    from fuselight_server.commands.sources import shown_path  # noqa: PLC0415 - one format is printed
    from fuselight_server.editor.presenters.job_page import page_of  # noqa: PLC0415 - the same
    from fuselight_server.editor.results.jobs import job_result_of  # noqa: PLC0415 - the same
    from fuselight_server.explain.pages.document import standalone_page  # noqa: PLC0415 - the same

    job = job_result_of(0, "", opened)
    base = job_result_of(1, "", earlier) if earlier is not None else None
    others = (base,) if base is not None else ()
    page = page_of(job, base, others, shown_path)
    return standalone_page(page, f"Job: {page.title}", "job")
