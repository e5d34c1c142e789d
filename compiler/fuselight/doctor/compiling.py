"""Compiles a small model for real on one device, forward and backward, and compares the result to eager mode.

It runs in a separate process, because a broken compiler or driver may crash or hang that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence

from fuselight.doctor.check import CheckResult, Status
from fuselight.shared.owned_folders import owned_folder

_ROWS, _COLUMNS = 64, 128
_TOLERANCE = 1e-4
"""Largest difference to eager in float32 for a model of two matrix products."""
_TAIL = 400


def devices() -> tuple[str, ...]:
    """The devices to compile on: the CPU, and each GPU that torch sees."""
    import torch  # noqa: PLC0415 - the other functions are needed without

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return ("cpu", *(f"cuda:{index}" for index in gpus))


def compile_on(device: str, command: Sequence[str], seconds: float) -> CheckResult:
    """Compile on `device` in a process started by `command`, within `seconds`."""
    with owned_folder("doctor") as folder:
        variables = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        }
        for off in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"):
            variables.pop(off, None)  # another check reports this variable
        try:
            ended = subprocess.run(  # noqa: S603 - this program again
                [*command, "--compile", device],
                capture_output=True, text=True, errors="replace", env=variables, timeout=seconds, check=False,
                stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            fix = "Look whether the machine is overloaded, then try again; TORCH_LOGS=+inductor says where it is"
            return CheckResult(Status.FAILED, f"not done after {seconds:.0f} s", fix)
    try:
        answer = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
        message = ended.stderr.strip()[-_TAIL:] or "it printed nothing"
        return CheckResult(Status.FAILED, f"the process ended with {how}: {message}", _fix(device))
    if answer.get("error"):
        return CheckResult(Status.FAILED, str(answer["error"])[:_TAIL], _fix(device))
    text = f"works, in {float(answer['seconds']):.1f} s; largest difference to eager {float(answer['difference']):.1e}"
    if not float(answer["difference"]) <= _TOLERANCE:
        fix = "Compiled code gives other results here: report it to PyTorch with the versions above"
        return CheckResult(Status.FAILED, text, fix)
    return CheckResult(Status.OK, text)


def _fix(device: str) -> str:
    where = (
        "the C++ compiler and Python's headers"
        if device == "cpu"
        else "the driver, Triton and Python's headers"
    )
    return f"Fix what the checks of {where} report; if they pass, the message above comes from torch itself"


def main(device: str) -> int:
    """Compile on `device` in this process and print the result as one line of JSON."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print is not the answer
    try:
        answer: dict[str, object] = _measured(device)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        answer = {"error": f"{type(error).__name__}: {error}".replace("\n", " ")}
    out.write(json.dumps(answer) + "\n")
    out.flush()
    return 0


def _measured(device: str) -> dict[str, object]:
    import torch  # noqa: PLC0415 - the parent may have none

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(_COLUMNS, _COLUMNS),
        torch.nn.GELU(),
        torch.nn.LayerNorm(_COLUMNS),
        torch.nn.Linear(_COLUMNS, 8),
    ).to(device)
    data = torch.randn(_ROWS, _COLUMNS, device=device)
    started, seconds = time.perf_counter(), 0.0
    results = []
    for call in (torch.compile(model, fullgraph=True), model):
        model.zero_grad()
        out = call(data)
        out.square().sum().backward()
        results.append(
            [
                out.detach(),
                *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None),
            ]
        )
        if len(results) == 1:
            seconds = time.perf_counter() - started
    differences = [
        float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6))
        for ours, theirs in zip(*results, strict=True)
    ]
    return {"seconds": seconds, "difference": max(differences)}
