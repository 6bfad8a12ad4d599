from typing import Any

import pytest
from kio.schema.create_acls.v3 import CreateAclsRequest
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.delete_acls.v3 import DeleteAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter
from kio.schema.describe_acls.v3 import DescribeAclsRequest
from kio.schema.errors import ErrorCode

TOPIC, READ, ALLOW = 2, 3, 3


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_without_an_authorizer_acls_are_refused_one_by_one(bench: Any, version: int) -> None:
    creation: Any = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "principal": "User:a",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    any_acl: Any = {
        "resource_type_filter": TOPIC,
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "operation": READ,
        "permission_type": ALLOW,
    }
    described = await bench.ask(DescribeAclsRequest(**any_acl), version)
    created = await bench.ask(CreateAclsRequest(creations=(AclCreation(**creation),) * 2), version)
    deleted = await bench.ask(DeleteAclsRequest(filters=(DeleteAclsFilter(**any_acl),)), version)
    assert (len(created.results), len(deleted.filter_results)) == (2, 1)
    for each in (described, *created.results, *deleted.filter_results):
        assert each.error_code is ErrorCode.security_disabled
        assert each.error_message == "No Authorizer is configured."
