"""Runs as text: summaries, steps and rollouts, as the commands and the viewer show them."""
