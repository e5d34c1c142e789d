"""Compare forecasts with what real calls do: each change is made, and torch says whether it compiles again.

    python benchmarks/forecast_agreement.py [--models vit,whisper] [--fresh]

The models of `benchmarks/architectures.py` and `benchmarks/forecast_models.py` run in a process each: in eval mode
without gradients, in train mode with a backward, and in eval mode compiled with `dynamic=True`. After one compiled
call, the forecasts are asked for; then each change is made for real and the model is called under torch's
`error_on_recompile`, which raises before anything is compiled, so that the next change meets the same compiled code.
With --fresh, each change is made in a process of its own, forked after the recorded call: nothing that a changed call
did can matter to another. The recorded call itself must not compile again, before the first change and after the last.
An answer is that of the model as a whole: its function and the parts after graph breaks. Prints each forecast that is
wrong and the share that agrees; exits with 1 below 99%.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
for _part in (".", "compiler", "server"):
    sys.path.insert(0, str(ROOT / _part))

from benchmarks.accuracy import _inputs  # noqa: E402 - the path is set above
from benchmarks.architectures import MODELS, MORE  # noqa: E402
from benchmarks.table import Row  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuselight.capture.calls.calls import Prepared
    from fuselight.capture.dynamo import Parts
    from fuselight.shared.report import FrameForecast

ARCHITECTURES = {**MODELS, **MORE}
OWN = ("scheduled", "bucketed", "routed", "broken", "recurrent", "pooled")
"""The names in `benchmarks/forecast_models.py`, which needs torch."""
NAMES = (*ARCHITECTURES, *OWN)
MODES = ("eval", "train", "dynamic")
GOAL = 0.99


def _model_of(name: str) -> tuple[Any, dict[str, Any], str, dict[str, Any]]:
    """A model, the arguments of its call, the folder of its code, and the global variables that it reads."""
    import torch  # noqa: PLC0415 - the parent needs none

    from benchmarks import forecast_models  # noqa: PLC0415

    if name in OWN:
        model, inputs = forecast_models.OWN[name]()
        return model, inputs, str(ROOT / "benchmarks"), vars(forecast_models)
    import transformers  # noqa: PLC0415

    config_name, model_name, sizes, kind = ARCHITECTURES[name]
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes))
    if kind == "features":
        inputs = {
            "input_features": torch.randn(4, 16, 64),
            "decoder_input_ids": torch.randint(3, 100, (4, 8)),
        }
    else:
        inputs = {key: value.clone() for key, value in _inputs(kind, 4).items()}
    return model, inputs, str(Path(transformers.__file__).parent), {}


def run_model(name: str, mode: str, *, is_fresh: bool) -> dict[str, Any]:
    """In the child: forecast one model in one mode, and make every change."""
    import torch  # noqa: PLC0415 - the parent needs none

    from fuselight.capture.calls.calls import Prepared  # noqa: PLC0415
    from fuselight.capture.calls.changed_calls import changed_call  # noqa: PLC0415
    from fuselight.capture.dynamo import Recorder, capture_only  # noqa: PLC0415
    from fuselight.shared.report import CallChange  # noqa: PLC0415

    torch.manual_seed(0)
    torch.set_num_threads(1)  # a fork has no other threads
    torch.compiler.reset()
    model, inputs, root, names = _model_of(name)
    is_training = mode == "train"
    model.train(is_training)
    prepared, answers = Prepared(model, (), inputs), []
    with capture_only(), torch.enable_grad() if is_training else torch.no_grad():
        with Recorder(roots=(root,), facts=True) as recorder:
            compiled: Any = torch.compile(model, dynamic=True if mode == "dynamic" else None)
            output = compiled(**inputs)
            if is_training:
                _backward(output)
            frames = recorder.forecasts()
        if recompiles(compiled, prepared):
            return {"error": "the recorded call compiles again", "answers": []}
        asked, is_partial = _asked(recorder.parts(), frames)
        for entry in asked:
            if is_partial and not entry["said"]:
                continue  # nothing is said of code without a forecast
            change = CallChange(entry["kind"], tuple(entry["subject"]), entry["now"])
            ask = functools.partial(recompiles, compiled, changed_call(prepared, change, names))
            real = _in_fork(ask) if is_fresh else ask()
            answers.append({**entry, "kind": entry["kind"].value, "is": real})
        if recompiles(compiled, prepared):
            return {"error": "a change was not undone", "answers": answers}
    error = "" if frames else "no forecast: it changes what its guards check"
    return {"error": error or ("only changes that recompile" if is_partial else ""), "answers": answers}


def _backward(output: Any) -> None:
    values = output.values() if isinstance(output, dict) else (output,)
    next(value for value in values if getattr(value, "requires_grad", False)).float().mean().backward()


def _asked(parts: Parts, frames: tuple[FrameForecast, ...]) -> tuple[list[dict[str, Any]], bool]:
    """The changes of the call, in words, and whether some compiled code has no forecast.

    Variables of a part after a graph break, or of another function, are not the call's to change.
    """
    from fuselight.shared.report import TargetRef  # noqa: PLC0415
    from fuselight_server.explain.findings.common.context import Context  # noqa: PLC0415
    from fuselight_server.explain.findings.forecasts.forecast_parts import is_of_call, linked_changes  # noqa: PLC0415
    from fuselight_server.explain.findings.forecasts.forecasts import has_unasked_parts  # noqa: PLC0415
    from tests.support.recording import report_of_parts  # noqa: PLC0415

    report = report_of_parts(
        dataclasses.replace(parts, breaks=()), TargetRef(__file__, "model", 1, "module"), forecasts=frames
    )
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    context = Context.of(report)
    for asked in linked_changes(context):
        forecast = asked.change
        if is_of_call(context, asked):
            words = {
                "kind": forecast.kind,
                "subject": list(forecast.subject),
                "was": forecast.was,
                "now": forecast.now,
            }
            same = entries.setdefault(
                tuple(map(str, words.values())), {**words, "said": False, "guard": forecast.guard}
            )
            same["said"] = same["said"] or forecast.recompiles  # a mode is of several functions
    return list(entries.values()), has_unasked_parts(report)


def recompiles(compiled: Any, prepared: Prepared) -> bool:
    """Whether a call compiles a function again; nothing is compiled."""
    from torch import _dynamo  # noqa: PLC0415 - in the child only

    with _dynamo.config.patch(error_on_recompile=True), prepared.during():
        try:
            compiled(*prepared.args, **prepared.kwargs)
        except _dynamo.exc.RecompileError:
            return True
        except Exception:  # noqa: BLE001 - code that was compiled for other inputs may raise when it runs
            return False
    return False


def _in_fork(question: Callable[[], bool]) -> bool:
    """The answer of a forked process, which ends after it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"1" if question() else b"0")
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer not in {b"0", b"1"}:
        raise RuntimeError(f"a changed call ended its process ({status})")
    return answer == b"1"


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
    wrong = [answer for answer in answers if answer["said"] is not answer["is"]]
    agree = f"{len(answers) - len(wrong):>3} of {len(answers):>3}"
    print(f"{name:<12} {mode:<8} {agree}  {row['error']}".rstrip(), flush=True)
    for value in wrong:
        text = "recompiles" if value["said"] else "needs no compile"
        print(
            f"    wrong: {value['kind']} {value['subject']} {value['was']} -> {value['now']}: {text}",
            flush=True,
        )


def rows() -> Iterator[Row]:
    """The promise about forecasts."""
    answers = list(compared(NAMES))
    agree = sum(answer["said"] is answer["is"] for answer in answers)
    detail = f"{agree} of {len(answers)} changes over {len(NAMES)} models"
    yield Row(
        "forecasts that agree with a real call", agree / len(answers), GOAL, "", at_least=True, detail=detail
    )


def main() -> int:
    """Compare, print the result, and answer with the exit code."""
    parser = argparse.ArgumentParser(description="Compare forecasts with what real calls do.")
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--fresh", action="store_true", help="make each change in a process of its own")
    parser.add_argument("--child", choices=NAMES)
    options = parser.parse_args()
    if options.child:
        entries = {mode: run_model(options.child, mode, is_fresh=options.fresh) for mode in MODES}
        print(json.dumps(entries))
        return 0
    answers = list(compared(options.models.split(","), is_fresh=options.fresh))
    if not answers:
        print("nothing was compared")
        return 1
    agree = sum(answer["said"] is answer["is"] for answer in answers)
    counts = Counter((answer["kind"], answer["said"]) for answer in answers)
    print("\nchange          recompiles  needs no compile")
    for kind in dict.fromkeys(kind for kind, _ in counts):
        print(f"{kind:<15} {counts[kind, True]:>10}  {counts[kind, False]:>16}")
    print(f"\n{agree} of {len(answers)} forecasts agree with the real call ({agree / len(answers):.1%})")
    return int(agree / len(answers) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
