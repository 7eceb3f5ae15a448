"""`elmo embed`: a file of text in, a file of vectors out."""
