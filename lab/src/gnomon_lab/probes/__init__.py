"""Probes: what runs and policies show beside their reward, without training."""
