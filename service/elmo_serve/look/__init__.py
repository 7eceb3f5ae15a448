"""`elmo look`: how similar the uses of a word are, in each layer."""
