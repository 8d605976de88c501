"""Models: hub-format folders as sampler and learner both see them."""
