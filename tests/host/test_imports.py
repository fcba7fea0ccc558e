"""The shape of the project, read from its source: who may import whom, and what no file may hold."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the top down: a package imports itself and those after it.
PACKAGES = ("aten_backend", "runtime", "lowering")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SOURCES = sorted(
    path
    for folder in (*PACKAGES, "examples", "tests", "docs", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
) + sorted(path for path in ROOT.glob("*") if path.suffix in (".toml", ".md", ".txt") or path.name == "Makefile")

# Packages that only worker processes can import: see docs/architecture.md.
COMPILER_ONLY = {"numba", "numba_dpex", "llvmlite", "dpnp"}
COMPILER_MODULES = {
    *("runtime/numba_compat.py", "runtime/numba_speed.py", "runtime/kernel_language.py", "runtime/worker.py"),
    "runtime/host_stub.py",
}

Import = tuple[str, int, bool]  # absolute name, line, whether inside a function


def imports(path: Path) -> Iterator[Import]:
    """Every import of a file, `from a import b` as `a.b`."""
    yield from _walk(ast.parse(path.read_text(encoding="utf-8")), path, inside=False)


def _walk(node: ast.AST, path: Path, inside: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, node.lineno, inside
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, path)
        for alias in node.names:
            yield f"{base}.{alias.name}", node.lineno, inside
    within = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, path, within)


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    # One level is the module's own package, whether or not the module is that package's __init__.
    parents = path.relative_to(ROOT).parts[: -node.level]
    return ".".join((*parents, *([node.module] if node.module else [])))


def top(name: str) -> str:
    return name.partition(".")[0]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_check():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PACKAGES)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_go_down_only(path):
    allowed = PACKAGES[PACKAGES.index(path.relative_to(ROOT).parts[0]) :]
    up = [
        f"line {line}: {name}" for name, line, _ in imports(path) if top(name) in PACKAGES and top(name) not in allowed
    ]
    assert not up


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_own_modules_are_imported_at_the_top(path):
    """An import inside a function hides a cycle. The package's own lazy names are the one exception."""
    if relative(path) == "aten_backend/__init__.py":
        return
    late = [f"line {line}: {name}" for name, line, inside in imports(path) if inside and top(name) in PACKAGES]
    assert not late


@pytest.mark.parametrize("path", [path for path in MODULES if relative(path).startswith("lowering/")], ids=relative)
def test_lowering_knows_no_device(path):
    allowed = sys.stdlib_module_names | {"lowering", "torch", "sympy"}
    if relative(path).startswith("lowering/interpret/"):
        allowed |= {"numpy"}
    other = [f"line {line}: {name}" for name, line, _ in imports(path) if top(name) not in allowed]
    assert not other


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_inductor_is_imported_by_its_own_level_only(path):
    if relative(path).startswith("aten_backend/loop_level/"):
        return
    inductor = [f"line {line}: {name}" for name, line, _ in imports(path) if f"{name}.".startswith("torch._inductor.")]
    assert not inductor


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_compiler_packages_stay_in_the_worker(path):
    if relative(path) in COMPILER_MODULES:
        return
    compiler = [f"line {line}: {name}" for name, line, _ in imports(path) if top(name) in COMPILER_ONLY]
    assert not compiler


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_paths_of_a_machine(path):
    # Put together from parts, so that this file passes its own test.
    folders = "|".join(("work", "root", "home"))
    found = re.findall(
        rf"(?<![\w.~}}*)-])/(?:{folders})\b(?:/\S*)?", path.read_text(encoding="utf-8", errors="replace")
    )
    assert not found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", [("a.b", 1, False)]),
        ("from a import b, c", [("a.b", 1, False), ("a.c", 1, False)]),
        ("def f():\n    from .x import y", [("lowering.x.y", 2, True)]),
        ("if True:\n    import a", [("a", 2, False)]),
        ("f = lambda: __name__\nclass A:\n    from .. import b", [(".b", 3, False)]),
    ],
)
def test_the_walk_itself(source, expected):
    assert list(_walk(ast.parse(source), ROOT / "lowering" / "module.py", inside=False)) == expected
