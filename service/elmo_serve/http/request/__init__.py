"""A request as the routes read it: headers, body, waits, and the parsed body."""
