"""A tuned result as plain arguments of torch.compile, for a program that then needs nothing of ours.

Invariant: what cannot be an argument of torch.compile is never left out silently: it is an error that says what the
program must do itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import module_tensors
from fuselight.replay.machine_key import MachineKey, machine_key
from fuselight.replay.numerics import preferred
from fuselight.replay.tuned_files import TunedSources
from fuselight.shared.report.measured import Work
from fuselight.shared.report.tuned import TunedResult
from fuselight.shared.tuned_code import compile_arguments, freezing_code, preparation_code


class TunedOptionsError(ValueError):
    """No arguments of torch.compile can stand for a result; the message says why and what to do."""


def tuned_options(
    model: Any = None,
    *,
    file: str | None = None,
    target: str | None = None,
    train: bool = False,
    prepared: bool = False,
) -> dict[str, Any]:
    """Keyword arguments of torch.compile from the tuned file: `torch.compile(model, **tuned_options(model))`.

    `model` finds the result: by the name of its class or function, and its device. `file` is the tuned file (else as
    the backend finds it), `target` the name of the tuned target, `train` whether gradients are recorded. `prepared`
    says that the program does itself what torch.compile has no argument for. Raises TunedOptionsError.
    """
    machine = machine_key(_device_of(model))
    source = TunedSources().source(file, machine)
    if source.problem:
        raise TunedOptionsError(source.problem)
    tuned_results = [
        tuned_result for tuned_result in source.results if train == (tuned_result.work is not Work.INFERENCE)
    ]
    tuned_results = [
        tuned_result for tuned_result in tuned_results if target is None or tuned_result.target == target
    ]
    if model is not None and target is None and tuned_results:
        tuned_results = _named(tuned_results, _name_of(model), source.path)
    result = _newest(tuned_results, machine, source.path)
    missing = _beyond_arguments(result, _device_of(model).type)
    if missing and not prepared:
        lines = "\n".join(f"    {line}" for line in missing)
        raise TunedOptionsError(
            f"the result of {result.target or result.file} needs more than arguments of torch.compile:\n{lines}\n"
            "Do this in the program and pass prepared=True, or use torch.compile(model, backend='fuselight')"
        )
    return compile_arguments(result, skip_guards=torch.compiler.skip_guard_on_all_nn_modules_unsafe)


def _name_of(model: Any) -> str:
    """The name of a model's class, or of a function."""
    plain = getattr(model, "_orig_mod", model)  # what torch.compile made of a module has it
    name = None if isinstance(plain, torch.nn.Module) else getattr(plain, "__name__", None)
    return str(name or type(plain).__name__)


def _named(tuned_results: Sequence[TunedResult], name: str, path: str) -> list[TunedResult]:
    """The results of a target. Raises TunedOptionsError if there are none: those of another are for another model."""
    named = [tuned_result for tuned_result in tuned_results if tuned_result.target.rpartition(".")[2] == name]
    if not named:
        targets = ", ".join(
            sorted({f"`{tuned_result.target or tuned_result.file}`" for tuned_result in tuned_results})
        )
        raise TunedOptionsError(
            f"`{path}` has no result of `{name}` for this work, but of {targets}. If one of them makes this model, "
            "name it with target=..., else tune with `fuselight tune PATH`"
        )
    return named


def _device_of(model: Any) -> torch.device:
    parameters = getattr(model, "parameters", None)
    first = next(iter(parameters()), None) if isinstance(model, torch.nn.Module) and parameters else None
    if isinstance(first, torch.Tensor):
        return first.device
    if model is None and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _newest(tuned_results: Sequence[TunedResult], machine: MachineKey, path: str) -> TunedResult:
    """The newest result for this machine with the least change of the arithmetic, if all are of one target."""
    if not tuned_results:
        raise TunedOptionsError(
            f"`{path}` has no result for this target and work. Tune with `fuselight tune PATH`"
        )
    here = [tuned_result for tuned_result in tuned_results if not list(machine.differences(tuned_result))]
    if not here:
        raise TunedOptionsError(
            f"no result of `{path}` holds here: {'; '.join(machine.differences(tuned_results[-1]))}. "
            "Tune again: `fuselight tune PATH`"
        )
    targets = sorted({tuned_result.target for tuned_result in here})
    if len(targets) > 1:
        raise TunedOptionsError(f"`{path}` has results of {', '.join(targets)}: name one with target=...")
    return preferred(here, None) or here[-1]


def _beyond_arguments(result: TunedResult, device: str) -> list[str]:
    """What a result needs beside arguments, as lines of code or comments."""
    lines = [] if module_tensors.is_freezing_set() else freezing_code(result)
    lines += preparation_code(result.preparation, device=device)
    lines += [f"# apply the fix: {title}" for title in result.fixes]
    if result.blocks:
        lines.append(f"# compile these submodules one by one, not the whole: {', '.join(result.blocks)}")
    if result.optimizer:
        lines.append("optimizer.step = torch.compile(optimizer.step)")
    return lines
