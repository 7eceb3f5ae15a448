"""The load generator of `elmo bench`: HTTP connections, loops, and checks of the vectors."""
