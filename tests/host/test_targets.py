"""Targets of the command line: both forms, and a named error for every way they can fail."""

from __future__ import annotations

import sys

import pytest

from aten_backend.targets import TargetError, load_target

SOURCE = """
import helper_beside_target

def double(x):
    return helper_beside_target.FACTOR * x

def good():
    return double, (3,)

def as_list():
    return [double, [4]]

def needs(argument):
    return double, ()

def fails():
    raise KeyError("lost")

def leaves():
    raise SystemExit(3)

def nothing():
    pass

def three():
    return double, (1,), {}

def not_callable():
    return 3, ()

def not_tuple():
    return double, 3

VALUE = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a target and a module beside it, and sys.path and sys.modules as before afterwards."""
    (tmp_path / "helper_beside_target.py").write_text("FACTOR = 2\n")
    (tmp_path / "some_targets.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("place", ["some_targets.py", "./some_targets.py", "some_targets"])
def test_both_forms(folder, place):
    function, args = load_target(f"{place}:good")
    assert args == (3,)
    assert function(*args) == 6


def test_absolute_file_and_list(folder):
    function, args = load_target(f"{folder / 'some_targets.py'}:as_list")
    assert args == (4,)
    assert function(*args) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("some_targets", "not of the form"),
        (":good", "not of the form"),
        ("some_targets:", "not of the form"),
        ("some_targets:a b", "not of the form"),
        ("absent.py:good", "does not exist"),
        ("absent_module:good", "no module 'absent_module'"),
        ("some_targets.absent:good", "no module 'some_targets.absent'"),
        ("folder/some_targets:good", "must end in .py"),
        ("some_targets:godo", "Did you mean 'good'"),
        ("some_targets:VALUE", "type int, not a function"),
        ("some_targets:needs", "without arguments"),
        ("some_targets:fails", "raised KeyError: 'lost'"),
        ("some_targets:leaves", "raised SystemExit: 3"),
        ("some_targets:nothing", "returned None"),
        ("some_targets:three", "a tuple of 3"),
        ("some_targets:not_callable", "where a callable was expected"),
        ("some_targets:not_tuple", "where a tuple of arguments was expected"),
    ],
)
def test_failures_are_named(folder, text, message):
    with pytest.raises(TargetError) as raised:
        load_target(text)
    assert message in str(raised.value)


@pytest.mark.parametrize("place", ["broken.py", "broken"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import sys; sys.exit(1)\n", "SystemExit"),
        ("import a_module_that_is_absent\n", "ModuleNotFoundError"),
    ],
)
def test_failing_imports(folder, place, source, message):
    (folder / "broken.py").write_text(source)
    with pytest.raises(TargetError, match="failed while it was imported") as raised:
        load_target(f"{place}:f")
    assert message in str(raised.value)
