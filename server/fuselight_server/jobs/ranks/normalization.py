"""What of a graph and of guards is compared between ranks.

Invariant: two texts that differ only in addresses, object IDs, names of symbols, names of process groups, indices of
devices, temporary paths and the folders of source files become equal.
"""

from __future__ import annotations

import hashlib
import re

from fuselight.shared.torch_texts import split_guard

_ADDRESS = re.compile(r"\b0x[0-9a-f]{4,}\b|(?<![\d.])\d{9,}(?![\d.])")
_SYMBOL = re.compile(r"\b([su])\d+\b")
_DEVICE = re.compile(r"\b(cuda|xpu|hpu|npu|mtia|privateuseone)(?::|, index=)\d+")
_GROUP = re.compile(r"(_c10d_functional\.[^\n]*), '[^'\n]*'\)")
_TEMPORARY = re.compile(
    r"(?:/(?:tmp|var/tmp|dev/shm|scratch|local_scratch)|[A-Z]:\\[^'\"\n]*?\\Temp)[/\\][^'\",\n ]*"
)
_SOURCE_FOLDERS = re.compile(r"(# File: )\S*/(?=[^/\s]+/[^/\s:]+:\d)")
_COUNTED_NAME = re.compile(r"(?<=_)\d+(?=['\]])")
_COLLECTIVE = re.compile(r"\b_c10d_functional\w*\.(\w+)|\b(?:_dtensor|c10d)\.(\w+)")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_ENTRY = re.compile(r"^\[?!?[\d/_]+\]?: ")
_LEAF = re.compile(r"\+- (?P<kind>[A-Z_]+): (?P<code>.*)$")
_COMPARED_GUARDS = frozenset({"GLOBAL_STATE", "TENSOR_MATCH"})
"""Modes and tensors. The graph shows what other guards decide; what it does not show, as a name, does not matter."""
_THREADS = re.compile(r'"num_threads":\d+')
_GUARD_DEVICE = re.compile(r"\bdevice=\d+")


def _neutral(text: str) -> str:
    text = _ADDRESS.sub("#", text)
    text = _DEVICE.sub(r"\1", text)
    return _TEMPORARY.sub("/tmp", text)  # noqa: S108 - a mark


def path_tail(path: str) -> str:
    """The name of a file and of its folder."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def comparable_graph(text: str) -> str:
    """A printed graph without what ranks may differ in."""
    text = _neutral(_SOURCE_FOLDERS.sub(r"\1", text))
    if "_c10d_functional" in text:
        text = _GROUP.sub(r"\1, '#')", text)
    return _SYMBOL.sub(r"\1", text)


def comparable_guards(text: str) -> dict[str, str]:
    """The guards that are compared, as printed, by their comparable form."""
    guards: dict[str, str] = {}
    for line in text.split("\n"):
        leaf = _LEAF.search(line)
        if leaf is None or leaf["kind"] not in _COMPARED_GUARDS:
            continue
        code, _ = split_guard(leaf["code"])
        code = _SYMBOL.sub(
            r"\1", _THREADS.sub("", _GUARD_DEVICE.sub("device", _COUNTED_NAME.sub("", _neutral(code))))
        )
        guards[f"{leaf['kind']}: {code}"] = line
    return guards


def comparable_reason(text: str) -> str:
    """Why a cache entry did not fit, without its ID, its values and the stack."""
    first = _ENTRY.sub("", text).partition("\n")[0]
    return _NUMBER.sub("#", _neutral(split_guard(first)[0]))


def comparable_error(text: str) -> str:
    """An error's text without addresses and numbers, so that it can name a device or a rank."""
    return _NUMBER.sub("#", _neutral(text))[:300]


def collectives_in(text: str) -> tuple[str, ...]:
    """The collectives of a printed graph, in order; waits are none."""
    if "c10d" not in text and "_dtensor" not in text:
        return ()
    names = (match[1] or match[2] for match in _COLLECTIVE.finditer(text))
    return tuple(name for name in names if is_collective(name))


def is_collective(name: str) -> bool:
    """Whether an operator of a communication library starts a collective."""
    return name not in {"wait_tensor", "wait_work", "default"} and not name.startswith("_wrap")


def short_hash(text: str) -> str:
    """A key of a text; equal texts have equal keys in every process."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
