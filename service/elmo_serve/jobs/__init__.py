"""Jobs: fits of tasks, in a child process at low priority, on vectors of the server's own queue."""
