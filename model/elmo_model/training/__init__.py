"""Pretraining of a biLM: the network that serves, a softmax over words, and what trains both."""
