"""Targets of the command line: `module:function` or `file.py:function`, a function returning `(callable, args)`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

Target = tuple[Callable[..., Any], tuple[Any, ...]]

_FORMS = "A target is module:function or file.py:function, naming a function that returns (callable, args)."


class TargetError(Exception):
    """A target that cannot be used. The text says why, and what was expected."""


def load_target(text: str) -> Target:
    """Import what ``text`` names, call it, and return the callable and the arguments to call it with.

    As with `python file.py` and `python -m module`, the file's folder, or the current one, is put on the import
    path and stays there, because the callable may import from it later.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise TargetError(f"Target {text!r} is not of the form place:function. {_FORMS}")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    return _checked(text, _call(text, _find_function(module, place, name)))


def load_plugin(text: str) -> ModuleType:
    """Import a module, or a file whose name ends in .py, for what its import does."""
    return _load_file(Path(text)) if text.endswith(".py") else _load_module(text)


def _load_file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise TargetError(f"Target file {str(path)!r} does not exist. {_FORMS}")
    _add_to_path(path.parent)
    # The name must not hide an installed module that is called as the file is.
    spec = importlib.util.spec_from_file_location(f"xpu_aten_target_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise TargetError(f"Target file {str(path)!r} is not Python source.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise TargetError(f"Target file {str(path)!r} failed while it was imported: {_describe(error)}") from error
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        hint = " A file's name must end in .py." if "/" in name or os.sep in name else ""
        raise TargetError(f"{name!r} is not the name of a module.{hint} {_FORMS}")
    _add_to_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise TargetError(f"There is no module {name!r} here or among the installed ones. {_FORMS}") from error
        raise TargetError(f"Target module {name!r} failed while it was imported: {_describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"Target module {name!r} failed while it was imported: {_describe(error)}") from error


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _find_function(module: ModuleType, place: str, name: str) -> Callable[[], Any]:
    try:
        function = getattr(module, name)
    except AttributeError:
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise TargetError(f"{place!r} has no {name!r}.{hint}") from None
    if not callable(function):
        raise TargetError(f"{name!r} in {place!r} is {_kind(function)}, not a function. {_FORMS}")
    return function


def _call(text: str, function: Callable[[], Any]) -> Any:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise TargetError(f"Target {text!r} must be callable without arguments: {error}. {_FORMS}") from None
    except ValueError:
        pass  # no signature to be had, as for some built-ins: calling it will tell
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise TargetError(f"Target {text!r} raised {_describe(error)}") from error


def _checked(text: str, result: Any) -> Target:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TargetError(f"Target {text!r} returned {_kind(result)} instead of (callable, args). {_FORMS}")
    function, args = result
    if not callable(function):
        raise TargetError(f"Target {text!r} returned {_kind(function)} where a callable was expected. {_FORMS}")
    if not isinstance(args, (tuple, list)):
        raise TargetError(f"Target {text!r} returned {_kind(args)} where a tuple of arguments was expected. {_FORMS}")
    return function, tuple(args)


def _kind(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
