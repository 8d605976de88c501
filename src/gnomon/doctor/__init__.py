"""What is wrong with a machine, a recipe or a run: the first cause, with evidence, rollouts to read and a fix."""
