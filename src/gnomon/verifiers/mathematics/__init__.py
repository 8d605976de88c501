"""Mathematical answers: tokenise, parse to a tree, and compare trees by value."""
