"""Triton kernels of libraries and of our own, checked without a GPU; with `--gpu`, compared with an H200.

    PYTHONPATH=compiler:server:. python -m benchmarks.studies.triton_kernels --out FOLDER [--site FOLDER] [--page]
    PYTHONPATH=compiler:server:. python -m benchmarks.studies.triton_kernels --out FOLDER [--site FOLDER] --gpu

`--site` is where the libraries are, unless they are installed:

    pip install --no-deps --target FOLDER liger-kernel fla-core flash-linear-attention einops conch-triton-kernels

FOLDER gets a JSON file for each file of kernels; one that is there is not run again. `--page` prints the tables of
docs/results/triton.md, and runs nothing. Files of which lines are marked with `# expect: FLnnn` have planted faults.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.studies.triton_sides import MAX_DIFFERENCE, compare_sides, directives, run_side

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases" / "launches"
PLANTED = ("planted_bounds", "planted_sizes", "planted_order", "planted_kinds")
OWN = ("right_kernels", "right_kinds")
LIBRARIES = ("liger_kernels", "fla_kernels", "conch_kernels")
PACKAGES = ("torch", "triton", "liger_kernel", "fla-core", "conch-triton-kernels")
_EXPECTED = re.compile(r"# expect: (FL\d+)$")
_CHECKS = frozenset({"FL941", "FL942", "FL943", "FL944", "FL945", "FL948"})
_CHUNK = 4
"""Targets of a process of the comparison with a GPU."""


def main() -> int:
    """Check the files, or compare with a GPU, or print the page; returns 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--site", type=Path, help="where the libraries are")
    parser.add_argument(
        "--gpu", action="store_true", help="compare values and resources with this machine's GPU"
    )
    parser.add_argument("--page", action="store_true", help="print the tables, and run nothing")
    parser.add_argument("--side", choices=["gpu", "cpu", "names"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help="files of kernels, as `liger_kernels`")
    options = parser.parse_args()
    if options.side:
        run_side(options.side, options.file, options.names, options.out)
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.names or [*PLANTED, *OWN, *LIBRARIES]
    if options.gpu:
        _compare(options.out, [name for name in names if name not in PLANTED], options.site)
    elif not options.page:
        for name in names:
            kept = options.out / f"{name}.json"
            if not kept.exists():
                kept.write_text(json.dumps(_checked(_path(name), options.site), indent=1), encoding="utf-8")
    print("\n".join(_page(options.out, names)))
    return 0


def _path(name: str) -> Path:
    return CASES / ("libraries" if name in LIBRARIES else ".") / f"{name}.py"


def _environment(site: Path | None, **more: str) -> dict[str, str]:
    paths = [
        str(ROOT),
        str(ROOT / "compiler"),
        str(ROOT / "server"),
        *([str(site.resolve())] if site else []),
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def _checked(path: Path, site: Path | None) -> dict[str, Any]:
    """What `fuselight check` says of a file, and the kernels that its calls launch."""
    environment = _environment(site)
    command = [sys.executable, "-m", "fuselight_server", "check", str(path), "--format", "json"]
    ran = subprocess.run(
        [*command, "--python", sys.executable], stdout=subprocess.PIPE, env=environment, check=False
    )
    answer = json.loads(ran.stdout)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "names.json"
        _run(path, "names", [name for name, _, _ in directives(path)], result, environment)
        kernels = json.loads(result.read_text(encoding="utf-8"))
    expected = [
        [number, match[1]]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := _EXPECTED.search(line)) is not None
    ]
    found = [[finding["line"], finding["code"]] for finding in answer["findings"]]
    return {"findings": found, "expected": expected, "calls": kernels}


def _run(path: Path, side: str, names: Sequence[str], result: Path, environment: dict[str, str]) -> str:
    """Run one side of the study in a process of its own. Returns the end of what it prints where it fails."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.studies.triton_kernels",
        "--out",
        str(result),
        "--side",
        side,
    ]
    ran = subprocess.run(
        [*command, "--file", str(path), "--", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        check=False,
        timeout=170,
    )
    return "" if ran.returncode == 0 else ran.stdout.decode("utf-8", "replace")[-2000:]


def _compare(out: Path, names: Sequence[str], site: Path | None) -> None:
    """Run each call on the GPU, and without one in a process that sees none, and compare."""
    chunks: list[tuple[str, list[str]]] = []
    for name in names:
        functions = list(dict.fromkeys(function for function, _, _ in directives(_path(name))))
        chunks += [(name, functions[at : at + _CHUNK]) for at in range(0, len(functions), _CHUNK)]

    def compared(chunk: tuple[str, list[str]]) -> list[dict[str, Any]]:
        name, functions = chunk
        with tempfile.TemporaryDirectory() as folder:
            results = {side: Path(folder) / f"{side}.pt" for side in ("gpu", "cpu")}
            hidden = {"gpu": {}, "cpu": {"CUDA_VISIBLE_DEVICES": ""}}
            for side, result in results.items():
                try:
                    failed = _run(_path(name), side, functions, result, _environment(site, **hidden[side]))
                except subprocess.TimeoutExpired:
                    failed = "it took longer than 170 s"
                if failed:
                    return [
                        {"file": name, "call": function, "failed": f"{side}: {failed}"}
                        for function in functions
                    ]
            return [{"file": name, **row} for row in compare_sides(results["gpu"], results["cpu"])]

    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(min(12, os.cpu_count() or 1)) as pool:
        for future in as_completed([pool.submit(compared, chunk) for chunk in chunks]):
            rows += future.result()
            (out / "gpu.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _page(out: Path, names: Sequence[str]) -> Iterator[str]:
    known = {
        name: json.loads(kept.read_text(encoding="utf-8"))
        for name in names
        if (kept := out / f"{name}.json").exists()
    }
    yield "| file | calls | kernels | not captured | false findings | planted | named on the line |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, data in known.items():
        yield _row(name, data)
    kept = out / "gpu.json"
    if kept.exists():
        yield ""
        yield from _gpu_page(json.loads(kept.read_text(encoding="utf-8")))


def _row(name: str, data: dict[str, Any]) -> str:
    calls = data["calls"]
    kernels = {kernel for call in calls for kernel in call["kernels"]}
    expected = {tuple(fault) for fault in data["expected"]}
    found = {(line, code) for line, code in data["findings"] if code in _CHECKS}
    errors = [code for _, code in data["findings"] if code.startswith("FL4")]
    failed = [call for call in calls if call["failed"] or not call["kernels"]]
    cells = [
        name,
        len(calls),
        len(kernels),
        len(failed) + len(errors),
        len(found - expected),
        len(expected),
        len(found & expected),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _gpu_page(rows: list[dict[str, Any]]) -> Iterator[str]:
    compared = [row for row in rows if not row.get("failed")]
    right = [row for row in compared if row["difference"] <= MAX_DIFFERENCE]
    launches = {json.dumps(launch["key"]): launch for row in compared for launch in row["launches"]}
    equal = {
        field: sum(launch["gpu"][field] == launch["cpu"].get(field) for launch in launches.values())
        for field in ("registers", "spills", "shared")
    }
    yield f"{len(compared)} of {len(rows)} calls ran on both sides; values agree within {MAX_DIFFERENCE:g} in {len(right)}."
    yield ""
    yield f"| of {len(launches)} compiled kernels, equal | |"
    yield "|---|--:|"
    for field, count in equal.items():
        yield f"| {field} | {count} |"
    for row in rows:
        if row.get("failed"):
            yield f"\n{row['file']} {row['call']}: {row['failed'].strip().splitlines()[-1]}"
        elif row["difference"] > MAX_DIFFERENCE:
            yield f"\n{row['file']} {row['call']}: differs by {row['difference']:.2g}"


if __name__ == "__main__":
    sys.exit(main())
