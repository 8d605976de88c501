"""What a run will need: memory, time and money, before any weights are read."""
