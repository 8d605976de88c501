"""Models: hub-format folders as sampler and learner both see them."""

import os

# Transformers reads it when it is imported, which is after this: no kernel is fetched because a configuration names it.
os.environ.setdefault("USE_HUB_KERNELS", "NO")
