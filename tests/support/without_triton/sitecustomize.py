"""Hides Triton from each Python that has this folder on PYTHONPATH, as where it is not installed."""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any


class _Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        del path, target
        if fullname.partition(".")[0] == "triton":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


sys.meta_path.insert(0, _Hidden())
