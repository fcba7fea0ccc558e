"""Options: who wins, what is refused, and what enters cache keys."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import pytest
import torch

from aten_backend import once
from aten_backend.dump.sinks import Folder
from aten_backend.options import OPTION_NAMES, OptionError, Options


def parse(options=None, mode=None, **environ):
    return Options.parse(mode, options, environ)


def test_defaults():
    assert parse() == Options()
    assert Options() == Options(
        ir="aten", device="auto", fallback="eager", autotune=False, disable_ops=(), disable_passes=(), fusion_fuel=None,
        verify="off", dump_dir=None, cache=True, aot_cache=False, cache_dir=None, compile_workers=None,
        compiler_python=None,
    )  # fmt: skip


def test_a_dump_folder_that_cannot_be_made_is_named(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(OptionError, match=r"option 'dump_dir'.*cannot be written"):
        Folder(str(taken)).open("forward")


def test_names_are_the_promised_ones():
    assert OPTION_NAMES == (
        "ir", "device", "fallback", "autotune", "disable_ops", "disable_passes", "fusion_fuel", "verify", "dump_dir",
        "cache", "aot_cache", "cache_dir", "compile_workers", "compiler_python",
    )  # fmt: skip


def test_every_option_is_documented():
    assert all(field.metadata["doc"].endswith(".") for field in dataclasses.fields(Options))


def test_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().ir = "prims"  # type: ignore[misc]
    assert hash(parse({"disable_ops": ["aten.gelu"]})) == hash(parse({"disable_ops": ("gelu",)}))


def test_options_win_over_mode_and_mode_over_environment():
    assert parse(XPU_ATEN_IR="prims").ir == "prims"
    assert parse({"ir": "aten"}, XPU_ATEN_IR="prims").ir == "aten"
    assert parse(mode="max-autotune", XPU_ATEN_AUTOTUNE="0").autotune is True
    assert parse({"autotune": False}, mode="max-autotune").autotune is False


@pytest.mark.parametrize(
    ("mode", "autotune"),
    [
        (None, False),
        ("default", False),
        ("reduce-overhead", False),
        ("max-autotune", True),
        ("max-autotune-no-cudagraphs", True),
    ],
)
def test_modes(mode, autotune):
    assert parse(mode=mode) == Options(autotune=autotune)


def test_unknown_mode():
    with pytest.raises(OptionError, match=r"max-autotune-no-cudagraphs.*got 'fast'"):
        parse(mode="fast")


def test_unknown_option_lists_all_and_suggests():
    with pytest.raises(OptionError, match=r"unknown option 'fallbak'.*Did you mean 'fallback'") as raised:
        parse({"fallbak": "error"})
    assert all(name in str(raised.value) for name in OPTION_NAMES)
    assert isinstance(raised.value, ValueError)


GOOD = [
    ("ir", "prims", "prims"),
    ("device", "auto", "auto"),
    ("device", "cpu", "cpu"),
    ("device", "gpu:1", "gpu:1"),
    ("device", "opencl:cpu:0", "opencl:cpu:0"),
    ("device", "level_zero:gpu,opencl:cpu", "level_zero:gpu,opencl:cpu"),
    ("fallback", "error", "error"),
    ("autotune", True, True),
    ("autotune", "on", True),
    ("disable_ops", [], ()),
    ("disable_ops", ["aten.gelu", "aten.add.Tensor"], ("aten.add.Tensor", "aten.gelu")),
    ("disable_ops", ("gelu", "aten::gelu", "torch.ops.aten.gelu"), ("aten.gelu",)),
    ("disable_ops", "aten.gelu, prims.sum", ("aten.gelu", "prims.sum")),
    ("disable_ops", {torch.ops.aten.gelu}, ("aten.gelu",)),
    ("disable_ops", [torch.ops.aten.gelu.default], ("aten.gelu.default",)),
    ("disable_passes", "schedule, plan", ("plan", "schedule")),
    ("disable_passes", ["split_bias"], ("split_bias",)),
    ("fusion_fuel", 0, 0),
    ("fusion_fuel", "none", None),
    ("verify", "numerics", "numerics"),
    ("dump_dir", Path("dumps"), "dumps"),
    ("cache", False, False),
    ("cache_dir", "~/c", str(Path("~/c").expanduser())),
    ("compile_workers", 3, 3),
    ("compiler_python", "python3.11", "python3.11"),
]


@pytest.mark.parametrize(("name", "value", "expected"), GOOD)
def test_accepted(name, value, expected):
    assert getattr(parse({name: value}), name) == expected


BAD = [
    ("ir", "triton", "'aten', 'prims'"),
    ("ir", None, "'aten', 'prims'"),
    ("device", "xpu:0:0:0", "dpctl filter string"),
    ("device", "cuda_gpu", "dpctl filter string"),
    ("device", torch.device("cpu"), "dpctl filter string"),
    ("fallback", True, "'eager', 'error'"),
    ("autotune", 1, "True or False"),
    ("autotune", "maybe", "True or False"),
    ("disable_ops", 3, "sequence of operators"),
    ("disable_ops", ["aten.gleu"], "'aten.gleu' is none"),
    ("disable_ops", ["aten.add.Tensr"], "'aten.add.Tensr' is none"),
    ("disable_ops", ["os.path"], "'os.path' is none"),
    ("disable_ops", [lambda: 0], "operators of torch.ops"),
    ("disable_passes", "shedule", "schedule"),
    ("disable_passes", 3, "names"),
    ("fusion_fuel", -1, "at least 0"),
    ("fusion_fuel", True, "at least 0"),
    ("fusion_fuel", 1.5, "at least 0"),
    ("fusion_fuel", "many", "at least 0"),
    ("verify", "all", "'artifacts'"),
    ("dump_dir", 3, "path"),
    ("dump_dir", "", "path"),
    ("cache", None, "True or False"),
    ("compile_workers", 0, "at least 1"),
    ("compiler_python", ["python"], "path"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_refused(name, value, allowed):
    with pytest.raises(OptionError, match=f"option '{name}' takes") as raised:
        parse({name: value})
    assert allowed in str(raised.value)


def test_environment_values():
    read = parse(
        XPU_ATEN_CACHE="off",
        XPU_ATEN_FUSION_FUEL="7",
        XPU_ATEN_DISABLE_OPS="aten.gelu,aten.tanh",
        XPU_ATEN_DUMP_DIR="",
        PATH="elsewhere",
    )
    assert read == Options(cache=False, fusion_fuel=7, disable_ops=("aten.gelu", "aten.tanh"))


def test_refused_environment_value_names_the_variable():
    with pytest.raises(OptionError, match="environment variable XPU_ATEN_COMPILE_WORKERS takes"):
        parse(XPU_ATEN_COMPILE_WORKERS="0")


def test_unknown_variable_warns_once(monkeypatch):
    monkeypatch.setattr(once, "_seen", set())
    with pytest.warns(UserWarning, match="XPU_ATEN_DUMPDIR.*Did you mean 'XPU_ATEN_DUMP_DIR'"):
        parse(XPU_ATEN_DUMPDIR="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse(XPU_ATEN_DUMPDIR="x") == Options()


# A value other than the default for every option, and whether it must enter cache keys.
CHANGED = {
    "ir": ("prims", True),
    "device": ("gpu", False),
    "fallback": ("error", False),
    "autotune": (True, True),
    "disable_ops": (("aten.gelu",), True),
    "disable_passes": (("plan",), True),
    "fusion_fuel": (1, True),
    "verify": ("artifacts", False),
    "dump_dir": ("d", False),
    "cache": (False, False),
    "aot_cache": (True, False),
    "cache_dir": ("c", False),
    "compile_workers": (1, False),
    "compiler_python": ("p", False),
}


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_affects_code(name):
    value, affects = CHANGED[name]
    assert (parse({name: value}).affects_code() != Options().affects_code()) is affects
    hash(parse({name: value}).affects_code())
