"""The rows of the built-in suites, as files that `fuselight check` and all other commands take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fuselight.shared.foreign_files import linked, make_folders, read_regular, write_whole
from fuselight.shared.suites import pytorch_163
from fuselight.shared.suites.pytorch_163 import SuiteModel

SIZES = ("tiny", "real")
"""`tiny`: seconds on a CPU. `real`: the published sizes and batch sizes, for a GPU."""
TARGET = "model"
"""Name of each row's function, which makes the model; the directive above it calls what it returns."""
SUITES: dict[str, Callable[[], tuple[SuiteModel, ...]]] = {"pytorch-163": pytorch_163.models}
"""The built-in suites by name. `pytorch-163`: the models that torch.compile was introduced with."""


class UnknownSuiteError(ValueError):
    """There is no such suite, size or model; the message says what there is."""


_OURS = b"random weights (suite "
"""What the first line of each file of a suite has."""


@dataclass(frozen=True)
class SuiteRow:
    """One model of a suite in one size, ready to run."""

    name: str
    """As PyTorch's lists name it; unique in its group."""
    group: str
    """`huggingface`, `timm` or `torchbench`."""
    size: str
    file: str
    """A relative path for `text`, with `/`, unique in the suite; empty if the row is absent."""
    text: str
    """Source of the file; empty if the row is absent."""
    target: str
    """Name of the target in it."""
    packages: tuple[str, ...] = ()
    """Packages that the file needs, as pip names them, besides torch."""
    batch: int = 0
    """Batch size of its inputs."""
    training: bool = False
    """Whether the call is a forward and a backward; else it is inference."""
    absent: str = ""
    """Why there is no such model; empty if there is one."""
    note: str = ""
    """How it differs from the model that PyTorch ran; empty if it does not."""


def suite_rows(name: str, *, size: str = "tiny", training: bool = False) -> tuple[SuiteRow, ...]:
    """Return every row of a suite, absent ones included. Raises UnknownSuiteError."""
    if name not in SUITES:
        raise UnknownSuiteError(f"there is no built-in suite `{name}`: there is {', '.join(SUITES)}")
    if size not in SIZES:
        raise UnknownSuiteError(f"there is no size `{size}`: there are {' and '.join(SIZES)}")
    return tuple(_row(name, model, size, training) for model in SUITES[name]())


def write_rows(rows: Iterable[SuiteRow], folder: str) -> dict[str, str]:
    """Write the files of rows that are not absent; returns their paths by `SuiteRow.file`. Raises OSError.

    No link is followed, and a file that no suite has written is not replaced.
    """
    if os.path.islink(folder):
        raise linked(folder)
    paths = {}
    for row in rows:
        if row.absent:
            continue
        path = os.path.join(folder, *row.file.split("/"))
        make_folders(folder, row.file.split("/")[:-1])
        if os.path.lexists(path) and _OURS not in read_regular(path, follow_link=False):
            raise FileExistsError(errno.EEXIST, "it is no file of a suite", path)
        write_whole(path, row.text.encode(), mode=0o644)
        paths[row.file] = path
    return paths


def _row(suite: str, model: SuiteModel, size: str, training: bool) -> SuiteRow:  # noqa: FBT001 - it is private
    if model.absent:
        return SuiteRow(model.name, model.group, size, "", "", TARGET, training=training, absent=model.absent)
    form = model.forms[size]
    option = ", train=True" if training else ""
    about = f"{model.name}, {size}, {'training' if training else 'inference'}, batch {form.batch}"
    text = (
        f'"""{about}: {_OURS.decode()}{suite}, {model.group}).\n\n'
        f"Needs: pip install {' '.join(model.packages)}\n"
        f'"""\n\n{model.imports}\n\n\n'
        f"# fuselight: {TARGET}()({form.inputs}{option})\n"
        f"def {TARGET}():\n"
        f"    return {form.model}\n"
    )
    return SuiteRow(
        model.name,
        model.group,
        size,
        f"{model.group}/{model.name}_{size}.py",  # not `demucs.py`, which would hide the package from itself
        text,
        TARGET,
        packages=model.packages,
        batch=form.batch,
        training=training,
        note=model.note,
    )
