"""Whether a search reaches its goals: no longer than one max-autotune compile, and faster than torch's modes.

    PYTHONPATH=compiler:. python -m benchmarks.studies.tuning_goal FOLDER [--models NAME,...] [--seconds 1700]
        [--autotune-limit 360] [--longest 150] [--replay-limit 200] [--tiny]

First each model is compiled once with `max-autotune` (benchmarks.studies.compile_spread), with empty caches that are kept; a
compile that is not ready after `--autotune-limit` is ended, and has taken longer than that. Then each is searched
(benchmarks.studies.tune_models) with a budget of at most 95% of the seconds that its compile took. At last the results are
replayed in fresh processes (benchmarks.studies.replay) next to `reduce-overhead` and that `max-autotune`, as many as there is
time for. A GPU and its share of the cores run one of these commands at a time: nothing else disturbs a compile, a
search or a replay.
FOLDER gets `alone.jsonl`, `models.jsonl`, `replays.jsonl` and `fuselight-tuned.json`, which
`benchmarks.studies.tuning_on_gpus merge` adds to the results.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.studies.tuning_on_gpus import (
    ALONE,
    REPLAYS,
    Lane,
    collect,
    lanes_of,
    rows_of,
    run_lane,
    usable_gpus,
)
from fuselight.shared import tuned_file

_BUDGET_PART = 0.95
"""Of the seconds of the compile: a search ends within its budget, but for what is under way."""
_SEARCH_SECONDS, _REPLAY_SECONDS = 25.0, 60.0
"""What a search takes beyond its budget (a worker's start), and the least that a replay needs."""


def main() -> int:
    """Compile, search and replay; the exit code is 0 if every command ended well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default="", help="names with commas, the longest compiles first")
    parser.add_argument("--seconds", type=float, default=1700.0, help="of everything")
    parser.add_argument("--autotune-limit", type=float, default=360.0, help="seconds of one compile")
    parser.add_argument("--longest", type=float, default=150.0, help="seconds of the longest budget")
    parser.add_argument("--replay-limit", type=float, default=200.0, help="seconds of a replay's compiles")
    parser.add_argument("--tiny", action="store_true", help="small models on a CPU, to see that it works")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + asked.seconds
    models = asked.models.split(",") if asked.models else _all_models()
    codes: list[int] = []

    def run(lane: Lane, *commands: tuple[str, ...]) -> None:
        codes.append(run_lane(Lane(lane.number, lane.gpu, lane.cores, commands), folder, until))

    def compile_alone(name: str, lane: Lane) -> None:
        if until - time.monotonic() > asked.autotune_limit:
            run(lane, autotune_command(name, folder, asked.autotune_limit, tiny=asked.tiny))

    def search(name: str, lane: Lane) -> None:
        budget = budget_for(name, folder, asked.longest)
        if has_time(f"search of {name}", lane, budget + _SEARCH_SECONDS):
            run(lane, search_command(name, folder, budget, tiny=asked.tiny))

    def replay(name: str, lane: Lane) -> None:
        has_result = (_out(name, folder) / tuned_file.NAME).exists()
        if has_result and has_time(f"replay of {name}", lane, _REPLAY_SECONDS):
            run(lane, replay_command(name, folder, min(asked.replay_limit, until - time.monotonic() - 30)))

    def has_time(what: str, lane: Lane, seconds: float) -> bool:
        left: float = until - time.monotonic()
        missing = ", no time" if left < seconds else ""
        print(
            f"[{asked.seconds - left:.0f} s] lane {lane.number}: {what}{missing}", file=sys.stderr, flush=True
        )
        codes.append(int(left < seconds))
        return left >= seconds

    in_turn(models, compile_alone, search, replay)
    collect(folder)
    return int(any(codes))


def in_turn(models: Sequence[str], *steps: Callable[[str, Lane], None]) -> None:
    """Take the first step for each model, then the next one, as many at a time as there are GPUs.

    A GPU that is free takes the next model. A step of a model waits for the one before.
    """
    taken = {(number, name): threading.Event() for number, _ in enumerate(steps) for name in models}
    waiting = deque(taken)

    def serve(lane: Lane) -> None:
        with contextlib.suppress(IndexError):  # another lane took the last one
            while True:
                number, name = waiting.popleft()
                if number:
                    taken[number - 1, name].wait()
                try:
                    steps[number](name, lane)
                finally:
                    taken[number, name].set()

    lanes = lanes_of([()] * len(usable_gpus()))
    with ThreadPoolExecutor(len(lanes)) as pool:
        list(pool.map(serve, lanes))


def autotune_command(name: str, folder: Path, limit: float, *, tiny: bool = False) -> tuple[str, ...]:
    """One compile with max-autotune."""
    return (
        *("benchmarks.studies.compile_spread", name, "--configuration", "max-autotune", "--times", "1"),
        *("--seconds", f"{limit:.0f}", "--caches", str(folder / "caches"), "--out", str(_out(name, folder) / ALONE)),
        *(("--tiny",) if tiny else ()),
    )  # fmt: skip


def budget_for(name: str, folder: Path, longest: float) -> float:
    """Seconds of the budget of a search: of a compile that was late, what it had by then is known."""
    row = rows_of([_out(name, folder) / ALONE]).get(name, {})
    took = row.get("first", row.get("late"))
    return longest if took is None else float(int(min(longest, _BUDGET_PART * took)))


def search_command(name: str, folder: Path, budget: float, *, tiny: bool = False) -> tuple[str, ...]:
    """The search of a model."""
    return (
        *("benchmarks.studies.tune_models", "--models", name, "--budget", f"{budget:.0f}", "--fixed-modules"),
        *("--seconds", "1", "--mode-limit", "150", "--jobs", "5", "--out", str(_out(name, folder))),
        *(("--tiny", "--device", "cpu") if tiny else ()),
    )  # fmt: skip


def replay_command(name: str, folder: Path, limit: float) -> tuple[str, ...]:
    """The replay of its result."""
    return (
        *("benchmarks.studies.replay", str(_out(name, folder)), "--models", name, "--modes", "reduce-overhead,max-autotune"),
        *("--processes", "3", "--caches", str(folder / "caches"), "--limit", f"{limit:.0f}"),
        *("--out", str(_out(name, folder) / REPLAYS)),
    )  # fmt: skip


def _out(name: str, folder: Path) -> Path:
    """Where the commands of a model write."""
    path = folder / "lanes" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def _all_models() -> list[str]:
    from benchmarks.studies.tuned_models import MODELS  # noqa: PLC0415 - imports torch

    return list(MODELS)


if __name__ == "__main__":
    sys.exit(main())
