"""What AlterConfigs and IncrementalAlterConfigs share: authorize, try, alter, audit.

Configs of this broker that it could not use are refused: a certificate that cannot be read, a bad JAAS line.

The controller decides about configs, but only the broker itself has its files. So clients send the configs of
a broker to that broker, which tries them before it forwards the request (decision 280).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.api.support.audit_log import audit_config_change
from ottla.api.support.authorization import config_refusal, may
from ottla.api.support.context import RequestContext
from ottla.common.config.declaration import ConfigError
from ottla.controller.machine import (
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    altered_broker_config,
)
from ottla.metadata.records import ConfigResource
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest, KafkaError
from ottla.security.acls import ResourceType

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2 import AlterConfigsRequest
    from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest

    AnyRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest

CONFIG_APIS = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})


def alterations_of(request: AnyRequest) -> list[ConfigAlteration]:
    """Return what a request changes; AlterConfigs has no operations, it sets."""
    return [
        ConfigAlteration(
            each.resource_type,
            each.resource_name,
            tuple(
                ConfigChange(of.name, of.value, getattr(of, "config_operation", ConfigOperation.SET))
                for of in each.configs
            ),
        )
        for each in request.resources
    ]


def refusals(ctx: RequestContext, alterations: Sequence[ConfigAlteration]) -> list[KafkaError | None]:
    """Return the errors of what the client may not change, and of what this broker could not use."""
    return [
        config_refusal(ctx, each.resource_type, each.resource_name) or _unusable(ctx, each)
        for each in alterations
    ]


def check_before_forwarding(request: AnyRequest, ctx: RequestContext) -> None:
    """Raise the error of the first config of this broker that it could not use."""
    if not may(ctx, ResourceType.CLUSTER):
        return  # the controller refuses it
    for each in alterations_of(request):
        if (error := _unusable(ctx, each)) is not None:
            raise error


def _unusable(ctx: RequestContext, alteration: ConfigAlteration) -> KafkaError | None:
    services = ctx.services
    is_own = alteration.resource_name == str(services.node_id)
    if alteration.resource_type != ConfigResource.BROKER or not is_own:
        return None
    try:
        config = altered_broker_config(
            services.cluster.image,
            alteration,
            services.config,
            replacing=ctx.api_key == ApiKey.ALTER_CONFIGS,
        )
        services.check_config(config, [each.key for each in alteration.changes])
    except ConfigError as error:
        return InvalidRequest(str(error))
    except KafkaError:
        return None  # the controller says why
    return None


async def alter_authorized(
    ctx: RequestContext, alterations: Sequence[ConfigAlteration], *, validate_only: bool, replacing: bool
) -> list[KafkaError | None]:
    """Alter what the client may alter and the broker can use; return one error or None per alteration."""
    refused = refusals(ctx, alterations)
    allowed = [each for each, error in zip(alterations, refused, strict=True) if error is None]
    altered = await ctx.services.controller.active_controller.alter_configs(
        allowed, validate_only=validate_only, replacing=replacing
    )
    if not validate_only:
        for each, outcome in zip(allowed, altered, strict=True):
            audit_config_change(ctx, each, outcome)
    outcomes = iter(altered)
    return [next(outcomes) if error is None else error for error in refused]
