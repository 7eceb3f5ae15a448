"""Static word vectors: files of GloVe, word2vec and fastText, read once into a memory map."""
