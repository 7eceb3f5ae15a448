"""The size of a deployment on Ray Serve: replicas, their shares of a machine, autoscaling."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from elmo_serve.settings import Settings, SettingsError, variable
from elmo_serve.settings.text import from_strings


class RayOptions(BaseModel):
    """Arguments of `ray_serve:app` beyond the settings of `elmo serve`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_replicas: int = Field(1, ge=1, description="Fewest replicas of the server.")
    max_replicas: int = Field(1, ge=1, description="Most replicas of the server.")
    cpus: float = Field(1.0, ge=0, description="CPUs of each replica.")
    gpus: float = Field(0.0, ge=0, description="GPUs of each replica, or a share of one.")
    tokens_per_replica: int = Field(
        8_192,
        ge=1,
        description="Tokens that wait or run for which there is one replica more. A smaller "
        "number starts replicas earlier.",
    )
    upscale_delay_seconds: float = Field(
        10.0, ge=0, description="Seconds that the load must last before replicas are started."
    )
    downscale_delay_seconds: float = Field(
        300.0, ge=0, description="Seconds without the load before replicas are ended."
    )

    @model_validator(mode="after")
    def _bounds(self) -> RayOptions:
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas={self.min_replicas} is above max_replicas={self.max_replicas}"
            )
        return self


def parse(
    arguments: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[Settings, RayOptions]:
    """Read `name=value` arguments: those of `RayOptions`, and settings by their field names.

    A setting that is not given is taken from `environment`, as by `elmo serve`.

    Raises:
        SettingsError: a name is unknown, or a value is not allowed.
    """
    own = {name: value for name, value in arguments.items() if name in RayOptions.model_fields}
    given = {name: str(value) for name, value in arguments.items() if name not in own}
    values = {name: environment.get(variable(name)) for name in Settings.model_fields}
    if given.keys() & {"model", "models"}:  # an argument for one replaces both variables
        values = {name: value for name, value in values.items() if name not in ("model", "models")}
    called = {name: name for name in given}
    try:
        return from_strings({**values, **given}, called), RayOptions.model_validate(own)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise SettingsError(
            *(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
        ) from None
