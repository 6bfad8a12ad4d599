from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.update_features import v1, v2
from kio.schema.update_features.v1.request import FeatureUpdateKey as OldUpdate
from kio.schema.update_features.v2.request import FeatureUpdateKey

REFUSED = [("transaction.version", 1), ("transaction.version", 9), ("metadata.version", 25)]


async def ask(bench: Any, *updates: tuple[str, int]) -> Any:
    keys: Any = tuple(FeatureUpdateKey(feature=name, max_version_level=level) for name, level in updates)  # type: ignore[arg-type]
    return await bench.ask(v2.UpdateFeaturesRequest(feature_updates=keys))


async def test_the_level_in_use_is_accepted_and_others_are_refused(bench: Any) -> None:
    assert (await ask(bench, ("transaction.version", 2), ("group.version", 1))).error_code is ErrorCode.none
    for update in REFUSED:
        answer = await ask(bench, ("group.version", 1), update)
        assert answer.error_code is ErrorCode.invalid_update_version
        assert update[0] in answer.error_message
    for updates in ((), (("group.version", 1), ("group.version", 1))):
        assert (await ask(bench, *updates)).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", [0, 1])
async def test_old_versions_are_answered_feature_by_feature(bench: Any, version: int) -> None:
    updates = (("group.version", 1), *REFUSED[:1])
    keys: Any = tuple(OldUpdate(feature=name, max_version_level=level) for name, level in updates)  # type: ignore[arg-type]
    answer = await bench.ask(v1.UpdateFeaturesRequest(feature_updates=keys), version)
    assert answer.error_code is ErrorCode.none
    assert [(each.feature, each.error_code) for each in answer.results] == [
        ("group.version", ErrorCode.none),
        ("transaction.version", ErrorCode.invalid_update_version),
    ]
