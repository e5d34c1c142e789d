"""Private names of AOTAutograd and Inductor: code generation for a device, present or not.

Not imported with the rest of torch_api: Inductor takes most of a second, and a capture needs none of it.
"""

from fuselight.torch_api.generation.choosing import UNDECIDABLE
from fuselight.torch_api.generation.compiling import asks_for_cudagraphs, compile_heard, inductor_backend
from fuselight.torch_api.generation.computing import (
    Members,
    flops,
    is_convolution,
    members_of,
    operand_dtype,
    result_dtype,
    takes_tf32,
)
from fuselight.torch_api.generation.cudagraphs import (
    cudagraphs_asked,
    hearing_cudagraphs,
    watching_cudagraphs,
)
from fuselight.torch_api.generation.generating import (
    BREAKS,
    GenerationObserver,
    generate,
    mode_options,
)
from fuselight.torch_api.generation.partitioning import (
    duplicated,
    made_by_autograd,
    real_inputs,
    size_hint,
    storage_of,
    watching_partition,
)
from fuselight.torch_api.generation.scheduled import (
    Access,
    Touched,
    compute_dtype,
    is_copy,
    is_extern,
    is_fallback,
    is_template,
    is_user_triton,
    nodes_of,
    operator_names,
    origins,
    output_names,
    phase,
    touched,
    traffic,
)
from fuselight.torch_api.generation.taking import TakenLaunch, taking_launches
from fuselight.torch_api.generation.virtual import why_no_triton

__all__ = [
    "BREAKS",
    "UNDECIDABLE",
    "Access",
    "GenerationObserver",
    "Members",
    "TakenLaunch",
    "Touched",
    "asks_for_cudagraphs",
    "compile_heard",
    "compute_dtype",
    "cudagraphs_asked",
    "duplicated",
    "flops",
    "generate",
    "hearing_cudagraphs",
    "inductor_backend",
    "is_convolution",
    "is_copy",
    "is_extern",
    "is_fallback",
    "is_template",
    "is_user_triton",
    "made_by_autograd",
    "members_of",
    "mode_options",
    "nodes_of",
    "operand_dtype",
    "operator_names",
    "origins",
    "output_names",
    "phase",
    "real_inputs",
    "result_dtype",
    "size_hint",
    "storage_of",
    "takes_tf32",
    "taking_launches",
    "touched",
    "traffic",
    "watching_cudagraphs",
    "watching_partition",
    "why_no_triton",
]
