"""What `fuselight accuracy` says of the programs in tests/cases/accuracy, as the page docs/results/accuracy.md.

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.accuracy_programs --out FOLDER [--seconds 30] [--kind right]
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.accuracy_programs --out FOLDER --page
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.accuracy_programs --out OTHER --programs unseen

FOLDER gets the JSON of each program; one that is there is not run again. A program is found if the command calls one of
its calls different from eager mode; its line is right if the finding is on the line that is marked in the source.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "cases" / "accuracy"
_AT_ONCE = 6
"""Programs of one command, which share its worker."""
_STAGE = re.compile(r"^# stage: (\w+)", re.MULTILINE)
_ALSO = {"caches": "code"}
"""A cache may keep wrong code because a pass of the program has a wrong key: leaving the pass out cures, too."""
"""Stages of a header that are a part of another one for the command."""


@dataclass(frozen=True)
class Outcome:
    """One program and what the command says of it."""

    name: str
    stage: str
    """Of its header; `user`: an operator or a state of the program's own, at whichever stage it shows."""
    marked: int | None
    """The line at fault."""
    state: str
    """`as_eager`, `differs`, `not_compared` or `failed`."""
    lines: tuple[int, ...]
    """Lines of the findings."""
    named_stages: tuple[str, ...]
    """Of its wrong calls: a program may be wrong at several."""


def main() -> int:
    """Run the programs and write the page; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=30.0, help="for the search of a line")
    parser.add_argument("--kind", choices=("right", "wrong"), action="append", help="both, if not given")
    parser.add_argument("--programs", default="", help="a folder in that of the programs, as `unseen`")
    parser.add_argument("--page", action="store_true", help="print the page, and run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = PROGRAMS / options.programs
    for kind in options.kind or ("right", "wrong"):
        waiting = [path for path in _programs(folder, kind) if not _kept(options.out, path).exists()]
        for start in range(0, 0 if options.page else len(waiting), _AT_ONCE):
            _run(waiting[start : start + _AT_ONCE], options.out, options.seconds)
    print("\n".join(_page(folder, options.out)))
    return 0


def _programs(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).glob("*.py"))


def _kept(out: Path, path: Path) -> Path:
    return out / f"{path.parent.name}.{path.stem}.json"


def _run(paths: Sequence[Path], out: Path, seconds: float) -> None:
    command = [sys.executable, "-m", "fuselight_server", "accuracy", *map(str, paths), "--format", "json"]
    search = ["--tries", "0", "--locate", f"{seconds:g}"]
    ran = subprocess.run([*command, *search], stdout=subprocess.PIPE, check=False)
    answer = json.loads(ran.stdout)
    for path in paths:
        part = {
            "targets": [target for target in answer["targets"] if target["path"] == str(path)],
            "findings": [finding for finding in answer["findings"] if finding["path"] == str(path)],
        }
        _kept(out, path).write_text(json.dumps(part), encoding="utf-8")


def _outcomes(folder: Path, kind: str, out: Path) -> Iterator[Outcome]:
    for path in _programs(folder, kind):
        if not _kept(out, path).exists():
            continue
        source, kept = (
            path.read_text(encoding="utf-8"),
            json.loads(_kept(out, path).read_text(encoding="utf-8")),
        )
        stage = _STAGE.search(source)
        states = [target["state"] for target in kept["targets"]]
        failed = any(target.get("failures") for target in kept["targets"])
        state = "differs" if "differs" in states else "failed" if failed else next(iter(states), "failed")
        yield Outcome(
            path.stem,
            stage[1] if stage is not None else "",
            next((line for line, text in enumerate(source.splitlines(), 1) if text.endswith("# <-")), None),
            state,
            tuple(finding["line"] for finding in kept["findings"] if finding["code"] == "FL801"),
            tuple(dict.fromkeys(_named_stages(kept["targets"]))),
        )


def _named_stages(targets: Sequence[dict[str, Any]]) -> Iterator[str]:
    for target in targets:
        for cause in (target.get("results") or {}).get("causes", []):
            yield str(cause["stage"])


def _page(folder: Path, out: Path) -> Iterator[str]:
    wrong, right = (list(_outcomes(folder, kind, out)) for kind in ("wrong", "right"))
    found = [program for program in wrong if program.state == "differs"]
    of_compiler = [program for program in found if program.stage != "user"]
    on_line = [program for program in found if program.marked in program.lines]
    staged = [
        program
        for program in of_compiler
        if {program.stage, _ALSO.get(program.stage)} & {*program.named_stages}
    ]
    accused = [program for program in right if program.state == "differs"]
    yield "| | programs | of |"
    yield "|---|--:|--:|"
    yield f"| wrong programs that are found | {len(found)} | {len(wrong)} |"
    yield f"| of these, with the finding on the line at fault | {len(on_line)} | {len(found)} |"
    yield f"| of these, with the right stage (those of the compiler's) | {len(staged)} | {len(of_compiler)} |"
    yield f"| right programs that are called wrong | {len(accused)} | {len(right)} |"
    yield ""
    yield "| not as it should be | stage | the command says | line at fault, lines of findings |"
    yield "|---|---|---|---|"
    missed = [program for program in wrong if program not in found or program not in on_line]
    for program in (*missed, *(program for program in of_compiler if program not in staged), *accused):
        says = ", ".join(program.named_stages) or program.state.replace("_", " ")
        lines = ", ".join(map(str, program.lines)) or "none"
        yield f"| {program.name} | {program.stage} | {says} | {program.marked or 'none'}; {lines} |"


if __name__ == "__main__":
    sys.exit(main())
