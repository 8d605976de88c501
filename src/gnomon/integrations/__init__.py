"""Integrations with other libraries: import their environments and rewards, and export environments to them."""
