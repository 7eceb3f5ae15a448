"""`elmo embed`: a text file in, a file of vectors out."""
