"""The machinery of the part `acls`, with a second coterie in Kafka's place: alike it has no difference, and one that
obeys no ACL is found out."""

from __future__ import annotations

import asyncio

from coterie.wire.apis import APIS
from coterie_conformance.access.run import STANDARD, ask, our_broker
from coterie_conformance.access.stories import NEEDS, cases
from coterie_conformance.everything.judge import JudgeResult, common_versions

QUESTIONS, FEW_QUESTIONS = 400, 60
AUTHORIZED = {
    "authorizer.class.name": STANDARD,
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
}


def compared(theirs: dict[str, str], questions: int) -> JudgeResult:
    async def story() -> JudgeResult:
        async with our_broker(AUTHORIZED) as one, our_broker(AUTHORIZED | theirs) as other:
            assert {case.api for case in cases(await common_versions((one.address, other.address)))} == NEEDS.keys()
            return await ask(one, other, (4, 3, 0), (questions, 1), lambda line: None)

    return asyncio.run(story())


def test_two_of_a_kind_have_no_difference() -> None:
    verdict = compared({}, QUESTIONS)
    assert verdict.requested >= QUESTIONS
    assert not verdict.kinds


def test_one_that_allows_what_no_acl_is_about_is_different() -> None:
    assert compared({"allow.everyone.if.no.acl.found": "true"}, FEW_QUESTIONS).kinds


def test_requests_about_acls_name_their_user() -> None:
    """A DeleteAcls that names none had an entry of a story beside it, which Kafka's side had removed already."""
    common = {api.name: api.advertised for api in APIS.values()}
    asked = [
        question.body
        for case in cases(common)
        if case.api in ("DescribeAcls", "DeleteAcls")
        for question in case.story("user9", common).questions
        if question.name.startswith("ask")
    ]
    patterns = [pattern for body in asked for pattern in body.get("filters", [body])]
    assert {pattern["principal_filter"] for pattern in patterns} == {"User:user9"}
