"""Compare forecasts with what real calls do: each change is made, and torch says whether it compiles again.

    python benchmarks/forecast_agreement.py [--models bert,gpt2] [--fresh]

Each model of `benchmarks/architectures.py` runs in a process of its own: in eval mode without gradients, in train mode
with them, and in eval mode compiled with `dynamic=True`. After one compiled call, the forecasts are asked for; then
each change is made for real and the model is called under torch's `error_on_recompile`, which raises before anything
is compiled, so that the next change meets the same compiled code. With --fresh, each change follows a reset
and a compile of its own. The recorded call itself must not compile again, before the first change and after the last.
Prints each forecast that is wrong and the share that agrees; exits with 1 below 99%.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.accuracy import _inputs  # noqa: E402 - the path is set above
from benchmarks.architectures import MODELS  # noqa: E402
from benchmarks.table import Row  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.report import Forecast

MODES = ("eval", "train", "dynamic")
GOAL = 0.99


def run_model(name: str, mode: str, *, is_fresh: bool) -> dict[str, Any]:
    """In the child: forecast one model in one mode, and make every change."""
    import torch  # noqa: PLC0415 - the parent needs none
    import transformers  # noqa: PLC0415

    from fuselight.dynamo import Recorder, capture_only  # noqa: PLC0415
    from tests.support.made_changes import applied  # noqa: PLC0415

    torch.manual_seed(0)
    config_name, model_name, sizes, kind = MODELS[name]
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes))
    is_training = mode == "train"
    model.train(is_training)
    inputs = {key: value.clone() for key, value in _inputs(kind, 4).items()}
    roots = (str(Path(transformers.__file__).parent),)
    answers = []
    with capture_only(), torch.enable_grad() if is_training else torch.no_grad():

        def compiled_once() -> Any:
            torch.compiler.reset()
            compiled: Any = torch.compile(model, dynamic=True if mode == "dynamic" else None)
            compiled(**inputs)
            return compiled

        with Recorder(roots=roots, facts=True) as recorder:
            compiled = compiled_once()
            frames = recorder.forecasts()
        if recompiles(compiled, inputs):
            return {"error": "the recorded call compiles again", "answers": []}
        for one in (change for frame in frames for change in frame.changes):
            compiled = compiled_once() if is_fresh else compiled
            changed, state = applied(model, inputs, one)
            with state:
                answers.append({**_described(one), "is": recompiles(compiled, changed)})
        if recompiles(compiled, inputs):
            return {"error": "a change was not undone", "answers": answers}
    error = "" if frames else "no forecast: it changes what its guards check"
    return {"error": error, "answers": answers}


def recompiles(compiled: Any, inputs: dict[str, Any]) -> bool:
    """Whether a call compiles a function again; nothing is compiled."""
    from torch import _dynamo  # noqa: PLC0415 - in the child only

    with _dynamo.config.patch(error_on_recompile=True):
        try:
            compiled(**inputs)
        except _dynamo.exc.RecompileError:
            return True
        except Exception:  # noqa: BLE001 - code that was compiled for other inputs may raise when it runs
            return False
    return False


def _described(one: Forecast) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "subject": list(one.subject),
        "was": one.was,
        "now": one.now,
        "said": one.recompiles,
        "guard": one.guard,
    }


def measure(name: str, *, is_fresh: bool) -> dict[str, dict[str, Any]]:
    """One model in a fresh process, by mode."""
    command = [sys.executable, __file__, "--child", name, *(["--fresh"] if is_fresh else [])]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        why = (done.stderr.strip() or "it was killed").splitlines()[-1]
        return {"-": {"error": why, "answers": []}}
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def compared(names: Sequence[str], *, is_fresh: bool = False) -> Iterator[dict[str, Any]]:
    """Every change of every model, two models at a time; prints a line for each mode and each wrong forecast."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [(name, pool.submit(measure, name, is_fresh=is_fresh)) for name in names]
        for name, job in jobs:
            for mode, row in job.result().items():
                _print_row(name, mode, row)
                yield from row["answers"]


def _print_row(name: str, mode: str, row: dict[str, Any]) -> None:
    answers = row["answers"]
    wrong = [one for one in answers if one["said"] is not one["is"]]
    agree = f"{len(answers) - len(wrong):>3} of {len(answers):>3}"
    print(f"{name:<12} {mode:<8} {agree}  {row['error']}".rstrip(), flush=True)
    for one in wrong:
        said = "recompiles" if one["said"] else "needs no compile"
        print(f"    wrong: {one['kind']} {one['subject']} {one['was']} -> {one['now']}: {said}", flush=True)


def rows() -> Iterator[Row]:
    """The promise about forecasts."""
    answers = list(compared(tuple(MODELS)))
    agree = sum(one["said"] is one["is"] for one in answers)
    detail = f"{agree} of {len(answers)} changes over {len(MODELS)} architectures"
    yield Row(
        "forecasts that agree with a real call", agree / len(answers), GOAL, "", at_least=True, detail=detail
    )


def main() -> int:
    """Compare, print the result, and answer with the exit code."""
    parser = argparse.ArgumentParser(description="Compare forecasts with what real calls do.")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--fresh", action="store_true", help="reset and compile before each change")
    parser.add_argument("--child", choices=MODELS)
    options = parser.parse_args()
    if options.child:
        found = {mode: run_model(options.child, mode, is_fresh=options.fresh) for mode in MODES}
        print(json.dumps(found))
        return 0
    answers = list(compared(options.models.split(","), is_fresh=options.fresh))
    if not answers:
        print("nothing was compared")
        return 1
    agree = sum(one["said"] is one["is"] for one in answers)
    said = Counter((one["kind"], one["said"]) for one in answers)
    print("\nchange          recompiles  needs no compile")
    for kind in dict.fromkeys(kind for kind, _ in said):
        print(f"{kind:<15} {said[kind, True]:>10}  {said[kind, False]:>16}")
    print(f"\n{agree} of {len(answers)} forecasts agree with the real call ({agree / len(answers):.1%})")
    return int(agree / len(answers) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
