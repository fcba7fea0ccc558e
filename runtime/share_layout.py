"""The memory from which a team's threads launch a kernel (see ``team``), as places in an array of 64-bit words.

Loaded by file path inside the compiler processes too: standard library only.
"""

from __future__ import annotations

# Addresses of functions: clSetKernelArgSVMPointer, clSetKernelArg, clEnqueueNDRangeKernel, omp_get_thread_num,
# omp_get_num_threads.
SET_POINTER, SET_VALUE, ENQUEUE, THREAD, THREADS = range(5)

# How many threads may have a share; dimensions of the range; address of the work-group's size, 0 if the driver chooses
# it; the dimension along which the range is cut, how many pieces it has, and how long each is. A kernel's dimension 0
# is OpenCL's.
SHARES, DIMENSIONS, LOCAL, CUT, PIECES, PIECE = range(5, 11)

STATUS = 11
"""An OpenCL error of any of the threads, 0 if there was none."""

RANGE = 12
"""The size of the range in three dimensions."""

COUNT, ARGUMENTS = 15, 16
"""How many arguments the kernel takes, and where they begin: place, size (0: a pointer) and value of each. Behind them
are the threads' shares: a queue, a kernel, the start of the share in three dimensions and its size."""

ARGUMENT, SHARE = 3, 8
"""Words of an argument and of a share."""

QUEUE, KERNEL, START, SIZE = 0, 1, 2, 5
"""Places in a share."""
