"""`python -m benchmarks [NAME ...]`: measure every promise and print the table.

Invariant: a benchmark that fails is a line of the table that says so, and the rest still runs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback

from benchmarks.print_table import print_header, print_table

NAMES = (
    "server_bench",
    "static_bench",
    "trace_log",
    "rank_logs",
    "save_to_diagnostics",
    "check_process",
    "check_overhead",
    "repeated_check",
    "facts_bench",
    "forecast_time",
    "live_rules",
    "live_trace",
    "run_overhead",
    "kernels_bench",
    "memory_bench",
    "benchmark_bench",
    "accuracy",
    "forecast_agreement",
    "fix_coverage",
)


def main() -> int:
    """Measure; returns the exit code: 0 if every promise holds."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure every promise.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(NAMES)}")
    names = parser.parse_args().names or NAMES
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    broken = 0
    print_header()
    for name in names:
        try:
            broken += print_table(importlib.import_module(f"benchmarks.{name}").rows())
        except Exception:  # noqa: BLE001 - whatever it is, the other benchmarks still have their say
            broken += 1
            print(f"FAILED   {name}\n{traceback.format_exc()}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
