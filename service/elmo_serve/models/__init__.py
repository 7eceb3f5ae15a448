"""Models by name: where their files are, downloaded once and verified on every use.

`elmo_serve.models.opening` opens them; it needs torch.
"""
