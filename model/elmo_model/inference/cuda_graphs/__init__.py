"""The biLM on a CUDA device: chunks of time steps, each one launch of a CUDA graph."""
