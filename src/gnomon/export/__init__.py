"""Models and rollouts as files for other software."""
