"""The calls of a file of Triton kernels: on a GPU, or without one by Triton's interpreter, and how both compare."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_DIRECTIVE = re.compile(r"^# fuselight: ((\w+)\(.*\))$", re.MULTILINE)
MAX_DIFFERENCE = 5e-3
"""Of values, as a part of the largest one: products of `tl.dot` are TF32 on the GPU, which has 10 bits."""
_CANCELED = 1e-5
_MAX_ELEMENTS = 1 << 22
"""Elements of the inputs of a call that is made on both sides."""


def directives(path: Path) -> list[tuple[str, str, int]]:
    """Of each directive: the function, the text and the line."""
    text = path.read_text(encoding="utf-8")
    return [
        (match[2], match[1], text.count("\n", 0, match.start()) + 1) for match in _DIRECTIVE.finditer(text)
    ]


def run_side(side: str, path: Path, names: Sequence[str], result: Path) -> None:
    """Make the calls of some functions of a file, and write what they give.

    `names`: by the interpreter, the kernels that they launch, as JSON. `cpu`: their values and what their kernels
    compile to for an H200. `gpu`: the same on this machine's GPU.
    """
    import torch  # noqa: PLC0415 - the study itself needs none
    import torch._dynamo  # noqa: PLC0415 - before Triton, as in a run

    calls = []
    with _on_gpu() if side == "gpu" else _without_gpu(path, compiles=side == "cpu") as launches:
        module = imported(path)
        for name, text, line in directives(path):
            if name not in names or (side != "names" and _is_large(text)):
                continue
            del launches[:]
            values: list[Any] = []
            failed = ""
            try:
                values = _call(path, module, (name, text, line), on_gpu=side == "gpu")
            except Exception:  # noqa: BLE001 - a library may raise anything
                failed = traceback.format_exc(limit=-3)[-1500:]
            calls.append({"call": text, "values": values, "launches": list(launches), "failed": failed})
    if side == "names":
        rows = [
            {"call": call["call"], "failed": call["failed"], "kernels": sorted({launch["name"] for launch in call["launches"]})}
            for call in calls
        ]
        result.write_text(json.dumps(rows), encoding="utf-8")
    else:
        torch.save(calls, result)


def compare_sides(gpu: Path, cpu: Path) -> Iterator[dict[str, Any]]:
    """Compare what both sides have written, call by call."""
    import torch  # noqa: PLC0415 - as above

    for left, right in zip(torch.load(gpu, weights_only=False), torch.load(cpu, weights_only=False), strict=True):
        unknown = next((launch["unknown"] for launch in right["launches"] if "unknown" in launch), "")
        row: dict[str, Any] = {"call": left["call"], "failed": left["failed"] or right["failed"] or unknown}
        if not row["failed"]:
            row["difference"] = _difference(left["values"], right["values"])
            row["launches"] = [
                {"key": [measured["name"], measured["key"]], "gpu": measured, "cpu": predicted}
                for measured, predicted in zip(left["launches"], right["launches"], strict=False)
                if measured["name"] == predicted["name"]
            ]
        yield row


def _difference(left: list[Any], right: list[Any]) -> float:
    """The largest difference, as a part of the largest value of its tensor.

    A tensor whose values cancel, as the gradient of a softmax's sum does, has nothing but rounding: it is compared with
    the `_CANCELED` part of the call's largest value.
    """
    sizes = [_largest(predicted) for predicted in right]
    worst, floor = 0.0, _CANCELED * max(sizes, default=0.0)
    for measured, predicted, size in zip(left, right, sizes, strict=True):
        if measured.numel():
            ours, theirs = predicted.double(), measured.double()
            worst = max(worst, _largest(theirs - ours) / (max(size, floor) or 1.0))
            if not bool((theirs.isfinite() == ours.isfinite()).all()):
                worst = float("inf")
    return worst


def _largest(tensor: Any) -> float:
    return float(tensor.double().nan_to_num(0, 0, 0).abs().max()) if tensor.numel() else 0.0


def _is_large(text: str) -> bool:
    """Whether a call is one for the check of addresses alone."""
    total = 0
    for shape in re.findall(r"\b[a-z]+\d+\[([\d, ]+)\]", text):
        count = 1
        for size in shape.split(","):
            count *= int(size)
        total += count
    return total > _MAX_ELEMENTS or "fake=True" in text


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _call(path: Path, module: ModuleType, directive: tuple[str, str, int], *, on_gpu: bool) -> list[Any]:
    """Make the call of a directive, with its backward pass. Returns its results and the gradients of its inputs."""
    import torch  # noqa: PLC0415 - as above

    from fuselight.adapters.torch_api import settings  # noqa: PLC0415
    from fuselight.capture.calls.calls import call_mode, call_outputs  # noqa: PLC0415
    from fuselight.capture.calls.tensors import tensors_in  # noqa: PLC0415

    is_large = _is_large(directive[1])
    with settings.fake_tensors() if is_large else contextlib.nullcontext():
        prepared = prepared_call(path, module, directive, on_gpu=on_gpu)
        with call_mode(prepared), torch.device("cuda" if on_gpu else "cpu"):
            outputs, _ = call_outputs(prepared, prepared.function)
    if is_large:
        return []
    inputs = tensors_in([prepared.args, prepared.kwargs])
    gradients = [tensor.grad for tensor in inputs if tensor.grad is not None]
    return [tensor.detach().cpu() for tensor in [*tensors_in(outputs), *gradients]]


def prepared_call(path: Path, module: ModuleType, directive: tuple[str, str, int], *, on_gpu: bool) -> Any:
    """The function and the inputs of a directive, which are on the GPU if asked for."""
    from fuselight.capture.calls.rungs import Ladder  # noqa: PLC0415
    from fuselight.capture.calls.tensors import set_seeds, with_tensors  # noqa: PLC0415
    from fuselight.shared.protocol import DirectiveLine, InputsPlan, Target  # noqa: PLC0415

    name, text, line = directive
    target = Target(str(path), name, "function", line + 1, compiled=False)
    plan = InputsPlan((DirectiveLine(line, 0, text),))
    answered, _ = Ladder(target, plan, vars(module), "cpu").climb()
    assert answered is not None
    set_seeds()
    prepared = answered.calls[0].build()
    if on_gpu:
        moved = with_tensors([prepared.args, prepared.kwargs], lambda tensor: tensor.cuda())
        prepared = prepared.__class__(prepared.function, tuple(moved[0]), moved[1], prepared.options)
    return prepared


@contextlib.contextmanager
def _without_gpu(path: Path, *, compiles: bool) -> Iterator[list[dict[str, Any]]]:
    """Have launches interpreted, and yield the list that gets them."""
    from fuselight.adapters.torch_api.absent_gpu import device_guards  # noqa: PLC0415
    from fuselight.adapters.triton_api.launches import launcher  # noqa: PLC0415
    from fuselight.adapters.triton_api.launches.record import LaunchLog, LaunchOutcome  # noqa: PLC0415
    from fuselight.adapters.triton_api.launches.stand_in import standing_in  # noqa: PLC0415
    from fuselight.shared.devices import find  # noqa: PLC0415

    launches: list[dict[str, Any]] = []
    known: dict[str, dict[str, Any]] = {}
    real = launcher.Launcher.launch
    launcher.MAX_SECONDS = launcher.MAX_ALL_SECONDS = 100.0

    def launch(self: Any, kernel: Any, args: Any, named: Any, grid: Any, *, warmup: bool) -> Any:
        absent = real(self, kernel, args, named, grid, warmup=warmup)
        arguments = absent._arguments  # noqa: SLF001 - the study looks inside
        key = f"{arguments.signature} {arguments.constants} {arguments.attributes}"
        whole = f"{kernel.__module__}.{kernel.__name__} {key}"
        if compiles and whole not in known:
            try:
                known[whole] = {
                    "registers": absent.n_regs,
                    "spills": absent.n_spills * 4,
                    "shared": absent.metadata.shared,
                }
            except RuntimeError as error:
                known[whole] = {"failed": str(error)[:300]}
        launches.append({"name": kernel.__name__, "key": key, **known.get(whole, {})})
        return absent

    def outcome(result: LaunchOutcome, _frame: Any) -> None:
        if result.unknown:
            launches.append({"name": result.kernel, "key": "", "unknown": result.unknown})

    launcher.Launcher.launch = launch  # type: ignore[method-assign]
    device = find("h200")
    with device_guards(), standing_in(device, LaunchLog(outcome), lambda other: other == str(path)):
        yield launches


@contextlib.contextmanager
def _on_gpu() -> Iterator[list[dict[str, Any]]]:
    """Note what the driver knows of each kernel that is launched. Of an autotuner, the first configuration runs."""
    from fuselight.adapters.triton_api import names  # noqa: PLC0415 - as above

    autotuner, jit = names.autotuner(), names.runtime_jit()

    launches: list[dict[str, Any]] = []
    real = jit.JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = real(self, *args, grid=grid, warmup=warmup, **named)
        if kernel is not None and not warmup:
            launches.append(
                {
                    "name": self.__name__,
                    "key": str(kernel.hash),
                    "registers": kernel.n_regs,
                    "spills": kernel.n_spills * 4,
                    "shared": kernel.metadata.shared,
                }
            )
        return kernel

    jit.JITFunction.run = run
    autotuner.Autotuner._bench = lambda *_, **__: [0.0, 0.0, 0.0]  # noqa: SLF001
    if hasattr(autotuner.Autotuner, "check_disk_cache"):
        autotuner.Autotuner.check_disk_cache = lambda _self, _key, _configs, benchmark: benchmark() and False
    yield launches
