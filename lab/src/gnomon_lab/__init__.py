"""The laboratory: questions about reinforcement learning, answered by runs of Gnomon.

Studies with a pass line that is registered before the runs, predictions, probes of what a policy knows, simulated
clusters, and the making of the built-in policy. `gnomon` works without it.
"""
