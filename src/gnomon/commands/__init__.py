"""The commands, by topic; `gnomon.cli` assembles them. Heavy imports happen inside the commands that need them."""
