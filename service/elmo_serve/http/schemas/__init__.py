"""Bodies of requests and responses, as pydantic models and as the OpenAPI document shows them."""
