"""What other libraries have: their environments and rewards brought in, and environments of ours served to them."""
