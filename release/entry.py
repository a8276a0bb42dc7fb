"""The program of the one file and of the image. What a command starts as `PYTHON -m MODULE`, or in a process of
multiprocessing's, finds itself in PYTHON."""

import multiprocessing
import runpy
import sys

from coterie.program import main

if __name__ == "__main__":
    multiprocessing.freeze_support()
    if sys.argv[1:2] == ["-m"]:
        module = sys.argv[2]
        del sys.argv[1:3]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        main()
