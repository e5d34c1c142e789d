"""The environment variables of a process that Fuselight records: they change what torch compiles, and hold no secrets.

Invariant: a variable that is not in `ALLOWED` is never kept, and of a kept one never a password in an address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

RECORD = "fuselight_environment"
"""Name of the artifact in torch's log with the variables of its process."""
ALLOWED = frozenset(
    (
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_VISIBLE_DEVICES",
        "CXX",
        "HIP_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MKL_NUM_THREADS",
        "NCCL_ALGO",
        "NCCL_DEBUG",
        "NCCL_P2P_DISABLE",
        "NCCL_PROTO",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_TUNABLEOP_ENABLED",
        "RANK",
        "TORCHDYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO",
        "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",
        "TORCHDYNAMO_DISABLE",
        "TORCHDYNAMO_VERBOSE",
        "TORCHINDUCTOR_AUTOGRAD_CACHE",
        "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE",
        "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE",
        "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCHINDUCTOR_COMPILE_THREADS",
        "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
        "TORCHINDUCTOR_CUDAGRAPHS",
        "TORCHINDUCTOR_CUDAGRAPH_TREES",
        "TORCHINDUCTOR_EPILOGUE_FUSION",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
        "TORCHINDUCTOR_FREEZING",
        "TORCHINDUCTOR_FX_GRAPH_CACHE",
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE",
        "TORCHINDUCTOR_LAYOUT_OPTIMIZATION",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "TORCHINDUCTOR_MAX_AUTOTUNE_CONV_BACKENDS",
        "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM",
        "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS",
        "TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE",
        "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES",
        "TORCHINDUCTOR_VEC_ISA_OK",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_COMPILE_CACHE_KEY_TAG",
        "TORCH_COMPILE_DEBUG",
        "TORCH_COMPILE_DISABLE",
        "TORCH_COMPILE_JOB_ID",
        "TORCH_COMPILE_STICKY_PGO_READ",
        "TORCH_COMPILE_STICKY_PGO_WRITE",
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_LOGS",
        "TORCH_TRACE",
        "TRITON_CACHE_DIR",
        "TRITON_INTERPRET",
        "WORLD_SIZE",
    )
)
_PASSWORD = re.compile(r"(?<=//)[^/\s@]+@")
_LONGEST = 500


def allowed_variables(variables: Mapping[Any, object]) -> dict[str, str]:
    """Those of the variables that may be kept and shown."""
    return {
        str(name): _PASSWORD.sub("", str(value))[:_LONGEST]
        for name, value in variables.items()
        if name in ALLOWED
    }
