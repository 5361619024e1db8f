"""The command ``skds``, as part of this package."""

import os
import sys

from skds import _skds
from skds._options import quieten_mesa


def main() -> int:
    """Runs the command line of this process."""
    import signal

    # The command hears Ctrl-C itself, and a closed pipe is its own affair.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    quieten_mesa()
    script = os.path.abspath(__file__)
    return _skds.command(["skds", *sys.argv[1:]], [sys.executable, script])


if __name__ == "__main__":
    sys.exit(main())
