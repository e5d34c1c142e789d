"""Compiles the user's own kernels as a run launched them, for a device that may be absent.

Invariant: `compile_launched` returns an `Assembled` for any kernel, within a time limit, and the same kernel gets the
same result from the cache: the key holds the kernel's source with all that it calls, its lines, types and constants,
the options, the device, the versions and Triton's variables. The lines of the listings are those of the user's file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.triton_api import names, store
from fuselight.adapters.triton_api.assembler import assembled_of, compile_variables, versions
from fuselight.adapters.triton_api.compiler import compile_request, short
from fuselight.adapters.triton_api.driver import virtual_driver
from fuselight.adapters.triton_api.forked_query import Ended, ask_apart
from fuselight.adapters.triton_api.launches.absent_kernel import CompileArguments
from fuselight.shared.codec import decode, encode
from fuselight.shared.report import Assembled, Device

_SCHEMA = 1
"""Version of the cached results: increased with each change of the result for the same request."""
DIVISIBLE = ("tt.divisibility", 16)


def compile_launched(
    request: CompileArguments,
    device: Device,
    *,
    seconds: float,
    lasting_after: float,
    cache: str | None = None,
    disassemble: bool = False,
    options: Mapping[str, Any] | None = None,
    divisible: str | None = None,
    without_float64: bool = False,
) -> Assembled:
    """Compile one specialization for `device`, within `seconds`; from `lasting_after` on, it is not tried again.

    `options` replace options of the launch; `divisible` names a parameter that is assumed to be divisible by 16;
    `without_float64` has float32 in the place of float64. With `disassemble`, NVIDIA's tool makes SASS. `cache` is a
    folder to keep results in.
    """
    known_versions = versions()
    if isinstance(known_versions, Exception):
        return Assembled(failure=short(f"Triton cannot be imported: {known_versions}"))
    asked = _Asked(
        request,
        device,
        disassemble=disassemble and device.backend == "cuda",
        options=dict(options or {}),
        divisible=divisible,
        without_float64=without_float64,
        triton=known_versions[0],
        torch=known_versions[1],
    )
    key = asked.key()
    known = store.find(key, cache)[0] if key is not None else None
    if known is not None:
        return known

    def question(read_output: Callable[[], str]) -> bytes:
        result, lasting = asked.compiled(read_output)
        return json.dumps([encode(result), lasting]).encode("utf-8", "surrogatepass")

    try:
        names.warm_up()
        data, lasting = json.loads(ask_apart(question, seconds))
        result = decode(Assembled, data)
    except Ended as ended:
        result = Assembled(failure=short(str(ended)), triton=asked.triton)
        lasting = seconds >= lasting_after
    except (OSError, ImportError, ValueError) as error:
        why = f"the compiler could not be asked: {short(str(error))}"
        return Assembled(failure=why, triton=asked.triton)
    if lasting and key is not None:
        store.keep(key, result, cache)
    return result


@dataclass(frozen=True)
class _Asked:
    """One compile, and everything that it depends on."""

    request: CompileArguments
    device: Device
    disassemble: bool
    options: dict[str, Any]
    divisible: str | None
    without_float64: bool
    triton: str
    torch: str

    def key(self) -> str | None:
        """Name a result among those that are kept; None where Triton cannot say what the kernel depends on."""
        request, function = self.request, self.request.function
        try:
            source = function.cache_key
            first = names.first_line(function)
        except Exception:  # noqa: BLE001 - it reads the user's source, which may name what does not exist
            return None
        parts = [
            _SCHEMA,
            source,
            str(function.fn.__code__.co_filename),
            first,
            function.src,
            str(request.signature),
            sorted((str(path), _constant(value)) for path, value in request.constants.items()),
            sorted((str(path), repr(value)) for path, value in request.attributes.items()),
            sorted((name, repr(value)) for name, value in self._all_options().items()),
            self.divisible,
            encode(self.device),
            (self.triton, self.torch),
            self.disassemble,
            self.without_float64,
            compile_variables(),
        ]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def compiled(self, read_output: Callable[[], str]) -> tuple[Assembled, bool]:
        """Return the result, and whether the compiler would answer so again."""
        request, device, function = self.request, self.device, self.request.function
        try:
            target = names.gpu_target(device.backend, device.triton_arch, device.warp)
            file, first_line = str(function.fn.__code__.co_filename), names.first_line(function)
            attributes = _attributes(request, self.divisible)
            with (
                tempfile.TemporaryDirectory(prefix="fuselight-", ignore_cleanup_errors=True) as folder,
                virtual_driver(target, folder),
                _float32_alone() if self.without_float64 else contextlib.nullcontext(),
            ):
                source = names.ast_source(function, request.signature, request.constants, attributes)
                wanted = {"source": source, "target": target, "options": self._all_options()}
                compiled = compile_request(wanted, file, first_line, folder, read_output)
                result = assembled_of(
                    compiled, device, file=file, disassemble=self.disassemble, triton=self.triton
                )
                return result, compiled.lasting and not result.problems
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the kernel's own code, and Triton, raise what they like
            return Assembled(failure=short(f"{type(error).__name__}: {error}"), triton=self.triton), False

    def _all_options(self) -> dict[str, Any]:
        return {**vars(self.request.options), **self.options}


@contextlib.contextmanager
def _float32_alone() -> Iterator[None]:
    """Have Triton take float32 where a kernel, its constants or its arguments are float64."""
    language = names.language()
    with patched(language, "float64", language.float32), patched(language.core, "float64", language.float32):
        yield


def _constant(value: Any) -> str:
    """A compile-time constant, which may be a function with a text of its own."""
    return f"{value.cache_key}" if hasattr(value, "cache_key") else repr(value)


def _attributes(request: CompileArguments, divisible: str | None) -> dict[Any, Any]:
    if divisible is None:
        return request.attributes
    path = (list(request.signature).index(divisible),)
    known = [list(item) for item in request.attributes.get(path, ()) if tuple(item) != DIVISIBLE]
    return {**request.attributes, path: [*known, list(DIVISIBLE)]}


def is_divisible(request: CompileArguments, name: str) -> bool:
    """Whether Triton knows a parameter of a launch to be divisible by 16."""
    path = (list(request.signature).index(name),)
    return any(tuple(item) == DIVISIBLE for item in request.attributes.get(path, ()))
