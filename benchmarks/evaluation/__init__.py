"""The program that judges the layers of a model by its vectors alone."""
