"""Entry point of every worker process in the user's interpreter, run by path: `python -X utf8 .../worker/launch.py`.

Invariant: the user's environment is unaffected. Our folder does not stay on `sys.path` (a user's `import wire` must
find the user's module), PYTHONPATH is unchanged, and the loaded `fuselight` is the package that contains this file,
whatever is installed.

launch.py: the host, which speaks the protocol on descriptors 0 and 1
launch.py --child FD DIRECTORY REQUESTS: one run, without fork
launch.py --configuration FD DIRECTORY: one configuration of a benchmark, without fork
launch.py imports --result FILE -- SCRIPT ARGS...: the time of a program's imports, up to its first compile
launch.py doctor: what this interpreter can compile
launch.py run --report FILE [--root DIR ...] -- SCRIPT ARGS...: a user's program under the recorder
"""

# ruff: noqa: ANN201, PLC0415, UP032, UP036 - an older Python must read this file far enough to report it,
# and what is ours may be imported only once we have entered as a guest.

import os
import sys

STARTED_WITH = frozenset(sys.modules)
"""What Python itself loads before any script: a file of the user's cannot shadow these, in a plain run either."""


def enter_as_guest():
    # type: () -> None
    """Load our package by place, and leave `sys.path` as if this script had never been on it."""
    import importlib.util

    here = os.path.dirname(os.path.realpath(__file__))
    package = os.path.dirname(here)
    if sys.path and sys.path[0] and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(
        "fuselight", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        raise ImportError("{} is damaged: it has no fuselight".format(package))
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuselight"] = module
    spec.loader.exec_module(module)


def stop_at_interrupts():
    # type: () -> None
    """Have Ctrl-C end this process without a traceback until the user's program begins. `fuselight run` says it."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def compare_calls():
    # type: () -> None
    """Have this process compare its compiled calls once torch's compiler is imported, if its variables ask for it."""
    if "FUSELIGHT_ACCURACY" in os.environ:
        from fuselight.shared.import_hooks import AfterImport

        sys.meta_path.insert(0, AfterImport("torch._dynamo", start_comparison))


def start_comparison():
    # type: () -> None
    """Compare compiled calls from now on. The program goes on if that fails."""
    try:
        from fuselight.worker.results.shadow_run import compare_from_environment

        compare_from_environment()
    except Exception as error:  # noqa: BLE001 - the program goes on as if we were not there
        sys.stderr.write("fuselight: compiled calls cannot be compared: {}\n".format(error))


def record_memory():
    # type: () -> None
    """Have this process record the allocator of its GPUs once torch is imported, if its variables ask for it."""
    if "FUSELIGHT_MEMORY" not in os.environ:
        return
    if "torch" in sys.modules:
        start_memory()
    else:
        from fuselight.shared.import_hooks import AfterImport

        sys.meta_path.insert(0, AfterImport("torch", start_memory))


def start_memory():
    # type: () -> None
    """Record the allocator from now on. The program goes on if that fails."""
    try:
        from fuselight.worker.child.memory_recording import record_from_environment

        record_from_environment()
    except Exception as error:  # noqa: BLE001 - the program goes on as if we were not there
        sys.stderr.write("fuselight: memory cannot be recorded: {}\n".format(error))


def main():
    # type: () -> int
    """Enter, and do what the arguments say. Returns the exit code."""
    if sys.argv[1:2] == ["run"]:
        stop_at_interrupts()
    if sys.version_info < (3, 10):
        version = ".".join(map(str, sys.version_info[:3]))
        sys.stderr.write("Fuselight needs Python 3.10 or newer; {} is {}\n".format(sys.executable, version))
        return 3
    enter_as_guest()
    if sys.argv[1:2] == ["run"]:
        from fuselight.worker.child.program import main as run_program

        compare_calls()
        record_memory()
        return run_program(sys.argv[2:])
    if sys.argv[1:2] == ["imports"]:
        from fuselight.worker.child.import_timing import main as time_imports

        return time_imports(sys.argv[2:])
    if sys.argv[1:2] == ["doctor"]:
        from fuselight.doctor.main import main as examine

        return examine(sys.argv[2:])
    from fuselight.worker.processes.process import end_with_owner

    end_with_owner()  # first: to import torch takes long
    if sys.argv[1:2] in (["--child"], ["--configuration"]):
        from fuselight.worker.host.spawned_child import main as run_spawned

        requests = int(sys.argv[4]) if len(sys.argv) > 4 else None  # noqa: PLR2004 - the last of them
        return run_spawned(sys.argv[1], int(sys.argv[2]), sys.argv[3], STARTED_WITH, requests)
    from fuselight.worker.host.host import main as run_host

    status = run_host(STARTED_WITH)
    sys.stderr.flush()
    os._exit(status)  # to take torch apart object by object would be 0.4 s that whoever closes us waits for


if __name__ == "__main__":
    sys.exit(main())
