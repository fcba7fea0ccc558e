"""The storage pool: what is handed out again, and what never is."""

from __future__ import annotations

import threading

import pytest
import torch

from runtime import memory
from runtime.memory import POOLED, StoragePool, allocate
from support import lowered

SIZE = 2 * POOLED


@pytest.fixture
def pool(monkeypatch):
    made = StoragePool()
    monkeypatch.setattr(memory, "pool", made)
    return made


def large(**changes):
    return allocate(changes.get("shape", (SIZE // 4,)), changes.get("strides", (1,)), torch.float32)


def test_memory_is_handed_out_again_once_nobody_holds_it(pool):
    x = large()
    address = x.data_ptr()
    assert large().data_ptr() != address
    del x
    assert {large().data_ptr() for _ in range(3)} >= {address} or pool.idle == 2 * SIZE
    kept = [large(), large()]
    assert address in {t.data_ptr() for t in kept}


@pytest.mark.parametrize(
    "hold",
    [
        lambda x: x[3:5],
        lambda x: x.view(2, -1).t(),
        lambda x: x.numpy(),
        lambda x: x.untyped_storage(),
        lambda x: x.detach(),
        lambda x: x.__dlpack__(),
        lambda x: x.requires_grad_().sin(),  # saved for the backward pass
        lambda x: memoryview(x.numpy()),
    ],
    ids=["slice", "view", "numpy", "storage", "detached", "dlpack", "graph", "buffer"],
)
def test_memory_in_use_is_left_alone(pool, hold):
    x = large()
    address, held = x.data_ptr(), hold(x)
    del x
    assert large().data_ptr() != address
    del held
    assert address in {t.data_ptr() for t in (large(), large())}


def test_shared_memory_is_given_up(pool):
    x = large().share_memory_()
    address = x.data_ptr()
    del x
    assert large().data_ptr() != address
    assert pool.idle == SIZE


def test_resized_storages_are_given_up(pool):
    x = large()
    x.untyped_storage().resize_(0)
    del x
    assert large().untyped_storage().nbytes() == SIZE


def test_layouts_and_types(pool):
    x = allocate((1024, 2048, 8), (1, 1024 * 8, 1024), torch.float16)
    assert (x.shape, x.stride(), x.dtype) == ((1024, 2048, 8), (1, 8192, 1024), torch.float16)
    assert x.untyped_storage().nbytes() == 2 * x.numel()
    assert x.fill_(2).sum(dtype=torch.float64) == 2 * x.numel()
    assert not x._is_view()
    assert allocate((0, 2**40), (2**40, 1), torch.float32).numel() == 0


def test_small_tensors_are_not_pooled(pool):
    allocate((4, 5), (5, 1), torch.float32)
    assert pool.idle == 0


def test_what_is_kept_is_bounded(pool):
    pool.limit = 3 * SIZE
    several = [large() for _ in range(6)]
    del several
    extra = large(shape=(SIZE,))
    assert pool.idle <= pool.limit
    del extra
    pool.clear()
    assert pool.idle == 0


def test_threads_never_get_the_same_memory(pool):
    wrong = []

    def work(mark: float) -> None:
        for _ in range(30):
            x = large().fill_(mark)
            if x[::4096].ne(mark).any():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what plans make of memory


def plan_of(function, *args):
    (one,) = lowered(function, *args)
    return one.plan.text


def r(*shape):
    return torch.randn(*shape)


def test_results_take_the_memory_of_what_dies():
    text = plan_of(lambda x, y: torch.relu(x @ y) @ y, r(64, 64), r(64, 64))
    assert "relu = mm\n" in text


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (torch.relu(z := x @ y) @ y, z),  # the product is a result itself
        lambda x, y: torch.relu((x @ y).t()).contiguous() @ y,  # read at other places than written
        lambda x, y: torch.softmax(x @ y, 1) @ y,  # read again by other lanes' turns
        lambda x, y: torch.relu(x @ y).double() @ y.double(),  # of another size
        lambda x, y: (z := x @ y).sin() @ z,  # read after
        lambda x, y: (torch.relu(z := x @ y), z.view(torch.int32)),  # seen as another type by a result
    ],
)
def test_memory_that_is_read_otherwise_is_not_taken(function):
    text = plan_of(function, r(64, 64), r(64, 64))
    assert " = mm\n" not in text


def test_dead_memory_is_used_again_without_waiting():
    text = plan_of(lambda x: x.softmax(1).cumsum(0).softmax(1).cumsum(0).t() @ x, r(1024, 1024))
    assert text.count(" k") == text.count("empty_strided") + 1 == 4  # two for four kernels, one for the product
    assert text.count("wait()") == 1
