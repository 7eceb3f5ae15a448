"""Learning a task: the scalar mix and a linear head, trained together on frozen vectors."""
