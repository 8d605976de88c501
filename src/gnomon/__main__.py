"""`python -m gnomon` is the command line."""

from gnomon.cli import main

if __name__ == "__main__":
    main()
