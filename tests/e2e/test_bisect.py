"""`xpu-aten bisect` with faults planted in the compiler: the culprit is named, and a small script shows it."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

PLANTED = Path(__file__).with_name("planted")
SMALL = f"{PLANTED / 'small.py'}:target"
TINY = f"{PLANTED / 'tiny.py'}:target"
CACHE = f"{PLANTED / 'cache.py'}:target"

pytestmark = [pytest.mark.device, pytest.mark.slow]

FAULTS = {
    "op_row": ("op", "aten.embedding.default"),
    "schedule": ("step", "schedule"),
    "graph_pass": ("step", "split_bias"),
    "plan": ("step", "plan"),
    "simplify": ("step", "simplify"),
}


def bisect(*arguments: str) -> tuple[int, dict]:
    command = [sys.executable, "-m", "aten_backend.cli", "bisect", "--json", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def test_nothing_is_wrong(tmp_path):
    code, found = bisect(SMALL, "--out", str(tmp_path), "--train")
    assert code == 0
    assert found is None


@pytest.mark.parametrize(
    ("target", "name", "symptom", "arguments"),
    [
        (SMALL, "op_row", "wrong numbers", []),
        (TINY, "crash", "crash", []),
        (SMALL, "no_compile", "compile failure", []),
        (TINY, "slow", "slow", ["--slower-than", "5"]),
    ],
    ids=["op_row", "crash", "no_compile", "slow"],
)
def test_other_symptoms_and_dynamic_sizes(target, name, symptom, arguments, tmp_path):
    plugin = str(PLANTED / f"{name}.py")
    code, found = bisect(target, "--plugin", plugin, "--out", str(tmp_path), "--dynamic", *arguments)
    assert code == 1
    assert found["symptom"] == symptom
    assert (found["culprit"]["kind"], found["culprit"]["name"]) == ("op", "aten.gelu.default")
    assert found["reproduces"]
    assert len(found["ops"]) <= 3


def test_what_never_ends_is_found(tmp_path):
    """A kernel's launch, and the lowering. Both at once, as they mostly wait."""

    def one(name):
        out = str(tmp_path / name)
        return bisect(TINY, "--plugin", str(PLANTED / f"{name}.py"), "--out", out, "--timeout", "8")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for code, found in pool.map(one, ("hang", "hang_compile")):
            assert code == 1
            assert found["symptom"] == "hang"
            assert (found["culprit"]["kind"], found["culprit"]["name"]) == ("op", "aten.gelu.default")
            assert found["culprit"]["confirmed"] and found["reproduces"]
            assert found["ops"] == ["aten.gelu.default"]


@pytest.mark.parametrize(
    ("name", "kind", "culprit"), [("op_row", "op", "aten.gelu.default"), ("write_in_place", "step", "write_in_place")]
)
def test_writes_to_inputs_are_looked_at(name, kind, culprit, tmp_path):
    code, found = bisect(CACHE, "--plugin", str(PLANTED / f"{name}.py"), "--out", str(tmp_path))
    assert code == 1
    assert (found["culprit"]["kind"], found["culprit"]["name"]) == (kind, culprit)
    assert found["culprit"]["confirmed"]
    assert found["reproduces"]
    assert len(found["ops"]) <= 3


@pytest.fixture(scope="module")
def found_in_bert(tmp_path_factory):
    """What is found for each fault, two at a time: much of a bisection waits for one process or the other."""

    def one(name):
        out = str(tmp_path_factory.mktemp(name))
        return bisect("examples/models.py:bert", "--plugin", str(PLANTED / f"{name}.py"), "--out", out)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(one, name) for name in FAULTS}


@pytest.mark.models
@pytest.mark.parametrize("name", FAULTS)
def test_the_culprit_is_named_and_shown(name, found_in_bert):
    plugin = str(PLANTED / f"{name}.py")
    code, found = found_in_bert[name].result()
    assert code == 1
    assert (found["culprit"]["kind"], found["culprit"]["name"]) == FAULTS[name]
    assert found["culprit"]["confirmed"]
    assert 1 <= len(found["ops"]) <= 10
    assert found["reproduces"]
    script = Path(found["script"])
    without = script.with_name("without_the_fault.py")  # the same without the plugin shows nothing
    without.write_text(script.read_text().replace(f"load_plugin({plugin!r})", ""))
    assert subprocess.run([sys.executable, without], capture_output=True, check=False).returncode == 0
