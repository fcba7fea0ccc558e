"""Stock Inductor beside xpu_inductor in one process: its code stays what it is, text for text."""

from __future__ import annotations

import contextlib
import re
import threading

import pytest
import torch
from torch._inductor.codegen import common
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx

from aten_backend.loop_level import backend as twin
from aten_backend.loop_level.backend import xpu_inductor
from aten_backend.loop_level.inductor_code import captured_code, clear_memory_caches
from aten_backend.loop_level.scheduling import Scheduling
from aten_backend.loop_level.switch import register
from aten_backend.loop_level.wrapper import GraphWrapper
from aten_backend.options import Options

pytestmark = pytest.mark.device

OURS, STOCK = "kernels.define(", "async_compile.cpp_pybinding("


def program(x, y):
    return torch.softmax(torch.nn.functional.gelu(x + y), -1)


def arguments():
    torch.manual_seed(0)
    return torch.randn(8, 32), torch.randn(32)


def code_of(backend, fn=program, args=None):
    """The wrappers that one compile of ``fn`` makes, and its result."""
    torch._dynamo.reset()
    with captured_code() as code:
        result = torch.compile(fn, backend=backend)(*(args or arguments()))
    return [plain(text) for text in code], result


def plain(text):
    """Without the number of the compile, which counts up in a process."""
    return re.sub(r"# AOT ID: .*", "", text)


@pytest.fixture(params=["caches off", "caches on"])
def caches(request, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    on = request.param == "caches on"
    with torch._inductor.config.patch(force_disable_caches=not on):
        clear_memory_caches()
        yield on


def test_inductor_before_and_after(caches):
    before, first = code_of("inductor")
    ours, mine = code_of(xpu_inductor)
    after, second = code_of("inductor")
    assert before == after
    assert before and all(STOCK in text and OURS not in text for text in before)
    assert ours and all(OURS in text and STOCK not in text for text in ours)
    torch.testing.assert_close(mine, first)
    torch.testing.assert_close(second, first, rtol=0, atol=0)


def test_caches_know_the_two_apart(tmp_path, monkeypatch):
    """What one backend has cached, the other must not find, and either finds its own again."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    found = torch._dynamo.utils.counters["inductor"]
    for _ in range(2):
        for backend in ("inductor", xpu_inductor):
            clear_memory_caches()
            misses, hits = found["fxgraph_cache_miss"], found["fxgraph_cache_hit"]
            code, _ = code_of(backend)
            assert all((STOCK if backend == "inductor" else OURS) in text for text in code)
            last = found["fxgraph_cache_miss"] - misses, found["fxgraph_cache_hit"] - hits
    assert last == (0, 1) or torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]


def test_concurrent_compiles(caches):
    """Dynamo compiles one frame at a time; here Inductor is called without it, so that compiles overlap."""
    register(Scheduling, GraphWrapper)
    names = ["inductor", "xpu_inductor"] * 2
    graphs = {(thread, n): traced() for thread in range(len(names)) for n in range(3)}  # tracing has global state
    expected = {name: lowered(name, traced()) for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    barrier = threading.Barrier(len(names))

    def work(thread, name):
        barrier.wait()
        for n in range(3):
            found[name].append(lowered(name, graphs[thread, n]))

    threads = [threading.Thread(target=work, args=item) for item in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert OURS in expected["xpu_inductor"] and STOCK in expected["inductor"]
    for name, each in found.items():
        assert len(each) == 6
        for text in each:
            assert unnamed(text) == unnamed(expected[name])


def unnamed(text):
    """Without comments and readable names: where a loop comes from, Inductor notes in memory that threads share."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [re.sub(r"\b[a-z]\w*_([0-9a-f]{12})\b", r"kernel_\1", line) for line in lines]


def traced():
    return make_fx(program, decomposition_table=select_decomp_table(), tracing_mode="fake")(*arguments())


def lowered(name, gm):
    """The code of one graph."""
    fakes = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
    ours = twin._settings(Options.parse()) if name == "xpu_inductor" else contextlib.nullcontext()
    with torch._guards.tracing(torch._guards.TracingContext(fakes[0].fake_mode)), ours:
        return generated(gm, fakes)


def generated(gm, fakes):
    graph = GraphLowering(gm, example_inputs=fakes)
    mode = fakes[0].fake_mode
    with V.set_graph_handler(graph), V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
        graph.run(*fakes)
        code, _ = graph.codegen()
    return plain(code.value)


def test_the_entry_answers_by_context():
    code_of(xpu_inductor)
    entry = common.device_codegens["cpu"]
    assert entry.scheduling is entry.stock.scheduling
    assert common.get_wrapper_codegen_for_device("cpu") is entry.stock.wrapper_codegen
    assert common.get_wrapper_codegen_for_device("cpu", cpp_wrapper=True) is entry.stock.cpp_wrapper_codegen


def test_backward_is_compiled_by_the_same_backend():
    x = torch.randn(8, 32, requires_grad=True)
    with captured_code() as code:
        torch._dynamo.reset()
        torch.compile(lambda x: (x * x.sigmoid()).sum(), backend=xpu_inductor)(x).backward()
    assert len(code) == 2 and all(OURS in text and STOCK not in text for text in code)
    torch.testing.assert_close(x.grad, torch.autograd.grad((x * x.sigmoid()).sum(), x)[0])
