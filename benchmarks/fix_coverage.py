"""Which share of the graph breaks in real models gets a verified fix.

    python benchmarks/fix_coverage.py [--models bart,led] [--half built|held-out]

Each architecture's own file of `transformers` is copied into a project, so that it is the user's code, and a small
instance is trained on small inputs. Each finding of a graph break whose cause is in that file counts once; it is
covered if one of its remedies passes the verification of `fuselight fix`. The rewrites were built on the models of
BUILT; HELD_OUT were not looked at before the first run. Prints each finding with what came of it; exits with 1 below
one half.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.architectures import BART, MODELS  # noqa: E402 - the path is set above
from benchmarks.small_models import small_model  # noqa: E402
from benchmarks.table import Row  # noqa: E402
from fuselight.shared.protocol import Limits  # noqa: E402
from fuselight_server.base.cancellation import CancelToken  # noqa: E402
from fuselight_server.commands.fix import FixedFiles  # noqa: E402
from fuselight_server.commands.options import CommandOptions  # noqa: E402
from fuselight_server.commands.targets import report_each  # noqa: E402
from fuselight_server.fixes.rewrites.remedy import FixClass  # noqa: E402
from fuselight_server.fixes.verification.fixer import FixOptions  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun

GOAL = 0.5
_WHY = 240
"""Characters of a reason."""
BUILT = (
    *("bart", "wav2vec2", "hubert", "flaubert", "longformer", "yoso"),
    *("fsmt", "led", "m2m_100", "reformer", "sew", "switch", "xlm"),
    *("data2vec-audio", "jetmoe", "mra", "nemotron_asr_streaming_encoder"),
)
"""Models whose breaks were looked at while the rewrites were written."""
HELD_OUT = ("sew-d", "unispeech", "unispeech-sat", "wav2vec2-conformer")
"""The second sample of docs/results/fixes.md."""
_MORE: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "m2m_100": ("M2M100Config", "M2M100Model", BART, "pair"),
    "fsmt": (
        "FSMTConfig",
        "FSMTModel",
        {**BART, "src_vocab_size": 101, "tgt_vocab_size": 101, "langs": ["en", "de"]},
        "pair",
    ),
}
_FOLDERS = {"switch": "switch_transformers"}
_TOKENS = "i64[2, 8] % 90 + 5"
_CALLS = {
    "text": f"input_ids={_TOKENS}",
    "pair": f"input_ids={_TOKENS}, decoder_input_ids={_TOKENS}",
    "speech": "input_values=f32[2, 4000]",
}
_RELATIVE = re.compile(r"^(\s*from )(\.+)(\w*)", re.MULTILINE)
_MAIN = """\
from transformers import {configuration}

from {file} import {model}


# fuselight: Small()({call}, train=True)
class Small({model}):
    def __init__(self):
        super().__init__({configuration}(**{sizes!r}))
"""


@dataclass(frozen=True)
class Result:
    """A finding in a model's own file, and what came of its remedies."""

    model: str
    finding: Finding
    offered: str
    """The kind of the first remedy that passes; empty if none does."""
    why: str
    """Why the others were refused."""


def project(folder: Path, name: str) -> Path:
    """A project with a copy of the model's file and a small instance of it; returns the file to run."""
    import transformers  # noqa: PLC0415 - seconds

    tables = {**MODELS, **_MORE}
    if name in tables:
        configuration, model, sizes, kind = tables[name]
        package, call = _FOLDERS.get(name, name), _CALLS[kind]
        file = f"modeling_{package}"
    else:
        new_model = small_model(name)
        package, file = new_model.package, new_model.file
        configuration, model = new_model.configuration, new_model.model
        sizes, call = new_model.sizes, new_model.call
    own = Path(transformers.__file__).parent / "models" / package / f"{file}.py"
    names = {1: f"transformers.models.{package}", 2: "transformers.models", 3: "transformers"}

    def absolute(match: re.Match[str]) -> str:
        return f"{match[1]}{names[len(match[2])]}{'.' if match[3] else ''}{match[3]}"

    here = folder / name
    here.mkdir()
    (here / "pyproject.toml").touch()
    text = _RELATIVE.sub(absolute, own.read_text(encoding="utf-8"))
    (here / f"{file}.py").write_text(text, encoding="utf-8")
    main = here / "main.py"
    values = {"configuration": configuration, "file": file, "model": model}
    main.write_text(_MAIN.format(**values, sizes=sizes, call=call), encoding="utf-8")
    return main


def in_user_code(finding: Finding, report: Report) -> bool:
    """Whether a finding is a break that happens on its own line, not in a library that the line calls."""
    place = (finding.span.path, finding.span.line)
    return finding.code.startswith("GB") and any(
        (graph_break.stack[-1].path, graph_break.stack[-1].line) == place
        for graph_break in report.breaks
        if graph_break.stack
    )


async def tried(folder: Path, name: str) -> list[Result]:
    """Try the remedies of each finding of one model, on the text without other fixes, until one passes."""
    results: list[Result] = []
    files = FixedFiles(FixOptions(), str(folder / "records"), writes=False)
    (folder / "records").mkdir(exist_ok=True)

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        files.read(outcome)
        report = await target_run.run_report(target_run.request)
        for failure in report.failures:
            print(f"{name}: {failure.message}", flush=True)
        for finding in files.fixer.findings(report):
            if not in_user_code(finding, report):
                continue
            offered, reasons = "", []
            rewrites = files.fixer.rewrites(finding, report)
            for remedy in rewrites.remedies:
                attempt = await files.fixer.attempt(target_run, finding, remedy, report)
                if attempt.has_passed:
                    offered = remedy.kind
                    break
                reasons.append(f"{remedy.kind}: {attempt.why[:_WHY]}")
            reasons = reasons or [
                "no remedy",
                *(f"{rewrite.kind} {rewrite.reason}" for rewrite in rewrites.refused),
            ]
            result = Result(name, finding, offered, "; ".join(reasons))
            results.append(result)
            show(result)
        if any(result.offered for result in results) and not all(result.offered for result in results):
            results[:] = await together(files, target_run, report, results)
        return report

    main = project(folder, name)
    options = CommandOptions((main,), ("Small",), sys.executable, limits=Limits(seconds=600.0))
    await report_each(options, lambda _text: None, CancelToken(), report_of)
    files.fixer.runs.forget_results()
    return results


def show(result: Result, when: str = "") -> None:
    """Print one line."""
    words = result.offered or f"- ({result.why})"
    place = f"{result.model:<12} line {result.finding.span.line:>4} {result.finding.code}"
    print(f"{place} {words}{when}", flush=True)


async def together(
    files: FixedFiles, target_run: TargetRun, report: Report, results: list[Result]
) -> list[Result]:
    """Try what no remedy passed for again, on top of the fixes of the others, as `fuselight fix` does."""
    await files.fixer.fix(target_run, report, FixOptions(select=("GB",), classes=frozenset(FixClass)))
    kinds = {
        (attempt.finding.code, attempt.line): attempt.remedy.kind
        for attempt in files.fixer.attempts
        if attempt.has_passed
    }
    out = []
    for result in results:
        kind = kinds.get((result.finding.code, result.finding.span.line), "")
        out.append(result if result.offered or not kind else replace(result, offered=kind))
        if out[-1] is not result:
            show(out[-1], " on top of the other fixes")
    return out


def measure(names: tuple[str, ...]) -> list[Result]:
    """Every finding of every model."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory(prefix="fuselight-coverage-", ignore_cleanup_errors=True) as folder:
        return [result for name in names for result in asyncio.run(tried(Path(folder), name))]


def rows() -> Iterator[Row]:
    """The promise about fixes."""
    results = measure(HELD_OUT)
    offered = sum(bool(result.offered) for result in results)
    detail = f"{offered} of {len(results)} findings in {len(HELD_OUT)} models"
    share = offered / len(results) if results else 0.0
    yield Row("findings in user code with a verified fix", share, GOAL, "", at_least=True, detail=detail)


def main() -> int:
    """Measure, print the share, and answer with the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", help="names, with commas")
    parser.add_argument("--half", choices=("built", "held-out"), default="held-out")
    options = parser.parse_args()
    names = tuple(options.models.split(",")) if options.models else ()
    results = measure(names or (BUILT if options.half == "built" else HELD_OUT))
    offered = sum(bool(result.offered) for result in results)
    share = offered / len(results) if results else 0.0
    print(f"{offered} of {len(results)} findings have a verified fix: {share:.0%}, to reach {GOAL:.0%}")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
