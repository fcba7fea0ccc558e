"""When OpenMP's threads are sent to sleep, and that they come back."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from runtime import parking
from runtime.executor import executable
from support import lowered

LARGE, SMALL = (1024, 1024), (16, 16)
pytestmark = pytest.mark.skipif(parking._libgomp() is None, reason="this torch has another OpenMP library")


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def plan_of(fn, *args) -> list[str]:
    (one,) = lowered(fn, *args)
    return [line.strip() for line in one.plan.text.splitlines()]


def test_large_kernels_behind_a_matmul_have_the_cores():
    plan = plan_of(lambda x, y: (x @ x).sin() @ y, r(*LARGE), r(*LARGE))
    assert plan.count("park()") == plan.count("unpark()") == 1
    at = plan.index("park()")
    assert plan[at + 1].startswith("sin = ") and plan[at + 2].startswith("k0(")
    assert plan[plan.index("wait()") + 1] == "unpark()"


@pytest.mark.parametrize(
    "fn, size",
    [(lambda x: (x @ x).sin(), SMALL), (lambda x: x.sin() @ x, LARGE), (lambda x: x @ x @ x, LARGE)],
    ids=("small", "no matmul before", "no kernel"),
)
def test_nothing_is_parked_where_it_does_not_pay(fn, size):
    assert "park()" not in plan_of(fn, r(*size))


def test_once_for_several_kernels():
    plan = plan_of(lambda x, y: (x @ x).softmax(0).cumsum(1).softmax(0) @ y, r(*LARGE), r(*LARGE))
    assert plan.count("park()") == 1


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_atens_threads_are_there_again():
    a = r(600, 600)
    expected = a @ a
    for _ in range(50):
        parking.park()
        parking.unpark()
        torch.testing.assert_close(a @ a, expected)


@pytest.mark.usefixtures("two_threads")
def test_while_parked_aten_runs_on_the_calling_thread():
    a = r(600, 600)
    expected = a @ a
    parking.park()
    torch.testing.assert_close(a @ a, expected)
    parking.park()  # as after an error that kept it from waking them
    parking.unpark()
    parking.unpark()
    torch.testing.assert_close(a @ a, expected)


@pytest.mark.usefixtures("two_threads")
def test_each_thread_has_threads_of_its_own():
    a = r(300, 300)
    expected = a @ a
    wrong: list[str] = []

    def work() -> None:
        for _ in range(50):
            parking.park()
            parking.unpark()
            if not torch.allclose(a @ a, expected):
                wrong.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_one_thread_is_left_alone():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        parking.park()
        assert not parking._region().open
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_an_error_leaves_nobody_asleep():
    def failing():
        raise RuntimeError("on purpose")

    device: Any = SimpleNamespace(traits=SimpleNamespace(shared_system_usm=True), wait=lambda: None)
    kernels: list[Any] = [None]
    text = "def call(args):\n    park()\n    k0()\n    unpark()\n"
    run = executable(text, {"park": parking.park, "unpark": parking.unpark, "k0": failing}, kernels, device, "failing")
    with pytest.raises(RuntimeError, match="on purpose"):
        run([])
    assert not parking._region().open


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("call", ("GOMP_parallel_start", "GOMP_parallel_end", "sem_post"))
@pytest.mark.parametrize("late", (False, True), ids=("before", "behind"))
def test_an_interrupt_anywhere_leaves_nobody_asleep(monkeypatch, call, late):
    library = parking._libgomp()
    assert library is not None
    owner = parking._libc() if call == "sem_post" else library
    plain = getattr(owner, call)

    def interrupted(*arguments):
        monkeypatch.setattr(owner, call, plain)
        if late:
            plain(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        parking.park()
        parking.unpark()
    parking.unpark()
    assert not parking._region().open and not library.omp_in_parallel()
    a = torch.randn(600, 600)
    torch.testing.assert_close(a @ a, a.mm(a))
    parking.park()
    assert library.omp_in_parallel()
    parking.unpark()
    assert not library.omp_in_parallel()
