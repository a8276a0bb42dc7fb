"""Leader epochs of batches, which no CRC covers: which are wrong, and what is right.

They rise from batch to batch, and `epoch_checkpoint` names them all; only an earlier coterie stamped 0 behind Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from coterie.log.epochs.epoch_checkpoint import read_epochs
from coterie.log.files.filesystem import FileSystem

OWN_EPOCH = 0  # the first, and of all batches of an earlier coterie
_NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """``recorded``: the epochs in the log's checkpoint; none where there is no file, None where it cannot be read. A recorded
    epoch that fits between those beside it is not seen to be wrong, nor is one before all of these: the checkpoint has none of
    what was deleted at the log's beginning, which its first segment may have. ``highest``: the last one in which the partition
    was led, so far as that is known apart from the log."""

    recorded: frozenset[int] | None = frozenset()
    highest: int = OWN_EPOCH

    @classmethod
    def of_log(
        cls,
        fs: FileSystem,
        directory: str,
        names: Container[str],
        highest: int = OWN_EPOCH,
        *,
        is_replica: bool = False,
    ) -> LeaderEpochs:
        """``names``: of the files in the directory. The batches of ``is_replica`` may have any epoch where there is no file.
        Raises OSError."""
        entries = read_epochs(fs, directory, names)
        if entries is None or (is_replica and not entries):
            return cls(None, highest)
        return cls(frozenset(entry.epoch for entry in entries), highest)

    def is_wrong(self, before: int | None, epoch: int, after: int | None) -> bool:
        """Whether a batch cannot have that epoch, or contradicts the batches beside it, which do not contradict each other."""
        if epoch in (before, after) and epoch >= _NO_EPOCH:
            return False
        if not self._is_known(epoch):
            return True
        if before is None or after is None:
            return False
        if before == after:
            return not (before == OWN_EPOCH and self.recorded is not None)  # one batch of Kafka's between two of ours
        if before < after:
            return epoch != OWN_EPOCH and not before < epoch < after
        return after == OWN_EPOCH and OWN_EPOCH < epoch < before

    def corrected(self, epochs: Sequence[int]) -> dict[int, int]:
        """The right epochs of batches in order, by number, where they are wrong: that of the batch before, or else behind."""
        right = list(epochs)
        for number, epoch in enumerate(epochs):
            before = right[number - 1] if number else None
            after = epochs[number + 1] if number + 1 < len(epochs) else None
            if self.is_wrong(before, epoch, after):
                beside = [e for e in (before, after) if e is not None and self._is_known(e)]
                right[number] = beside[0] if beside else max(self.recorded or (), default=OWN_EPOCH)
        return {number: epoch for number, epoch in enumerate(right) if epoch != epochs[number]}

    def _is_known(self, epoch: int) -> bool:
        if epoch <= OWN_EPOCH:
            return epoch >= _NO_EPOCH
        if self.recorded is None or epoch in self.recorded or epoch <= self.highest:
            return True
        return epoch < min(self.recorded, default=OWN_EPOCH)
