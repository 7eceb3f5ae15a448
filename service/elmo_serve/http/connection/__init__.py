"""Around uvicorn's protocol: limits, early refusals and writes of a connection."""
