"""`xpu-aten bisect`: from a wrong number, a crash, a failure or a slow graph to the part of the compiler at fault.

The parent process searches; a child process traces the target once and tries what it is asked to try, so that a
segmentation fault costs one answer. ``capture`` and ``child`` run in the child, ``prober`` and all else in the parent.
"""
