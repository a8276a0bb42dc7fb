"""An idempotent producer's identity and the sequence numbers of its partitions (KIP-98, KIP-360)."""

from __future__ import annotations

LAST_EPOCH = 2**15 - 1
SEQUENCES = 2**31


class Sequences:
    """``producer_id`` -1: one is to be had from InitProducerId."""

    def __init__(self) -> None:
        self.producer_id, self.epoch = -1, -1
        self._next: dict[tuple[str, int], tuple[int, int, int]] = {}  # producer id, epoch and number, by partition

    def identify(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch

    def take(self, partition: tuple[str, int], count: int) -> int:
        """The number of a batch of ``count`` records; a partition begins at 0 under every producer id and epoch."""
        producer_id, epoch, number = self._next.get(partition, (-1, -1, 0))
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            number = 0
        self._next[partition] = (self.producer_id, self.epoch, (number + count) % SEQUENCES)
        return number

    def lost(self) -> None:
        """A batch with a number is lost, so that its partition cannot go on after it: the producer goes on under its next
        epoch, or after the last one under another id. The broker is not asked for the epoch: it answers InitProducerId
        without transactional id with a new producer id, whatever the request names."""
        if self.epoch == LAST_EPOCH:
            self.identify(-1, -1)
        else:
            self.epoch += 1
