"""The question whether code of a folder may be run, before the first run there.

Invariant: one question at a time in a folder, and each request that came meanwhile goes on, once, when it is answered.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fuselight_server.face import Face
    from fuselight_server.runs import Key
    from fuselight_server.settings import ResolvedInterpreter
    from fuselight_server.state import Folder, State


class Consent:
    """The requests that wait for an answer, by folder."""

    def __init__(self, state: State, face: Face) -> None:
        """Start with nothing asked."""
        self._state = state
        self._face = face
        self._asking: dict[str, list[Callable[[], None]]] = {}
        self._keys: dict[str, set[Key]] = {}

    def wait(
        self,
        folder: Folder,
        keys: tuple[Key, ...],
        interpreter: ResolvedInterpreter,
        again: Callable[[], None],
    ) -> Coroutine[Any, Any, None] | None:
        """Call `again` when the user has answered. Returns the question, where it has not been put yet."""
        self._keys.setdefault(folder.path, set()).update(keys)
        waiting = self._asking.setdefault(folder.path, [])
        waiting.append(again)
        return self._ask(folder, keys, interpreter) if len(waiting) == 1 else None

    @property
    def asked(self) -> frozenset[Key]:
        """Runs that wait for an answer."""
        return frozenset().union(*self._keys.values())

    async def _ask(self, folder: Folder, keys: tuple[Key, ...], interpreter: ResolvedInterpreter) -> None:
        summary = _summary(keys, on_save=folder.settings.run == "save")
        try:
            answer = await self._face.confirm(folder, summary, interpreter.executable)
        except Exception as error:  # noqa: BLE001 - a client that cannot ask has not agreed, and is asked again
            self._state.log(f"the question about runs in {folder.path} was not answered: {error!r}")
            self._let_go_of(folder)
            self._face.runs_changed()
            return
        folder.consent = answer if answer in {"run", "never"} else "later"
        self._state.log(f"runs in {folder.path}: {folder.consent}")
        for request in self._let_go_of(folder):
            request()
        self._face.runs_changed()

    def _let_go_of(self, folder: Folder) -> list[Callable[[], None]]:
        self._keys.pop(folder.path, None)
        return self._asking.pop(folder.path, [])


def _summary(keys: tuple[Key, ...], *, on_save: bool) -> str:
    """What would be run: `import model.py, call Net and run its __main__ block, on each save`."""
    name = os.path.basename(keys[0].path)  # noqa: PTH119 - paths stay text
    names = list(dict.fromkeys(key.name for key in keys if key.name))
    calls = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004 - what one line holds
    steps = [f"import {name}"]
    steps += [f"call {calls}"] if names else []
    steps += ["run its __main__ block"] if any(not key.name for key in keys) else []
    text = " and ".join([", ".join(steps[:-1]), steps[-1]])
    return f"{text}, on each save" if on_save else text
