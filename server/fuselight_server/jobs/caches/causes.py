"""Why a lookup missed: what differs between its key and that of an earlier start.

Invariant: a cause names what the logs show. Where they do not list the components of a key, it says how to record them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuselight_server.base.formatting import format_place
from fuselight_server.jobs.caches.bypasses import ReadLine, bypass_cause
from fuselight_server.jobs.caches.graph_diff import changed_lines, input_names
from fuselight_server.jobs.caches.key_diff import key_changes, setting_changes
from fuselight_server.jobs.caches.lookups import Lookup, PayloadMemory
from fuselight_server.jobs.caches.model import CacheCause, CauseKind, Cure, Factor, KeyChange
from fuselight_server.jobs.caches.pairing import EarlierStart
from fuselight_server.jobs.trace_log.model import CacheName, CacheState, GraphKind, LoggedCompile, ProcessLog

AOT_LOGGER = "torch._functorch._aot_autograd.autograd_cache"
HOW_TO_RECORD = (
    f"Start the job with `fuselight run`, or with TORCH_LOGS=+{AOT_LOGGER}, to record what its keys have."
)
SAME_SOURCE = "what torch makes of the same operators"
"""Subject of a changed graph where Dynamo's has not changed."""
_MAX_TOLD = 3
_GRAPH_FACTORS = frozenset((Factor.GRAPH, Factor.INPUT))
_IGNORED_DYNAMO = frozenset(
    ("debug_dir_root", "log_compilation_metrics", "log_file_name", "verbose", "dead_code_elimination")
)
_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_UNRELATED = frozenset(
    (
        *_FOLDERS,
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "RANK",
        "TORCH_COMPILE_DEBUG",
        "TORCH_COMPILE_JOB_ID",
        "TORCH_LOGS",
        "TORCH_TRACE",
        "WORLD_SIZE",
    )
)
"""Variables that are part of no key."""
_OF_INDUCTOR = "TORCHINDUCTOR_"


@dataclass(frozen=True)
class CauseFinder:
    """Finds causes of misses and bypasses of one process."""

    memory: PayloadMemory
    earlier: EarlierStart | None
    read_line: ReadLine | None = None

    def causes(self, lookup: Lookup) -> tuple[CacheCause, ...]:
        """Why a lookup did not hit; empty for a hit. Raises LogError."""
        event = lookup.event
        if event.state is CacheState.BYPASS:
            graph = self.memory.dynamo_graph(lookup.compile)
            return (bypass_cause(event.reason, event.exception, graph, self.read_line),)
        if event.state is not CacheState.MISS:
            return ()
        return (self._miss(lookup),)

    def _miss(self, lookup: Lookup) -> CacheCause:
        if lookup.event.detail == "guard_miss":
            return CacheCause(
                CauseKind.GUARDS,
                "the cache has entries of this key, but their conditions on sizes do not hold for this call",
            )
        if self.earlier is None:
            return CacheCause(
                CauseKind.NOT_COMPARED,
                "there is no earlier start to compare the key with: the cache was empty, or the key is new",
                cure=Cure("Compare the trace with that of another start."),
            )
        same = self.earlier.with_key(lookup)
        if same is not None:
            return _same_key(lookup, same)
        pair = self.earlier.pair_of(lookup)
        if pair is None:
            part = "a backward of this function" if self.memory.is_backward(lookup.event) else "this function"
            return CacheCause(CauseKind.NEW, f"{self.earlier.name} compiled no code for {part}")
        return self._changed(lookup, pair)

    def _changed(self, lookup: Lookup, pair: Lookup) -> CacheCause:
        changes = self._key_changes(lookup, pair)
        if not changes:
            return self._unrecorded(lookup, pair)
        changes = self._with_context(changes, lookup, pair)
        where = next(
            (line.location for change in changes for line in change.lines if line.location is not None), None
        )
        return CacheCause(CauseKind.KEY_CHANGED, _told(changes), where, changes)

    def _key_changes(self, lookup: Lookup, pair: Lookup) -> tuple[KeyChange, ...]:
        before, after = self.memory.components(pair.event), self.memory.components(lookup.event)
        if before is None or after is None:
            return ()
        changes = key_changes(before, after)
        names = self._input_names(lookup, sum(item.name.startswith("example_inputs[") for item in after))
        return tuple(self._detailed(change, lookup, pair, names) for change in changes)

    def _detailed(self, change: KeyChange, lookup: Lookup, pair: Lookup, names: Sequence[str]) -> KeyChange:
        if change.factor is Factor.GRAPH:
            before, after = self.memory.dynamo_graph(pair.compile), self.memory.dynamo_graph(lookup.compile)
            if before is not None and after is not None:
                lines = changed_lines(before, after)
                return replace(change, subject=change.subject if lines else SAME_SOURCE, lines=lines)
        if change.factor is Factor.INPUT and names:
            number = change.component.removeprefix("example_inputs[").rstrip("]")
            if number.isdecimal() and int(number) < len(names) and change.after is not None:
                return replace(change, subject=f"{change.subject} `{names[int(number)]}`")
        if change.factor is Factor.TORCH:
            versions = pair.process.torch_version, lookup.process.torch_version
            if None not in versions and versions[0] != versions[1]:
                return replace(change, before=versions[0], after=versions[1])
        return change

    def _input_names(self, lookup: Lookup, count: int) -> tuple[str, ...]:
        """The user's names of the inputs of a forward, where Dynamo's graph has as many inputs as the key."""
        if self.memory.is_backward(lookup.event):
            return ()
        graph = self.memory.dynamo_graph(lookup.compile)
        names = [] if graph is None else [name for name, _ in input_names(graph)]
        return tuple(map(source_name, names)) if len(names) == count else ()

    def _with_context(
        self, changes: tuple[KeyChange, ...], lookup: Lookup, pair: Lookup
    ) -> tuple[KeyChange, ...]:
        """The changes, and what the rest of the logs says of their origin."""
        factors = {change.factor for change in changes}
        before, after = self.memory.metrics(pair.compile), self.memory.metrics(lookup.compile)
        more: list[KeyChange] = []
        if factors & _GRAPH_FACTORS:
            more += setting_changes(
                "torch._dynamo.config",
                before.get("dynamo_config"),
                after.get("dynamo_config"),
                ignored=_IGNORED_DYNAMO,
            )
        if any(change.component == "autograd_config" for change in changes):
            settings = _functorch_changes(before, after)
            if settings:
                changes = tuple(change for change in changes if change.component != "autograd_config")
                more += settings
        if Factor.SYSTEM in factors:
            more += _version_changes(before, after)
        more += _environment_changes(pair.process, lookup.process, changes)
        return (*more, *changes)

    def _unrecorded(self, lookup: Lookup, pair: Lookup) -> CacheCause:
        """The cause where the keys differ and the log does not list their components."""
        before, after = self.memory.metrics(pair.compile), self.memory.metrics(lookup.compile)
        settings = _functorch_changes(before, after) if lookup.event.cache is CacheName.AOTAUTOGRAD else ()
        if settings:
            return CacheCause(CauseKind.KEY_CHANGED, _told(settings), changes=settings)
        return CacheCause(
            CauseKind.NOT_RECORDED,
            f"the key differs from that of {self.earlier.name if self.earlier else 'the earlier start'}, and the log "
            "does not list the components of both keys",
            cure=Cure(HOW_TO_RECORD),
        )


def _functorch_changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[KeyChange, ...]:
    return setting_changes(
        "torch._functorch.config", before.get("functorch_config"), after.get("functorch_config")
    )


def _version_changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[KeyChange]:
    return [
        KeyChange(Factor.SYSTEM, name, words, str(before[name]), str(after[name]))
        for name, words in (("cuda_version", "CUDA"), ("triton_version", "Triton"))
        if before.get(name) and after.get(name) and before[name] != after[name]
    ]


def _environment_changes(
    before: ProcessLog, after: ProcessLog, changes: Sequence[KeyChange]
) -> list[KeyChange]:
    """Variables that differ and stand for a setting that differs."""
    settings = {
        change.component.partition("[")[2].rstrip("]").replace(".", "_")
        for change in changes
        if change.factor is Factor.SETTING
    }
    names = sorted({*before.environment, *after.environment} - _UNRELATED)
    return [
        KeyChange(
            Factor.ENVIRONMENT,
            name,
            f"environment variable {name}",
            before.environment.get(name, "unset"),
            after.environment.get(name, "unset"),
        )
        for name in names
        if before.environment.get(name) != after.environment.get(name)
        and name.startswith(_OF_INDUCTOR)
        and any(
            setting == name.removeprefix(_OF_INDUCTOR).lower()
            or setting.endswith(f"_{name.removeprefix(_OF_INDUCTOR).lower()}")
            for setting in settings
        )
    ]


def _same_key(lookup: Lookup, same: Lookup) -> CacheCause:
    """The cause where an earlier start had the key."""
    folders = [
        (name, same.process.environment.get(name), lookup.process.environment.get(name)) for name in _FOLDERS
    ]
    changed = tuple(
        KeyChange(Factor.ENVIRONMENT, name, f"environment variable {name}", old or "unset", new or "unset")
        for name, old, new in folders
        if old != new
    )
    if changed:
        return CacheCause(
            CauseKind.SAME_KEY, f"the starts use different cache folders: {_told(changed)}", changes=changed
        )
    if lookup.event.cache is CacheName.AOTAUTOGRAD and _waits_for_backward(same.compile):
        return CacheCause(
            CauseKind.NO_BACKWARD,
            "the call was compiled for gradients, and AOTAutograd's cache gets its entry only when the backward has "
            "been compiled: no backward ran in the earlier start",
            cure=Cure(
                "If this call needs no gradients, make it under `torch.no_grad()`. In training, the first backward "
                "writes the entry."
            ),
        )
    return CacheCause(
        CauseKind.SAME_KEY,
        "the earlier start had the same key, and the cache has no entry of it: it was never written, or was removed",
        cure=Cure(
            "Keep the cache folder (TORCHINDUCTOR_CACHE_DIR) between starts, and share it between machines."
        ),
    )


def _waits_for_backward(compiled: LoggedCompile | None) -> bool:
    """Whether a compile has a backward that was not compiled: torch does that at its first call."""
    if compiled is None:
        return False
    kinds = {graph.kind for graph in compiled.last.graphs}
    has_backward = any(row.is_backward for attempt in compiled.attempts for row in attempt.metrics)
    return GraphKind.JOINT in kinds and not has_backward


def source_name(name: str) -> str:
    """The user's name of an input of Dynamo's graph: `L_x_` is `x`, `L_self_parameters_w_` is `self.w`."""
    if not name.startswith(("L_", "l_")):
        return name
    parts = name[2:].rstrip("_")
    for word in ("_modules_", "_parameters_", "_buffers_"):
        parts = parts.replace(word, ".")
    return parts


def _told(changes: Sequence[KeyChange]) -> str:
    """The changes in one line."""
    told = [_line_text(change) for change in changes[:_MAX_TOLD]]
    rest = len(changes) - _MAX_TOLD
    return "; ".join(told) + (f"; and {rest} more" if rest > 0 else "")


def _line_text(change: KeyChange) -> str:
    """A change; of a graph its first line."""
    if not change.lines:
        return change.text
    first = change.lines[0]
    where = "" if first.location is None else f" in {format_place(first.location.path, first.location.line)}"
    if first.before is None:
        return f"{change.subject} has new operators{where}: `{first.after}`"
    if first.after is None:
        return f"{change.subject} lacks operators{where}: `{first.before}`"
    return f"{change.subject} differs{where}: `{first.before}` -> `{first.after}`"
