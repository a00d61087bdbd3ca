"""`python -m fedrt`."""

import sys

from fedrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
