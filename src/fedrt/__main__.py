"""The entry point of `python -m fedrt`."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    # Python puts the current folder first; what lies there must not stand in for any library.
    del sys.path[0]

from fedrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
