"""ELMo, the network: tokens in, one vector a layer and token out. Knows nothing of HTTP."""
