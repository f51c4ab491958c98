"""A Flower grid whose nodes are calls in this process, for tests and examples: same apps, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

NodeConfig = Mapping[str, str | int | float | bool]


@dataclass
class InProcessGrid(Grid):
    """Nodes that answer when a message is pushed.

    Messages are taken apart into bytes and put together again, as they are on the wire. An app that raises
    is answered for as Flower does: an error with code 2.

    Attributes:
        app: of all nodes.
        nodes: configuration of each node, by id.
        run_config: that every node sees.
        keys: public key of each node, by id, as a superlink knows it.

    Example:
        >>> from flwr.app import ConfigRecord
        >>> app = ClientApp()
        >>> @app.query()
        ... def say(message, context):
        ...     return Message(
        ...         RecordDict({"said": ConfigRecord({"word": context.node_config["word"]})}),
        ...         reply_to=message,
        ...     )
        >>> grid = InProcessGrid(app, {7: {"word": "aye"}})
        >>> (sent,) = grid.push_messages([Message(RecordDict(), 7, "query")])
        >>> [reply.content["said"]["word"] for reply in grid.pull_messages([sent])]
        ['aye']
    """

    app: ClientApp
    nodes: Mapping[int, NodeConfig]
    run_config: NodeConfig = field(default_factory=dict)
    keys: Mapping[int, bytes] = field(default_factory=dict)
    _contexts: dict[int, Context] = field(default_factory=dict)
    _replies: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self):
        # Flower lets messages be made only inside a process that belongs to a run
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def get_node_ids(self) -> list[int]:
        """Nodes that are there."""
        return list(self.nodes)

    def get_nodes(self) -> list[NodeInfo]:
        """Nodes that are there, with their keys."""
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Have each message answered by its node; ids of the messages."""
        received = [over_the_wire(message) for message in messages]
        for message in received:
            self._replies[message.metadata.message_id] = over_the_wire(self._answered(message))
        return [message.metadata.message_id for message in received]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies to messages, each once."""
        return [self._replies.pop(asked) for asked in message_ids if asked in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push messages and pull their replies."""
        return self.pull_messages(self.push_messages(messages))

    def create_message(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused: Flower has given it up, too."""
        raise NotImplementedError("a grid makes no messages; call flwr.app.Message")

    def set_run(self, run: Run) -> None:
        """Nothing: all messages belong to one run."""

    @property
    def run(self) -> Run:
        """The one run."""
        return Run.create_empty(TaskIdentity.run_id)

    def _answered(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if node not in self.nodes:
            return Message(Error(ErrorCode.NODE_UNAVAILABLE), reply_to=message)
        try:
            return self.app(message, self._context(node))
        except Exception as error:
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)

    def _context(self, node: int) -> Context:
        fresh = Context(1, node, dict(self.nodes[node]), RecordDict(), dict(self.run_config))
        return self._contexts.setdefault(node, fresh)


def over_the_wire(message: Message) -> Message:
    """A message made of its own bytes alone, with the id that the wire gives it."""
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    name = message.object_id
    received = cast(Message, inflate_object_from_contents(name, contents))
    received.metadata.__dict__["_message_id"] = name
    return received
