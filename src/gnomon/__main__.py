"""`python -m gnomon` is the command line."""

if __name__ == "__main__":
    from gnomon.cli import main

    main()
