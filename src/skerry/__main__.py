"""`python -m skerry` is the command `skerry`."""

from __future__ import annotations

import sys

from skerry.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
