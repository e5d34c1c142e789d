"""Estimated times of Triton kernels next to those of a GPU: docs/results/triton.md.

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.triton_times --out FOLDER --estimate
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.triton_times --out FOLDER --gpu
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.triton_times --out FOLDER --page

The calls are those of timed_kernels.py and timed_loops.py. `--estimate` runs `fuselight kernels --resources` in processes that see no GPU;
`--gpu` makes the calls on this machine's GPU, and takes the times of their kernels from CUPTI: the median of 25 launches,
before each of which 512 MB are overwritten, so that the inputs are not in the L2 cache. Words after the options are names
of calls.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.studies.triton_sides import directives, imported, prepared_call

ROOT = Path(__file__).parents[2]
FILES = [Path(__file__).with_name(f"{name}.py") for name in ("timed_kernels", "timed_loops")]
_LAUNCHES = 25
_OVERWRITTEN = 512 << 20
_CLOSE = 2e-2
"""Of the norm of a result: operands and results have 8 bits in bfloat16, and TF32 has 10."""


def main() -> int:
    """Estimate, measure, or print the page; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--estimate", action="store_true", help="ask Fuselight, without a GPU")
    parser.add_argument("--gpu", action="store_true", help="measure on this machine's GPU")
    parser.add_argument("--page", action="store_true", help="print the table")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--processes", type=int, default=1, help="of the estimates")
    parser.add_argument("names", nargs="*", help="calls of these files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.names or list(_files())
    if options.estimate:
        _estimate(options.out / "estimates.json", names, options.device, options.processes)
    if options.gpu:
        _measure(options.out / "measured.json", names)
    if options.page:
        print("\n".join(_page(options.out, names)))
    return 0


def _estimate(kept: Path, names: Sequence[str], device: str, processes: int) -> None:
    """Write what Fuselight says of the kernels of each call. Triton's cache is a new one for each."""

    def row(name: str) -> dict[str, Any]:
        paths = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "server")]
        with tempfile.TemporaryDirectory() as cache:
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
                "CUDA_VISIBLE_DEVICES": "",
                "XDG_CACHE_HOME": cache,
            }
            command = [sys.executable, "-m", "fuselight_server", "kernels", str(_files()[name]), "--target", name]
            command += ["--resources", "--device", device, "--format", "json", "--python", sys.executable]
            ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        try:
            (target,) = json.loads(ran.stdout)["targets"]
        except (ValueError, KeyError):
            return {"failed": (ran.stdout + ran.stderr)[-1500:]}
        return {kernel["name"]: kernel for kernel in target["own_kernels"]}

    with ThreadPoolExecutor(processes) as pool:
        rows = dict(zip(names, pool.map(row, names), strict=True))
    kept.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _measure(kept: Path, names: Sequence[str]) -> None:
    """Write the times of each call's kernels, with what they ran on."""
    import torch  # noqa: PLC0415 - the page needs none
    import triton  # noqa: PLC0415 - as above

    rows: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    for path in FILES:
        module = imported(path)
        for directive in directives(path):
            if directive[0] in names:
                try:
                    rows[directive[0]] = _measured(path, module, directive)
                except Exception as error:  # noqa: BLE001 - a call that fails is a row of the page
                    rows[directive[0]] = {"failed": f"{type(error).__name__}: {error}"[:500]}
                print(directive[0], rows[directive[0]], flush=True)
                kept.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _files() -> dict[str, Path]:
    """The calls by name, each with its file."""
    return {name: path for path in FILES for name, _, _ in directives(path)}


def _measured(path: Path, module: Any, directive: tuple[str, str, int]) -> dict[str, Any]:
    """Microseconds of the kernels of a call, by name, and how far its result is from the reference."""
    import torch  # noqa: PLC0415 - as above

    prepared = prepared_call(path, module, directive, on_gpu=True)
    overwritten = torch.empty(_OVERWRITTEN, dtype=torch.int8, device="cuda")
    with torch.no_grad(), torch.device("cuda"):
        result = prepared.function(*prepared.args, **prepared.kwargs)
        row: dict[str, Any] = {"difference": _difference(module, directive[0], prepared.args, result)}
        for _ in range(3):
            prepared.function(*prepared.args, **prepared.kwargs)
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            for _ in range(_LAUNCHES):
                overwritten.zero_()
                prepared.function(*prepared.args, **prepared.kwargs)
            torch.cuda.synchronize()
    times: dict[str, list[float]] = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.device_time)
    row["us"] = {name: statistics.median(each) for name, each in times.items() if len(each) == _LAUNCHES and name.endswith("_kernel")}
    row["quartiles"] = {name: statistics.quantiles(times[name], n=4)[::2] for name in row["us"]}
    return row


def _difference(module: Any, name: str, inputs: Sequence[Any], result: Any) -> float | None:
    """The norm of what differs from the reference, as a part of the reference's; None without a reference."""
    reference = module.REFERENCES.get(name)
    if reference is None:
        return None
    import torch  # noqa: PLC0415 - as above

    expected = reference(*inputs).double()
    difference = float(torch.linalg.vector_norm(result.double() - expected) / torch.linalg.vector_norm(expected))
    if not difference < _CLOSE:
        raise ValueError(f"the result differs from the reference by {difference:g}")
    return difference


def _page(out: Path, names: Sequence[str]) -> Iterator[str]:
    estimates, measured = (
        json.loads((out / file).read_text(encoding="utf-8")) for file in ("estimates.json", "measured.json")
    )
    for with_dot in (True, False):
        rows = []
        for name in names:
            row = measured.get(name, {})
            for kernel, us in row.get("us", {}).items():
                if kernel in estimates[name] and with_dot == (row["difference"] is not None):
                    rows.append((name, estimates[name][kernel].get("estimate_us"), us))
        yield f"\n| call ({measured['device']}, torch {measured['torch']}, Triton {measured['triton']}) | estimated, µs | measured, µs | measured ÷ estimated |"
        yield "|---|--:|--:|--:|"
        for name, estimated, us in rows:
            ratio = "–" if estimated is None else f"{us / estimated:.2f}"
            yield f"| {name} | {'none' if estimated is None else f'{estimated:.1f}'} | {us:.1f} | {ratio} |"
        ratios = [us / estimated for _, estimated, us in rows if estimated]
        if ratios:
            off = sorted(max(ratio, 1 / ratio) for ratio in ratios)
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            yield f"\nOf {len(off)}: geometric mean of the ratios {mean:.2f}, median error {statistics.median(off):.2f}×, worst {off[-1]:.2f}×"
    for name in names:
        for side, rows in (("estimate", estimates), ("measured", measured)):
            if "failed" in rows.get(name, {}):
                yield f"\n{side} of {name}: {rows[name]['failed'].strip().splitlines()[-1]}"


if __name__ == "__main__":
    sys.exit(main())
