"""`fuselight consent`: the kept answers to the questions before an editor runs code: list, take back, give one.

Invariant: an answer is given for a folder or a program that the user names. Answers of VS Code, which
keeps its own, are not here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from fuselight_server.base.command_error import CommandError
from fuselight_server.base.consent_store import FIRST_CALL, ConsentAnswer, ConsentStore, first_call_of
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import Terminal, standard_output

_WORDS = {"run": "runs on each save", "command": "runs when you ask for it", "never": "runs are off"}
_WIDTH = max(map(len, _WORDS.values()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--list", action="store_true", help="list the kept answers (the default)")
    choice.add_argument(
        "--forget",
        metavar="PATH",
        action="append",
        type=Path,
        help="forget the answers about a folder and everything in it, or about a program; repeatable",
    )
    choice.add_argument(
        "--allow",
        metavar="PATH",
        action="append",
        type=Path,
        help="let editors run the code of a folder, or a whole program (a .py file), without a question; repeatable",
    )
    choice.add_argument("--forget-all", action="store_true", help="forget every answer")


def execute(options: argparse.Namespace) -> int:
    """List answers, or forget some; returns the exit code. Raises CommandError."""
    store, terminal = ConsentStore(), standard_output()
    if options.forget_all:
        _report(store.forget_all(), terminal)
    elif options.allow:
        for folder in options.allow:
            _allow(store, folder, terminal)
    elif options.forget:
        _report([kept for path in options.forget for kept in _forget(store, path)], terminal)
    else:
        _print_all(store, terminal)
    return 0


def _allow(store: ConsentStore, path: Path, terminal: Terminal) -> None:
    absolute = os.path.abspath(path.expanduser())  # noqa: PTH100 - as editors name it: links are kept
    is_program = os.path.isfile(absolute)  # noqa: PTH113 - the same
    if not is_program and not os.path.isdir(absolute):  # noqa: PTH112 - the same
        raise CommandError(
            f"`{path}` does not exist. Name the folder that your editor has open, or a program in it."
        )
    for subject in (absolute, first_call_of(absolute)) if is_program else (absolute,):
        store.keep_answer(subject, "run")
    what = "the program" if is_program else "code of"
    terminal.print(f"allowed: {what} {absolute} runs on each save, in editors other than VS Code")


def _forget(store: ConsentStore, path: Path) -> Sequence[ConsentAnswer]:
    absolute = os.path.abspath(path.expanduser())  # noqa: PTH100 - as editors name it: links are kept
    forgotten = store.forget_answers(absolute) or store.forget_answers(os.path.realpath(absolute))
    if not forgotten:
        raise CommandError(f"no answer about `{path}` is kept. `fuselight consent` lists those that are.")
    return forgotten


def _report(forgotten: Sequence[ConsentAnswer], terminal: Terminal) -> None:
    if not forgotten:
        terminal.print("No answers are kept.")
        return
    for kept in forgotten:
        terminal.print(f"forgotten: {_shown(kept)}")
    terminal.print("An editor that runs now goes on with its answer: restart its language server.")


def _print_all(store: ConsentStore, terminal: Terminal) -> None:
    answers = store.answers()
    for kept in answers:
        day = time.strftime("%Y-%m-%d", time.localtime(kept.when))
        terminal.print(f"{_WORDS[kept.answer]:{_WIDTH}}  {day}  {_shown(kept)}")
    if answers:
        terminal.print(f"\n{format_count(len(answers), 'answer')} in {store.path}")
    else:
        terminal.print(f"No answers are kept in {store.path}.")


def _shown(kept: ConsentAnswer) -> str:
    return f"{kept.path}{' (up to its first call)' if kept.subject.endswith(FIRST_CALL) else ''}"
