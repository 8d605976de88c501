"""Predictions: what somebody expects of a run, registered before it begins and scored when it has ended."""
