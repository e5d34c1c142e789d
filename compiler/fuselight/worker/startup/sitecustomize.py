"""Python imports this module at the start of each process that a program under `fuselight run` starts.

Invariant: the process is as without it: this folder is not on `sys.path`, the `sitecustomize` of the environment is
imported, and a process without torch, or with an older Python, is left alone.
"""

# ruff: noqa: ANN201, PLC0415 - an older Python must read this file, and it is imported before all others.

import importlib
import importlib.util
import os
import sys


def record_after_torch():
    # type: () -> None
    """Time the imports of the process, and have it record itself once torch is imported."""
    if sys.version_info < (3, 10) or "FUSELIGHT_RUN" not in os.environ:
        return
    here = os.path.dirname(os.path.abspath(__file__))
    launch = os.path.join(os.path.dirname(here), "launch.py")
    spec = importlib.util.spec_from_file_location("_fuselight_launch", launch)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.enter_as_guest()
    from fuselight.shared import import_times
    from fuselight.shared.import_hooks import AfterImport

    import_times.install()
    sys.meta_path.insert(0, AfterImport("torch", record))
    module.compare_calls()
    module.record_memory()


def record():
    # type: () -> None
    """Add to torch's log what it leaves out by itself. The program goes on if that fails."""
    from fuselight.shared import import_times

    try:
        with import_times.install().paused():
            from fuselight.adapters.torch_api.dynamo.trace_logs import record_more

            record_more()
    except Exception:  # noqa: BLE001, S110 - a release of torch without these names: its log has less
        pass


def leave_path():
    # type: () -> None
    """Take this folder off `sys.path`, and import the `sitecustomize` of the environment, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    ours = sys.modules.pop(__name__)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault(__name__, ours)


if __name__ == "sitecustomize":
    try:
        record_after_torch()
    finally:
        leave_path()
