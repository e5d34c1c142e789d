"""The session of fixes that the tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.fix_world import FixWorld


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FixWorld]:
    """An open file with findings that fixes remove, and the session of these fixes."""
    fix_world = FixWorld(tmp_path, monkeypatch)
    yield fix_world
    await fix_world.session.close()
