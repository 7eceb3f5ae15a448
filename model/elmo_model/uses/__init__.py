"""The nearest uses of a word: an index of the tokens of a text in their sentences, by layer."""
