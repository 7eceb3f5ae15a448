"""How many replicas of an engine there should be, by the tokens that they have admitted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # an extra
    from ray.serve.config import AutoscalingContext

OUTSTANDING_TOKENS: Final = "outstanding_tokens"
"""The name under which a replica reports the tokens that wait or run, boundaries included."""


class QueuedTokens:
    """An autoscaling policy of Ray Serve: one replica for a number of tokens that wait or run.

    Ray Serve applies the bounds, the delays and the factors of the deployment's configuration.
    """

    def __init__(self, tokens_per_replica: float) -> None:
        self._tokens_per_replica = tokens_per_replica

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        """Return the wanted number of replicas, at least 1, and no state.

        The metrics are means over the look-back period, by name and replica.
        """
        found = (context.aggregated_metrics or {}).get(OUTSTANDING_TOKENS)
        if not found:  # no replica has reported yet
            return max(1, context.target_num_replicas), {}
        return max(1, math.ceil(sum(found.values()) / self._tokens_per_replica)), {}
