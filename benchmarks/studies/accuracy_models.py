"""Compiled models next to eager mode: what `fuselight accuracy --kernels` says of models that are right.

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.accuracy_models --out FOLDER [--dtypes fp32,bf16,fp16]
        [--modes inference,training] [--device cuda] [--compile mode=max-autotune-no-cudagraphs] [--tf32]
        [--models Decoder,resnet] [--part 1/4] [--every] [--minutes 8]
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.accuracy_models --out FOLDER --page

FOLDER gets a line of rows.K.jsonl for each model, dtype and mode; what it has is not run again. The models are those of
accuracy_plain.py, which need torch alone, and rows of the suite `pytorch-163` in their tiny size. Each runs for inference
in one dtype and for training in the next, so that all dtypes and modes are there; `--every` runs all of them. A model is
taken to be right: a call that is called wrong is a false accusation.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.studies.accuracy_plain import PLAIN
from fuselight.shared.protocol import Limits
from fuselight.shared.report import Report
from fuselight.shared.suites import suite_rows
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.accuracy import compare_target, state_of
from fuselight_server.commands.accuracy_options import AccuracyPlan
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.explain.findings.common.result_words import not_compared

DTYPES = {"fp32": ("float32", "f32"), "bf16": ("bfloat16", "bf16"), "fp16": ("float16", "f16")}
"""By name: torch's name, and that of directives."""
MODES = ("inference", "training")
SUITE = (
    "AlbertForMaskedLM BertForMaskedLM DistilBertForMaskedLM DistillGPT2 ElectraForCausalLM GoogleFnet "
    "GPT2ForSequenceClassification LayoutLMForMaskedLM MT5ForConditionalGeneration MobileBertForMaskedLM OPTForCausalLM "
    "RobertaForCausalLM T5Small XLNetLMHeadModel "
    "beit_base_patch16_224 cait_m36_384 convmixer_768_32 convnext_base deit_base_distilled_patch16_224 gmixer_24_224 "
    "mixer_b16_224 mobilenetv3_large_100 pit_b_224 poolformer_m36 resmlp_12_224 swin_base_patch4_window7_224 "
    "volo_d1_224 visformer_small "
    "alexnet dcgan mobilenet_v2 resnet18 shufflenet_v2_x1_0 squeezenet1_1"
).split()
"""Rows of the suite: with the seven plain models, 41."""
_COUNTS = ("judged", "unmapped", "not_evaluated")
_TARGET = re.compile(r"^# fuselight: model\(\)\((.*)\)\ndef model\(\):\n    return (.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One model in one dtype and mode."""

    model: str
    dtype: str
    mode: str
    compile: str
    text: str
    """The file."""

    @property
    def name(self) -> str:
        """Unique in a study."""
        return " ".join(filter(None, (self.model, self.dtype, self.mode, self.compile)))


def main() -> int:
    """Run the models, or print the page; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--device", default="")
    parser.add_argument("--compile", default="", help="arguments of torch.compile, as mode='reduce-overhead'")
    parser.add_argument("--tf32", action="store_true", help="allow TF32 in matrix products")
    parser.add_argument("--models", default="", help="parts of names, with commas")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth case from the Kth on, for N processes")
    parser.add_argument("--every", action="store_true", help="each model in each dtype and mode")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no case after them; 0: no limit")
    parser.add_argument("--page", action="store_true", help="print the page, and run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.page:
        asyncio.run(_run(options))
    print("\n".join(page(list(rows_of(options.out)))))  # noqa: T201 - what was asked for
    return 0


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """The cases that the options name, one dtype and mode of each model unless every one is asked for."""
    sources = {name: _plain(name) for name in PLAIN}
    sources |= {row.name: row.text for row in suite_rows("pytorch-163") if row.name in SUITE and row.text}
    wanted = [part for part in options.models.split(",") if part]
    dtypes, modes = options.dtypes.split(","), options.modes.split(",")
    for number, (model, source) in enumerate(sources.items()):
        if wanted and not any(part in model for part in wanted):
            continue
        for at, mode in enumerate(modes):
            chosen = dtypes if options.every else [dtypes[(number + at) % len(dtypes)]]
            for dtype in chosen:
                setting = ", ".join(filter(None, (options.compile, "tf32" if options.tf32 else "")))
                yield Case(model, dtype, mode, setting, _text(source, dtype, mode, options))


def _plain(name: str) -> str:
    inputs = PLAIN[name]
    return (
        f"from benchmarks.studies.accuracy_plain import {name}\n\n\n# fuselight: model()({inputs})\n"
        f"def model():\n    return {name}()\n"
    )


def _text(source: str, dtype: str, mode: str, options: argparse.Namespace) -> str:
    """The file of a model in a dtype and a mode."""
    of_torch, of_directive = DTYPES[dtype]
    match = _TARGET.search(source)
    if match is None:
        raise ValueError(f"no directive of a model in:\n{source}")
    inputs = match[1].replace("f32[", f"{of_directive}[")
    train = ", train=True" if mode == "training" else ""
    compiled = f"torch.compile(made, {options.compile})" if options.compile else "made"
    tf32 = 'torch.set_float32_matmul_precision("high")\n' if options.tf32 else ""
    target = (
        f"# fuselight: model()({inputs}{train})\ndef model():\n    made = {match[2]}\n"
        f"    made = made.to(torch.{of_torch})\n    return {compiled}\n"
    )
    return f"import torch\n{source[: match.start()]}{tf32}\n\n{target}"


async def _run(options: argparse.Namespace) -> None:
    part, of = map(int, options.part.split("/"))
    known = {row["name"] for row in rows_of(options.out)}
    waiting = [case for case in itertools.islice(cases(options), part - 1, None, of) if case.name not in known]
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    with tempfile.TemporaryDirectory() as folder:
        present: dict[Path, Case] = {}
        for number, case in enumerate(waiting):
            path = Path(folder, f"{re.sub(r'[^a-zA-Z0-9]', '_', case.model)}_{number}.py")
            path.write_text(case.text, encoding="utf-8")
            present[path] = case
        plan = AccuracyPlan(locate_seconds=20.0, tries=0, device=options.device, kernels=True)

        async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
            case, start = present[Path(target_run.request.target.path)], time.monotonic()
            if start > until:
                raise asyncio.CancelledError
            report = await compare_target(target_run, plan)
            row = {**_row(case, report), "seconds": round(time.monotonic() - start, 1)}
            with (options.out / f"rows.{part}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(row["name"], row["state"], row["seconds"], row["why"][:1], flush=True)  # noqa: T201 - progress
            return report

        limits = Limits(seconds=300.0, memory_mb=16384)
        command = CommandOptions(tuple(present), ("model",), sys.executable, limits=limits)
        try:
            await report_each(command, lambda _text: None, CancelToken(), report_of)
        except asyncio.CancelledError:
            print("the time was over", flush=True)  # noqa: T201 - as above


def _row(case: Case, report: Report) -> dict[str, Any]:
    calls = report.results.calls if report.results is not None else ()
    counts: Counter[str] = Counter()
    suspected = []
    for call in calls:
        replay = call.accuracy.replay
        if replay is None:
            continue
        counts.update(judged=replay.judged, unmapped=replay.unmapped, not_evaluated=replay.not_evaluated)
        counts.update(replay.unjudged)
        if replay.kernel:
            suspected.append(
                f"{replay.kernel} {replay.buffer} {replay.steps:.3g} steps, eager {replay.eager_steps:.3g}"
            )
    left_out = [f"{count}: {why}" for count, why in not_compared(report.results)] if report.results else []
    wrong = [call.accuracy.why or call.others[0].text for call in calls if call.is_wrong]
    return {
        "name": case.name,
        "model": case.model,
        "dtype": case.dtype,
        "mode": case.mode,
        "compile": case.compile,
        "torch": report.versions.torch,
        "state": state_of(report).value,
        "why": [*(failure.message for failure in report.failures), *wrong, *left_out],
        "problems": [f"{problem.what}: {problem.why}" for problem in report.problems],
        "buffers": dict(counts),
        "suspected": suspected,
    }


def rows_of(out: Path) -> Iterator[dict[str, Any]]:
    """The rows of a folder."""
    for path in sorted(out.glob("rows.*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def page(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The table of docs/results/accuracy.md, and what is not as it should be."""
    ran = [row for row in rows if row["state"] != "not_compared"]
    yield "| dtype, mode | models | as eager | called wrong | buffers | judged | kernels suspected |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    kinds = dict.fromkeys((row["dtype"], row["mode"], row["compile"]) for row in ran)
    for kind in (*sorted(kinds), None):
        group = [row for row in ran if kind in (None, (row["dtype"], row["mode"], row["compile"]))]
        if group:
            yield _table_row("all" if kind is None else ", ".join(filter(None, kind)), group)
    yield ""
    yield from (f"- {row['name']}: {'; '.join(row['why'])[:300]}" for row in rows if row["state"] != "as_eager")
    yield from (f"- {row['name']} suspects {'; '.join(row['suspected'])[:300]}" for row in rows if row["suspected"])
    reasons: Counter[str] = Counter()
    for row in ran:
        reasons.update({why: count for why, count in row["buffers"].items() if why not in _COUNTS})
    yield from (f"- not judged: {count} {why}" for why, count in reasons.most_common(20))


def _table_row(name: str, rows: Sequence[dict[str, Any]]) -> str:
    states = Counter(row["state"] for row in rows)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({key: row["buffers"].get(key, 0) for key in _COUNTS})
    total = sum(counts.values())
    share = f"{counts['judged'] / total:.1%}" if total else "–"
    suspected = sum(len(row["suspected"]) for row in rows)
    return (
        f"| {name} | {len(rows)} | {states['as_eager']} | {states['differs']} | {total:,} | {share} | {suspected} |"
    )


if __name__ == "__main__":
    sys.exit(main())
