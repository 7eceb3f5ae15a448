"""The load generator of `elmo bench`: workload, loops, checks of the vectors, and the table."""
