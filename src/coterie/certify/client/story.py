"""A story: what happens to a client, as lines of text. `actions` has what a line may begin with."""

from __future__ import annotations

from dataclasses import dataclass

CONSUMER, PRODUCER = "consumer", "producer"
# The word a step begins with -> its arguments, and what it does.
ACTIONS: dict[str, tuple[str, str]] = {
    "start": ("N", "process N starts"),
    "kill": ("N", "process N is killed (SIGKILL)"),
    "stop": ("N", "process N receives SIGTERM"),
    "freeze": ("N", "process N stands still (SIGSTOP)"),
    "thaw": ("N", "process N goes on"),
    "bury": ("", "members of the group that send nothing are removed, as by their session timeout"),
    "forget": ("", "member ids that no client has used are removed, as by their session timeout"),
    "expire": ("", "every member of the group is removed, without a notice before"),
    "joined": ("MEMBERS", "the group has so many members"),
    "companion": ("PROTOCOL", "another consumer joins the group, by that protocol"),
    "dismiss": ("", "that consumer leaves"),
    "read": ("RECORDS", "so many more records are processed, or acknowledged"),
    "wait": ("SECONDS", "time passes"),
    "fail": ("API CODE TIMES", "the next requests are answered with that error"),
    "lose": ("API", "the next request is carried out, its response is lost, and its connection closes"),
    "delay": ("API MS TIMES", "the responses to the next requests are late"),
    "cut": ("API TIMES", "the next requests are not carried out, and their connections close"),
    "drop": ("", "every connection closes"),
    "move": ("", "the group has another coordinator"),
    "trim": ("", "all records but the last few are deleted from the start of the log"),
    "grow": ("PARTITIONS", "the topic has more partitions"),
    "transaction": ("END", "records of a transaction that commits or aborts"),
    "large": ("", "one record larger than what a fetch requests"),
    "silence": ("", "nothing more is produced"),
    "speak": ("", "records are produced again"),
    "elect": ("", "another broker leads each partition"),
    "crash": ("ROLE", "the broker that is leader or coordinator is killed"),
    "revive": ("", "that broker starts again"),
    "pause": ("ROLE", "the broker that is leader or coordinator stands still"),
    "resume": ("", "that broker goes on"),
}


@dataclass(frozen=True, slots=True)
class ClientStory:
    """``steps``: an action with its arguments each. Before them ``processes`` processes have started and read (or written)
    a bit, and after them the client must come to the end of what there is."""

    name: str
    text: str
    steps: tuple[str, ...] = ()
    processes: int = 1
    partitions: int = 2
    brokers: int = 1
    role: str = CONSUMER

    def actions(self) -> list[tuple[str, list[str]]]:
        """Each step's action and arguments. Raises ValueError for a wrong one."""
        taken = []
        for step in self.steps:
            action, *arguments = step.split()
            if action not in ACTIONS or len(arguments) != len(ACTIONS[action][0].split()):
                raise ValueError(f"the story {self.name} has the step {step!r}, which is none of {', '.join(ACTIONS)}")
            taken.append((action, arguments))
        return taken
