"""The questions of the paper, asked again: which layers tasks choose, and where ELMo goes."""
