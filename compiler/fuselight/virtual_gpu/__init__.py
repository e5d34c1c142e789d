"""Private names of AOTAutograd and Inductor: code generation for a device, present or not.

Not imported with the rest of torch_api: Inductor takes most of a second, and a capture needs none of it.
"""

from fuselight.virtual_gpu.autotune_choices import UNDECIDABLE
from fuselight.virtual_gpu.codegen import (
    BREAKS,
    GenerationObserver,
    generate,
    mode_options,
)
from fuselight.virtual_gpu.cudagraphs import (
    cudagraphs_asked,
    hearing_cudagraphs,
    watching_cudagraphs,
)
from fuselight.virtual_gpu.launch_arguments import TakenLaunch, taking_launches
from fuselight.virtual_gpu.launch_cost import (
    Members,
    flops,
    is_convolution,
    members_of,
    operand_dtype,
    result_dtype,
    takes_tf32,
)
from fuselight.virtual_gpu.partitioner import (
    duplicated,
    made_by_autograd,
    real_inputs,
    size_hint,
    storage_of,
    watching_partition,
)
from fuselight.virtual_gpu.real_compile import asks_for_cudagraphs, compile_heard, inductor_backend
from fuselight.virtual_gpu.scheduler_nodes import (
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
]
