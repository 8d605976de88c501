"""What runs gained: between runs of two recipes, and over what prompting alone gives."""
