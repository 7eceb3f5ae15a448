"""The pool of helper processes, which do for requests whatever would block the event loop."""
