"""Every private torch name that Fuselight reaches, each behind a function of its own.

Invariant: nothing outside this package names a private torch attribute. Each module of it holds one group of names;
what is replaced is put back by the block or the function that its docstring names. Where a torch version lacks a name,
the feature that needs it says so and the rest goes on. Written for torch 2.11 to 2.13; 2.6 to 2.10 degrade per feature.
"""

from fuselight.torch_api.artefacts import (
    OpOverload,
    dispatch_keys,
    global_state,
    guard_scope,
    guards_of,
    is_deleted,
    is_empty_result,
    is_relational,
    is_symbol,
    local_name,
    local_scope,
    managers,
    skip_reason,
    source_name,
    symbol_facts,
)
from fuselight.torch_api.comparing import same, version_of
from fuselight.torch_api.devices import leave_driver_alone, use_driver
from fuselight.torch_api.errors import (
    constraint_violation,
    exceptions,
    gb_ids,
    guard_on_data,
    recompile_limit_hit,
    restart,
)
from fuselight.torch_api.frames import (
    RESUME,
    Positions,
    current_compile_id,
    frames_above,
    is_generated,
    keep_positions,
    original_code,
    positions,
    real_stack,
    root_code,
    traced_places,
    user_stack,
)
from fuselight.torch_api.listening import LINE_EVERY, Listener, listen
from fuselight.torch_api.preparing import compile_with_all_workers, fake_tensors, warm_up
from fuselight.torch_api.settings import changed_config, set_dynamo_config, setting
from fuselight.torch_api.sparing import name_functions, named_files
from fuselight.torch_api.targets import (
    backend_named,
    code_of,
    compiled_parts,
    disabled_reason,
    is_compiled,
    replaced_compile,
    skip_frames,
)
from fuselight.torch_api.toolchain import cache_folder, cpp_compiler, driver_version

__all__ = [
    "LINE_EVERY",
    "RESUME",
    "Listener",
    "OpOverload",
    "Positions",
    "backend_named",
    "cache_folder",
    "changed_config",
    "code_of",
    "compile_with_all_workers",
    "compiled_parts",
    "constraint_violation",
    "cpp_compiler",
    "current_compile_id",
    "disabled_reason",
    "dispatch_keys",
    "driver_version",
    "exceptions",
    "fake_tensors",
    "frames_above",
    "gb_ids",
    "global_state",
    "guard_on_data",
    "guard_scope",
    "guards_of",
    "is_compiled",
    "is_deleted",
    "is_empty_result",
    "is_generated",
    "is_relational",
    "is_symbol",
    "keep_positions",
    "leave_driver_alone",
    "listen",
    "local_name",
    "local_scope",
    "managers",
    "name_functions",
    "named_files",
    "original_code",
    "positions",
    "real_stack",
    "recompile_limit_hit",
    "replaced_compile",
    "restart",
    "root_code",
    "same",
    "set_dynamo_config",
    "setting",
    "skip_frames",
    "skip_reason",
    "source_name",
    "symbol_facts",
    "traced_places",
    "use_driver",
    "user_stack",
    "version_of",
    "warm_up",
]
