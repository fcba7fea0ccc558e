"""The options users may set: one frozen record, read strictly from `torch.compile` or from the environment."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from aten_backend.once import warn_once
from aten_backend.switches import SWITCHES

ENVIRONMENT_PREFIX = "XPU_ATEN_"

# Inductor's modes are accepted, so that switching backends needs no edit. What each sets here:
_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},  # asks Inductor for CUDA graphs; launches here are always replayed from a plan
    "max-autotune": {"autotune": True},
    "max-autotune-no-cudagraphs": {"autotune": True},
}

_BOOL_WORDS = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False,
}  # fmt: skip

# dpctl's filter strings: "gpu", "gpu:1", "opencl:cpu", "level_zero:gpu:0", "0"; several separated by commas.
_BACKENDS = r"(?:(?:ext_oneapi_)?(?:opencl|level_zero|cuda|hip)|\*)"
_DEVICE_TYPES = r"(?:cpu|gpu|accelerator|\*)"
_FILTER_TERM = rf"(?:{_BACKENDS}(?::{_DEVICE_TYPES})?(?::\d+)?|{_DEVICE_TYPES}(?::\d+)?|\d+)"
_FILTER = re.compile(rf"{_FILTER_TERM}(?:,{_FILTER_TERM})*")


class OptionError(ValueError):
    """An option that does not exist, or a value that it does not take."""


class _Refused(Exception):
    """Raised by a reader: its text says what the option takes."""


Reader = Callable[[Any], Any]


def _one_of(*words: str) -> Reader:
    """Read one of a few words."""
    allowed = ", ".join(repr(word) for word in words)

    def read(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise _Refused(f"one of {allowed}")

    return read


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOL_WORDS:
        return _BOOL_WORDS[value.lower()]
    raise _Refused("True or False (in the environment: 1/0, true/false, yes/no, on/off)")


def _integer(value: Any) -> int | None:
    """``value`` as an integer, or None. True is an int in Python, but `fusion_fuel=True` is a slip."""
    if isinstance(value, bool):
        return None
    try:
        return int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        return None


def _optional_count(minimum: int) -> Reader:
    """Read None or an integer of at least ``minimum``."""

    def read(value: Any) -> int | None:
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        number = _integer(value)
        if number is None or number < minimum:
            raise _Refused(f"None or an integer of at least {minimum}")
        return number

    return read


def _read_device(value: Any) -> str:
    if isinstance(value, str) and (value == "auto" or _FILTER.fullmatch(value)):
        return value
    raise _Refused("'auto' or a dpctl filter string such as 'cpu', 'gpu:1', 'opencl:cpu:0' or 'level_zero:gpu'")


def _read_path(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike)) and os.fspath(value):
        return str(Path(os.fsdecode(value)).expanduser())
    raise _Refused("None or a path")


def _known_op(name: str) -> bool:
    """Whether ``name`` is an operator torch knows, with or without its overload."""
    parts = name.split(".")
    if len(parts) not in (2, 3) or not all(part.isidentifier() for part in parts):
        return False
    found: Any = torch.ops
    for part in parts:
        found = getattr(found, part, None)
    return isinstance(found, (torch._ops.OpOverloadPacket, torch._ops.OpOverload))


def _op_name(value: Any) -> str:
    """``aten.gelu`` or ``aten.gelu.default`` for a name in any usual spelling, or for the operator itself."""
    if isinstance(value, torch._ops.OpOverloadPacket):
        value = value._qualified_op_name.replace("::", ".")
    name = str(value).strip().replace("::", ".").removeprefix("torch.ops.")
    name = name if "." in name else f"aten.{name}"
    if not _known_op(name):
        raise _Refused(f"operators of torch.ops, such as 'aten.gelu' or 'aten.add.Tensor'; {str(value)!r} is none")
    return name


def _read_ops(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise _Refused("a sequence of operators, or their names separated by commas")
    return tuple(sorted({_op_name(item) for item in value}))


def _read_passes(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, (list, tuple, set, frozenset)):
        stripped = {str(name).strip() for name in names} - {""}
        if stripped <= SWITCHES.keys():
            return tuple(sorted(stripped))
    raise _Refused(f"a sequence of names, or names separated by commas, out of {', '.join(SWITCHES)}")


def _option(default: Any, reader: Reader, doc: str, *, affects_code: bool = False) -> Any:
    metadata = {"read": reader, "doc": doc, "affects_code": affects_code}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user asked of one `torch.compile` call. Made by `Options.parse`; each field's metadata holds its doc."""

    ir: Literal["aten", "prims"] = _option(
        "aten",
        _one_of("aten", "prims"),
        "How far graphs are decomposed before they are lowered.",
        affects_code=True,
    )
    # Not marked as affecting code: a cache key holds the device that was found, not the words that asked for it.
    device: str = _option(
        "auto",
        _read_device,
        'Where kernels run: a dpctl filter string, or "auto" to follow the tensors.',
    )
    fallback: Literal["eager", "error"] = _option(
        "eager",
        _one_of("eager", "error"),
        "What happens to a node or group that cannot be compiled: it is left to eager, or compiling fails.",
    )
    autotune: bool = _option(
        False,
        _read_bool,
        "Measure other schedules of each launch on the device while compiling, and keep the fastest, on disk too. "
        'Launches whose sizes are not known then stay as planned. `mode="max-autotune"` sets it.',
        affects_code=True,
    )
    disable_ops: tuple[str, ...] = _option(
        (),
        _read_ops,
        "Operators that are never fused but left to ATen, for bisecting: names with or without the overload.",
        affects_code=True,
    )
    disable_passes: tuple[str, ...] = _option(
        (),
        _read_passes,
        "Steps of the compiler that a plain stand-in replaces, for bisecting: names of aten_backend.switches.SWITCHES.",
        affects_code=True,
    )
    fusion_fuel: int | None = _option(
        None,
        _optional_count(0),
        "Fuse only the first n groups of each graph and leave the rest to ATen, for bisecting. None: no limit.",
        affects_code=True,
    )
    verify: Literal["off", "artifacts", "numerics"] = _option(
        "off",
        _one_of("off", "artifacts", "numerics"),
        '"artifacts" checks the result of every compiler stage against that stage\'s specification; "numerics" also '
        "runs every group in eager, in its own types and in float64, on the same inputs, and raises if ours is off.",
    )
    dump_dir: str | None = _option(
        None,
        _read_path,
        "Folder into which every stage's readable form of each graph is written. None: nothing is written.",
    )
    cache: bool = _option(True, _read_bool, "Keep compiled kernels and plans on disk, and use those that are there.")
    aot_cache: bool = _option(
        False,
        _read_bool,
        "Keep whole compiled graphs in AOTAutograd's cache too, so that a later process neither traces nor compiles. "
        "Off unless asked for: to make its key, torch imports Inductor's code generators, which nothing else needs.",
    )
    cache_dir: str | None = _option(
        None, _read_path, "Folder of that cache. None: a folder of this project in the user's cache folder."
    )
    compile_workers: int | None = _option(
        None, _optional_count(1), "How many processes compile kernels. None: chosen from the number of cores."
    )
    compiler_python: str | None = _option(
        None, _read_path, "Python interpreter that has numba-dpex. None: the one that is running."
    )

    @classmethod
    def parse(
        cls,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Options:
        """Read the options of one call. ``options`` wins over ``mode``, which wins over the environment."""
        given = dict(options or {})
        for name in given:
            if name not in OPTION_NAMES:
                raise OptionError(_unknown_option(name))
        values = _from_environment(environ)
        values.update(_from_mode(mode))
        values.update({name: _read(name, value, f"option {name!r}") for name, value in given.items()})
        parsed = cls(**values)
        return parsed

    def affects_code(self) -> tuple[tuple[str, Any], ...]:
        """The options that change what is generated, for cache keys; the others never may."""
        return tuple(
            (field.name, getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.metadata["affects_code"]
        )


_FIELDS = {field.name: field for field in dataclasses.fields(Options)}
OPTION_NAMES = tuple(_FIELDS)


def _read(name: str, value: Any, origin: str) -> Any:
    try:
        return _FIELDS[name].metadata["read"](value)
    except _Refused as refused:
        raise OptionError(f"xpu_aten: {origin} takes {refused}; got {value!r}.") from None


def _from_mode(mode: str | None) -> dict[str, Any]:
    if mode is None:
        return {}
    if mode not in _MODES:
        raise OptionError(f"xpu_aten: mode takes None, {', '.join(map(repr, _MODES))}; got {mode!r}.")
    return dict(_MODES[mode])


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Options set by ``XPU_ATEN_<NAME>``; an empty value counts as not set."""
    values = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if variable != ENVIRONMENT_PREFIX + name.upper() or name not in OPTION_NAMES:
            _unknown_variable(variable)
        elif text:
            values[name] = _read(name, text, f"environment variable {variable}")
    return values


def _unknown_variable(variable: str) -> None:
    """An unknown variable is not an error: it may belong to another version of this package."""
    known = [ENVIRONMENT_PREFIX + name.upper() for name in OPTION_NAMES]
    message = f"xpu_aten: environment variable {variable} is none of ours and is ignored.{_suggest(variable, known)}"
    warn_once(f"{message} Known: {', '.join(known)}.", variable)


def _unknown_option(name: object) -> str:
    return f"xpu_aten: unknown option {name!r}.{_suggest(str(name), OPTION_NAMES)} Known: {', '.join(OPTION_NAMES)}."


def _suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
