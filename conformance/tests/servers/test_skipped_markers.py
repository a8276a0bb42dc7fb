"""What Kafka 4.4.0 wrote to its log when its coordinator took partitions without a leader for deleted ones."""

from __future__ import annotations

from coterie_conformance.servers.skipped_markers import explanation, skipped_markers

MANAGER = "[transaction-log-manager-0] INFO kafka.coordinator.transaction.TransactionMarkerChannelManager - "


def skipped(transaction: str) -> str:
    partitions = "Set(__consumer_offsets-0, words-repartition-1)"
    return (
        f"{MANAGER}[Transaction Marker Channel Manager 1]: Couldn't find leader endpoint for partitions {partitions} while"
        f" trying to send transaction markers for {transaction}, these partitions are likely deleted already and hence can be"
        " skipped\n"
    )


def not_completed(transaction: str) -> str:
    return (
        f"{MANAGER}[Transaction Marker Channel Manager 1]: No longer the coordinator for transactionalId: {transaction} while"
        " trying to append to transaction log, skip writing to transaction log\n"
    )


def test_markers_are_lost_where_the_completed_state_is_written() -> None:
    log = skipped("a-1") + not_completed("a-1") + skipped("a-2") + not_completed("b-1")
    assert skipped_markers(log) == 1
    assert skipped_markers(log + skipped("a-1")) == 2


def test_nothing_to_explain() -> None:
    log = skipped("a-1") + not_completed("a-1") + f"{MANAGER}Creating new marker queue map to destination broker 1\n"
    assert explanation(skipped_markers(log)) == ""
    assert "2 transactions" in explanation(2)
