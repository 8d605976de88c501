"""Mathematical answers: characters to tokens, tokens to a tree, and trees compared by value."""
