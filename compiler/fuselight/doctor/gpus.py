"""Checks of the GPUs of this machine and of their driver.

Invariant: CUDA is initialized in this process only, and the process ends after the checks.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from fuselight.devices.drivers import SMALLEST_CAPABILITY, limited, serves, update_driver
from fuselight.doctor.check import Check, Status


def driver() -> Check:
    """Check that the driver supports the CUDA version that torch was built with."""
    import torch  # noqa: PLC0415 - checked before

    from fuselight.torch_api import toolchain  # noqa: PLC0415 - needs torch

    meaning = "kernels run through it, and it must be as new as the CUDA that torch was built with"
    if getattr(torch.version, "hip", None):
        return Check("driver", "GPU driver", Status.SKIPPED, "torch was built for ROCm", meaning)
    if torch.version.cuda is None:
        return Check(
            "driver", "GPU driver", Status.SKIPPED,
            "torch was built for the CPU; GPU kernels are still generated, none is measured", meaning,
        )  # fmt: skip
    served = toolchain.driver_version()
    if served is None:
        status = Status.WARNING if shutil.which("nvidia-smi") else Status.SKIPPED
        fix = "nvidia-smi is there: if it lists a GPU, reinstall the driver; in a container, start it with the GPU"
        return Check(
            "driver", "GPU driver", status, "none answers", meaning, fix if status is Status.WARNING else ""
        )
    built = str(torch.version.cuda)
    found = f"serves CUDA {served}; torch was built with {built}"
    if not serves(served, built):
        return Check("driver", "GPU driver", Status.FAILED, found, meaning, update_driver(served, built))
    return Check("driver", "GPU driver", Status.OK, found, meaning)


def devices() -> Iterator[Check]:
    """Check each GPU that torch sees, or report that it sees none."""
    import torch  # noqa: PLC0415 - checked before

    meaning = "what is measured is measured on it"
    visible = limited(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not torch.cuda.is_available():
        yield Check("device", "GPU", Status.SKIPPED, f"torch sees none{visible}", meaning)
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        capability = (properties.major, properties.minor)
        memory = f"{properties.total_memory / 2**30:.0f} GiB"
        found = f"{properties.name}, {memory}, capability {capability[0]}.{capability[1]}"
        old = not getattr(torch.version, "hip", None) and capability < SMALLEST_CAPABILITY
        fix = (
            "Triton compiles for capability 7.0 and newer: on this GPU torch.compile gives no kernels"
            if old
            else ""
        )
        status = Status.FAILED if old else Status.OK
        yield Check(f"device_{index}", f"GPU {index}", status, found + visible, meaning, fix)
