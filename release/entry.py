"""The program of the one file and of the image. A command that starts brokers as `PYTHON -m coterie` finds itself in PYTHON."""

import sys

from coterie.program import main

if __name__ == "__main__":
    if sys.argv[1:3] == ["-m", "coterie"]:
        del sys.argv[1:3]
    main()
