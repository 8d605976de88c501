"""`python -m gnomon` is the command line."""

import os
import sys

from gnomon.import_path import library_first

if __name__ == "__main__":
    sys.path[:] = library_first(sys.path, [os.getcwd()])
    from gnomon.cli import main

    main()
