"""Let a torchvision that was built for CUDA be imported with a torch that was not. Put this folder on PYTHONPATH.

The wheels of torchvision on PyPI load CUDA's libraries. Without these libraries its operators do not exist, and its
import fails, because it describes two of them (`nms` and `qnms`). Here both are declared without code: a model that
calls one of them fails at the call. Nothing happens if torch has CUDA, or until torchvision is imported.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_declared: list[Any] = []
"""A library's operators disappear with it."""


class _DeclareOperators(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            torch: Any = importlib.import_module("torch")  # torchvision is about to import it
            if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
                library = torch.library.Library("torchvision", "FRAGMENT")
                for name in ("nms", "qnms"):
                    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                _declared.append(library)
        return None


sys.meta_path.insert(0, _DeclareOperators())
