"""The options of a comparison of results: one list, of which the terminal, agents, tests and the action have theirs."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

import pytest

from fuselight_server.agents.tools.accuracy import ACCURACY
from fuselight_server.cli import accuracy as accuracy_command
from fuselight_server.cli import check as check_command
from fuselight_server.cli.accuracy_options import asked_accuracy_plan, has_accuracy_options
from fuselight_server.commands.accuracy_options import (
    ACCURACY_OPTIONS,
    AccuracyOptionError,
    AccuracyPlan,
    accuracy_plan,
)
from fuselight_server.pytest_plugin.compiled import CompileResult

ROOT = Path(__file__).parents[3]
OF_THE_ACTION = ("against", "device", "kernels")


def test_every_face_has_every_option() -> None:
    names = {option.name for option in ACCURACY_OPTIONS}
    assert names <= {argument.name for argument in ACCURACY.arguments}
    of_tests = inspect.signature(CompileResult.accuracy_with).parameters
    assert set(of_tests) - {"self"} == {option.name for option in ACCURACY_OPTIONS if option.is_of_programs}
    defaults = {option.name: option.default for option in ACCURACY_OPTIONS if option.is_of_programs}
    assert {name: of_tests[name].default for name in defaults} == defaults
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"^  accuracy-(\w+):", action, re.MULTILINE)) == set(OF_THE_ACTION)
    flags = [option.terminal_flag for option in ACCURACY_OPTIONS if option.name in OF_THE_ACTION]
    assert all(f"--accuracy-{flag}" in action for flag in flags)


def test_defaults_are_those_of_the_plan() -> None:
    assert accuracy_plan({}) == AccuracyPlan()


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        (["--against", "eager"], AccuracyPlan()),
        (["--against", "default+tf32", "--kernels"], AccuracyPlan(against="default+tf32", kernels=True)),
        (["--device", "CUDA:1", "--train"], AccuracyPlan(device="cuda:1", training=True)),
        (["--tries", "all", "--locate", "5"], AccuracyPlan(5.0, None)),
    ],
)
def test_the_command_reads_them(given: list[str], plan: AccuracyPlan) -> None:
    parser = argparse.ArgumentParser()
    accuracy_command.add_arguments(parser)
    options = parser.parse_args(["model.py", *given])
    assert asked_accuracy_plan(options, training=options.training) == plan


def test_an_option_of_a_check_implies_the_comparison() -> None:
    parser = argparse.ArgumentParser()
    check_command.add_arguments(parser)
    plain = parser.parse_args(["model.py", "--accuracy-against=", "--accuracy-device=", "--tries", "0"])
    assert not has_accuracy_options(plain), "as an action's inputs that are left empty"
    given = parser.parse_args(["model.py", "--accuracy-kernels", "--accuracy-against", "default"])
    assert has_accuracy_options(given)
    assert asked_accuracy_plan(given, tries="0") == AccuracyPlan(tries=0, against="default", kernels=True)


@pytest.mark.parametrize(
    "values",
    [
        {"device": "h100"},
        {"against": "written"},
        {"against": "no-such-mode"},
        {"tries": "7"},
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(AccuracyOptionError, match=re.escape(next(iter(values.values())))):
        accuracy_plan(values)
