"""The HTTP side of the service: the application, its routes, middleware and media types."""
