"""From the body of a request to vectors: the one path of every route that embeds."""
