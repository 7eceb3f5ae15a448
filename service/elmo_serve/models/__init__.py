"""Models by name: where their files are, downloaded once and verified on every use.

`elmo_serve.models.in_process` opens them; it needs torch.
"""
