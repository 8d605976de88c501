"""Commands in modules of their own; `gnomon.cli` registers them."""
