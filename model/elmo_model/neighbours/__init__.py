"""The nearest uses of a word: an index of tokens in their sentences, by layer."""
