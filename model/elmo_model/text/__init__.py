"""Words in: alphabets, tokenizers, files of text, and batches by length."""
