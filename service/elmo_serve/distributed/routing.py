"""Which replica of Ray Serve gets a request: the less busy one of two, on any machine."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ray.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica


class AnyReplica(FIFOMixin, RequestRouter):  # type: ignore[misc]
    """Chooses two replicas; Ray Serve takes the one with fewer requests.

    Ray's own router prefers a replica on the machine of the proxy until that one has as many
    requests as it may: the replicas of other machines would get none.
    """

    async def choose_replicas(
        self,
        candidate_replicas: Sequence[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return one rank of two replicas, or of as many as there are."""
        if pending_request is not None:  # wait before the next choice if both are full
            pending_request.routing_context.should_backoff = True
        count = min(2, len(candidate_replicas))
        return [random.sample(list(candidate_replicas), count)] if count else []
