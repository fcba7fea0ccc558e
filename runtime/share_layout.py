"""The memory from which a kernel is launched on a team's threads (see ``team``), as places in an array of 64-bit words.

Loaded by file path inside the compiler processes too: standard library only.
"""

from __future__ import annotations

# Addresses of functions: clSetKernelArgSVMPointer, clSetKernelArg, clEnqueueNDRangeKernel, omp_get_thread_num,
# omp_get_num_threads.
SET_POINTER, SET_VALUE, ENQUEUE, THREAD, THREADS = range(5)

# How many threads may have a share; whether the caller takes all; dimensions of the range; address of the work-group's
# size, 0 if the driver chooses it; the dimension along which the range is cut, how many pieces it has, and how long
# each is. A kernel's dimension 0 is OpenCL's.
SHARES, ALONE, DIMENSIONS, LOCAL, CUT, PIECES, PIECE = range(5, 12)

STATUS = 12
"""An OpenCL error of any of the threads, 0 if there was none."""

RANGE = 13
"""The size of the range in three dimensions."""

# What the function that Python calls needs. Addresses of functions: GOMP_parallel and what it runs, and of Python's
# PyLong_AsLongLong, PyFloat_AsDouble, PyErr_Occurred, PyErr_Clear, PyEval_SaveThread, PyEval_RestoreThread and
# PyObject_Vectorcall.
PARALLEL, SHARE_OUT, AS_INTEGER, AS_FLOAT, OCCURRED, CLEAR, SAVE, RESTORE, CALL = range(16, 25)

# Of Python's objects: the type tuple, True, None, the string "alone", the size that is set as RANGE (0: none), what is
# called where this function has no answer, and what is called after an error of OpenCL's; whether a launch is under
# way; the address of a word that is not 0 in a forked process; how many arguments are given.
TUPLE, TRUE, NONE, NAME, SIZE_OBJECT, OTHERWISE, FAILED, BUSY, FORKED, GIVEN = range(25, 35)

COUNT, ARGUMENTS = 35, 36
"""How many arguments the kernel takes, and where they begin: place, kind and value of each. Behind them are the
threads' shares: a queue, a kernel, the start of the share in three dimensions, its size, whether the kernel has
arguments already, and their values."""

POINTER, INTEGER, FLOAT, OWN = range(4)
"""Kinds of arguments. An OWN pointer is not given: it stays."""

TYPE, LENGTH, ITEMS, CONTENT = 1, 2, 3, 5
"""Where CPython 3.10 and 3.11 have things in their objects, in words: the type of any, the length and the items of a
tuple, the address of a bytearray's content."""

ARGUMENT, SHARE = 3, 9
"""Words of an argument, and of a share without the values."""

QUEUE, KERNEL, START, SIZE, KNOWN = 0, 1, 2, 5, 8
"""Places in a share."""
