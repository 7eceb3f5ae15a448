"""Bodies of requests and responses, as pydantic models and as the OpenAPI document shows them.

The schemas of requests state defaults in their descriptions alone: openapi-typescript makes a field
with `default` required, and openapi-generator's Go client does not compile with a `default` beside
`anyOf`. For the same reason there is no `oneOf` and no `not`.
"""
