"""The commands of `elmo`: options and output, no work.

`elmo --help` and `elmo COMMAND --help` must not wait for libraries that they do not use, so a
command imports the function that does its work when it runs. Errors meant for a user are not
caught: `elmo_serve.cli` makes each of them a line and an exit code.
"""
