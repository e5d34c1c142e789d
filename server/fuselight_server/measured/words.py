"""Names of clocks, kinds of work, devices and failures, as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.configurations import WRITTEN
from fuselight.report import Clock, Work

if TYPE_CHECKING:
    from fuselight.report import Failure, Machine

WORK = {
    Work.INFERENCE: "inference",
    Work.FORWARD_BACKWARD: "forward and backward",
    Work.TRAINING_STEP: "training step",
}


CLOCK = {Clock.WALL: "the host clock", Clock.DEVICE: "the device clock"}


def failed(failure: Failure) -> str:
    """`it has no inputs. Write a directive above it`: what happened, and what to do."""
    message, step = failure.message.rstrip("."), failure.next_step
    return ". ".join(part for part in (message, step[:1].upper() + step[1:]) if part)


def configuration_name(name: str) -> str:
    """`as in source` for the configuration `written`; others as they are named."""
    return "as in source" if name == WRITTEN else name


def subject(name: str) -> str:
    """`compiled` for the configuration `written`; others as they are named: the subject of a sentence."""
    return "compiled" if name == WRITTEN else name


def device(machine: Machine) -> str:
    """`NVIDIA H200`, `NVIDIA H200 (1)` where it is not the first one; a question mark is a name that is not known."""
    plain = machine.device.replace("(R)", "").replace("(TM)", "")
    name = plain if plain not in ("", "?") else "a device without a name"
    return f"{name} ({machine.index})" if machine.index else name
