"""Feature levels: what ApiVersions names, and what UpdateFeatures may set."""

from __future__ import annotations

import pytest

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.test_server import broker, run

BAD_LEVEL = ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (3, {"metadata.version": (7, 30)}),  # a minimum of 0 breaks clients that know no newer version
        (4, {"metadata.version": (7, 30), "group.version": (0, 1), "transaction.version": (0, 0)}),
    ],
)
def test_api_versions_names_the_features(version: int, supported: dict[str, tuple[int, int]]) -> None:
    async def story() -> None:
        async with broker() as connect:
            answer = await (await connect()).ask(ApiVersionsRequest("x", "1"), ApiVersionsResponse, version)
            assert {f.name: (f.min_version, f.max_version) for f in answer.supported_features} == supported
            finalized = [(f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features]
            assert finalized == [("group.version", 1, 1), ("metadata.version", 30, 30)]
            assert answer.finalized_features_epoch == 0

    run(story)


@pytest.mark.parametrize("name", ["", "a b", "a-", "A_b"])
def test_client_software_has_a_plain_name(name: str) -> None:
    async def story() -> None:
        async with broker() as connect:
            client = await connect()
            for request in (ApiVersionsRequest(name, "1"), ApiVersionsRequest("x", name)):
                answer = await client.ask(request, ApiVersionsResponse, 3)
                assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])

    run(story)


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
UPDATES = [
    ("metadata.version", 30, UPGRADE, ErrorCode.NONE),
    ("group.version", 1, UPGRADE, ErrorCode.NONE),
    ("group.version", 0, SAFE_DOWNGRADE, BAD_LEVEL),
    ("group.version", 2, UPGRADE, BAD_LEVEL),
    ("group.version", -1, UPGRADE, BAD_LEVEL),
    ("transaction.version", 2, UPGRADE, BAD_LEVEL),
    ("metadata.version", 29, UPGRADE, BAD_LEVEL),
    ("metadata.version", 29, SAFE_DOWNGRADE, BAD_LEVEL),
    ("metadata.version", 29, UNSAFE_DOWNGRADE, BAD_LEVEL),
    ("metadata.version", 31, UPGRADE, BAD_LEVEL),
    ("metadata.version", 30, 9, BAD_LEVEL),
    ("nobody.version", 1, UPGRADE, BAD_LEVEL),
]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("name", "level", "upgrade_type", "code"), UPDATES)
def test_a_level_may_only_be_set_to_what_it_is(
    version: int, name: str, level: int, upgrade_type: int, code: ErrorCode
) -> None:
    if version == 0 and upgrade_type == 9:
        return  # v0 knows only whether a downgrade is allowed

    async def story() -> None:
        async with broker() as connect:
            update = FeatureUpdateKey(name, level, upgrade_type != UPGRADE, upgrade_type)
            answer = await (await connect()).ask(UpdateFeaturesRequest(1000, [update]), UpdateFeaturesResponse, version)
            assert answer.error_code == code
            expected = [] if code or version >= 2 else [name]
            assert [(r.feature, r.error_code) for r in answer.results] == [(n, 0) for n in expected]

    run(story)
