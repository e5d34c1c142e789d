"""The components of a cache key, in plain words.

Invariant: values are text of the log; nothing in it is evaluated. An unknown component keeps torch's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight_server.jobs.caches.model import Factor, KeyChange
from fuselight_server.jobs.trace_log.model import CacheComponent

_INDEXED = re.compile(r"(?P<name>\w+)\[(?P<index>.*)\]$", re.DOTALL)
_LONGEST = 160
_FIELD = re.compile(r"(\w+)=((?:torch\.Size\(\[[^\]]*\]\)|device\([^)]*\)|\([^)]*\)|[^,()]+))")
_OF_STRIDE = ("memory_format", "storage_bytes")
_OF_SHAPE = ("stride", *_OF_STRIDE)
"""Fields that follow from another field."""
_BOXED = re.compile(r"Boxed\w+\(value=(.*)\)$")
_UNREADABLE = re.compile(r"[\ufffd\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True)
class _KnownComponents:
    """What components of keys depend on, and their names in plain words."""

    components: dict[str, tuple[Factor, str]]
    tuples: dict[str, tuple[Factor, tuple[str, ...]]]
    """Components of several values, with the name of each."""
    prefixes: dict[str, tuple[Factor, str]]
    """What precedes the index of an indexed component."""
    consequences: tuple[str, ...]
    """Components that change with an input, the graph, determinism or a setting."""


_KNOWN = read_table(_KnownComponents, __file__)


def differences(before: CacheComponent | None, after: CacheComponent | None) -> Iterator[KeyChange]:
    """The changes between two states of one component; None: the key does not have it."""
    known = after or before
    if known is None:
        return
    if known.name in _KNOWN.tuples:
        yield from _tuple_changes(known.name, before, after)
        return
    factor, subject = describe(known.name)
    old, new = _shown(before), _shown(after)
    if known.name == "system_info[hash]" or factor in {Factor.GRAPH, Factor.KERNEL_SOURCE, Factor.TORCH}:
        old = new = None
    elif factor is Factor.AUTOCAST:
        old, new = (_entered_dtype(text) for text in (old, new))
    elif factor is Factor.INPUT:
        yield KeyChange(factor, known.name, subject, *input_change(_value(before), _value(after)))
        return
    elif old == new or _is_unreadable(before) or _is_unreadable(after):
        old = new = None
    yield KeyChange(factor, known.name, subject, old, new)


def describe(name: str) -> tuple[Factor, str]:
    """What a component depends on, and its name in plain words."""
    if name in _KNOWN.components:
        return _KNOWN.components[name]
    match = _INDEXED.match(name)
    base, index = (match["name"], match["index"]) if match else (name, "")
    if base in _KNOWN.prefixes and match:
        factor, prefix = _KNOWN.prefixes[base]
        return factor, f"{prefix}{index}"
    if base in _KNOWN.components:
        return _KNOWN.components[base]
    if base == "fx_kwargs":
        return Factor.BACKEND_ARGUMENT, f"argument `{index}` of Inductor"
    return (Factor.CUSTOM_PASS, f"torch._inductor.config.{base}") if "_pass" in base else (Factor.OTHER, name)


def is_consequence(change: KeyChange) -> bool:
    """Whether the component only follows another one that changed."""
    return change.component in _KNOWN.consequences


def _tuple_changes(
    name: str, before: CacheComponent | None, after: CacheComponent | None
) -> Iterator[KeyChange]:
    factor, subjects = _KNOWN.tuples[name]
    old, new = _items(_value(before)), _items(_value(after))
    if len(old) != len(subjects) or len(new) != len(subjects):
        yield KeyChange(factor, name, subjects[0], _shown(before), _shown(after))
        return
    for subject, left, right in zip(subjects, old, new, strict=True):
        if left != right:
            yield KeyChange(factor, name, subject, left, right)


def _items(text: str) -> list[str]:
    return [part.strip().strip("'\"") for part in text.strip().strip("()").split(",") if part.strip()]


def _value(component: CacheComponent | None) -> str:
    return "" if component is None else component.value


def _is_unreadable(component: CacheComponent | None) -> bool:
    """Whether the value is pickled data."""
    return component is not None and _UNREADABLE.search(component.value) is not None


def _shown(component: CacheComponent | None) -> str | None:
    if component is None:
        return None
    match = _BOXED.match(component.value)
    return shortened(match[1] if match else component.value)


def _entered_dtype(state: str | None) -> str | None:
    """The dtype of an autocast that is on. From torch 2.15 on, the key has `(enabled, dtype)` of every device."""
    match = re.fullmatch(r"\((True|False), (.+)\)", state or "")
    return state if match is None else match[2] if match[1] == "True" else None


def shortened(text: str) -> str:
    """The value as a message shows it."""
    text = " ".join(text.split())
    if not text:
        return "empty"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def input_change(before: str, after: str) -> tuple[str | None, str | None]:
    """The fields of an input that differ, as texts."""
    old, new = _fields(before), _fields(after)
    if old and new:
        changed = [name for name in new if old.get(name) != new[name] and name in old]
        if old.get("layout") == new.get("layout"):
            hidden = _OF_SHAPE if "shape" in changed else _OF_STRIDE if "stride" in changed else ()
            changed = [name for name in changed if name not in hidden]
        if len(changed) == 1:
            before, after = (_field_text(changed[0], fields[changed[0]], fields) for fields in (old, new))
            word = before.partition(" ")[0]
            return before, after.removeprefix(f"{word} ")
        if changed:
            return _fields_text(old, changed), _fields_text(new, changed)
        return None, None
    return input_text(before), input_text(after)


def input_text(value: str) -> str | None:
    """An input in short: `float32 4x8 on cpu`; None if there is none."""
    if not value:
        return None
    fields = _fields(value)
    if not fields:
        return "a dynamic size" if re.fullmatch(r"\('\w+',\)", value) else shortened(value)
    return f"{_dtype(fields)} {_size(fields.get('shape', ''))} on {_device(fields.get('device', ''))}"


def _fields(value: str) -> dict[str, str]:
    if not value.startswith("TensorMetadata("):
        return {}
    return dict(_FIELD.findall(value.removeprefix("TensorMetadata(")))


def _fields_text(fields: dict[str, str], names: list[str]) -> str:
    return ", ".join(_field_text(name, fields[name], fields) for name in names)


def _field_text(name: str, value: str, fields: dict[str, str]) -> str:
    if name == "shape":
        return f"size {_size(value)}"
    if name == "dtype":
        return _dtype(fields)
    if name == "device":
        return f"on {_device(value)}"
    return f"{name} {value.removeprefix('torch.')}"


def _dtype(fields: dict[str, str]) -> str:
    return fields.get("dtype", "").removeprefix("torch.")


def _size(shape: str) -> str:
    sizes = shape.removeprefix("torch.Size([").removesuffix("])")
    return "x".join(part.strip() for part in sizes.split(",")) if sizes else "scalar"


def _device(device: str) -> str:
    match = re.search(r"type='(\w+)'(?:, index=(\d+))?", device)
    if match is None:
        return device
    return match[1] if match[2] is None else f"{match[1]}:{match[2]}"


def input_signature(value: str) -> tuple[str, int]:
    """What stays of an input when its size changes: dtype and number of dimensions."""
    fields = _fields(value)
    if not fields:
        return "value", 0
    shape = fields.get("shape", "")
    return _dtype(fields), shape.count(",") + 1 if _size(shape) != "scalar" else 0
