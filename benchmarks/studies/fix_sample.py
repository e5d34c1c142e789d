"""Which architectures of `transformers` have a graph break in their own file, to choose a sample without reading it.

    python benchmarks/studies/fix_sample.py [--first mpnet]

Every model type in alphabetical order that `small_models` can make with at most 10 million parameters, that a call in
training takes, and that `fix_coverage` does not name already. Prints how many lines of its own file break, no cause.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - the path is set above

from benchmarks.architectures import MODELS, MORE  # noqa: E402
from benchmarks.small_models import small_model  # noqa: E402

MAX_PARAMETERS = 10_000_000
_USED = {*MODELS, *MORE, "deberta-v2", "switch_transformers", "m2m_100", "fsmt"}
"""Models that rewrites, tests or earlier measurements used."""
_ARGUMENT = re.compile(r"(\w+)=(\w+)\[([\d, ]+)\]")


def inputs_of(call: str) -> dict[str, torch.Tensor]:
    """The arguments of a call, as its text describes them: i64[2, 8] are tokens, f32[2, 8] random numbers."""
    tensors = {}
    for name, dtype, sizes in _ARGUMENT.findall(call):
        shape = [int(size) for size in sizes.split(",")]
        tensors[name] = torch.randint(5, 95, shape) if dtype == "i64" else torch.randn(shape)
    return tensors


def own_breaks(model_type: str) -> int:
    """How many lines of an architecture's own file break. Raises what its configuration, model or call raises."""
    import transformers  # noqa: PLC0415 - seconds

    new_model = small_model(model_type)
    model_class: Any = getattr(transformers, new_model.model)
    configuration = getattr(transformers, new_model.configuration)(**new_model.sizes)
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in model_class(configuration).parameters())
    if parameters > MAX_PARAMETERS:
        raise ValueError(f"{parameters:,} parameters")
    torch.manual_seed(0)
    model, inputs = model_class(configuration).train(), inputs_of(new_model.call)
    model(**inputs)
    torch._dynamo.reset()  # noqa: SLF001 - a benchmark
    explained = torch._dynamo.explain(model)(**inputs)  # noqa: SLF001
    stacks = [reason.user_stack[-1] for reason in explained.break_reasons if reason.user_stack]
    own = sys.modules[model_class.__module__].__file__
    return len({stack.lineno for stack in stacks if stack.filename == own})


def main() -> int:
    """Print a line for each model type."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--first", default="", help="the model type to begin with")
    first = parser.parse_args().first
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 - seconds

    for name in sorted(vars(modeling_auto)["MODEL_MAPPING_NAMES"]):
        if name in _USED or name < first:
            continue
        try:
            says = f"{own_breaks(name)} lines break"
        except Exception as error:  # noqa: BLE001 - a model that the rule does not fit may raise anything
            says = f"not made: {type(error).__name__}"
        print(f"{name:<40} {says}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
