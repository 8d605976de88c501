"""Wiring: the only floor that names concrete classes."""
