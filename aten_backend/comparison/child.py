"""The process of one backend: ``python -m aten_backend.comparison.child FD`` serves a Bench over the socket FD.

Messages are pickles of plain records and of workloads. The process ends with its requests: also when their sender dies.
"""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.connection import Connection

import torch

from aten_backend.comparison.bench import Bench


def serve(requests: Connection) -> None:
    """Answer until nobody asks."""
    backend, threads = pickle.loads(requests.recv_bytes())
    if torch.get_num_threads() != threads:  # setting it, even to what it is, changes how libraries choose theirs
        torch.set_num_threads(threads)
    bench = Bench(backend)
    while True:
        try:
            do, given = pickle.loads(requests.recv_bytes())
        except EOFError:
            return
        # Not Connection.send, whose pickles hand tensors over in shared memory that both must keep open.
        requests.send_bytes(pickle.dumps(getattr(bench, do)(*given)))


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as requests:
        serve(requests)


if __name__ == "__main__":
    main(int(sys.argv[1]))
