"""The page of `GET /`: static files, and the response that serves one of them."""
