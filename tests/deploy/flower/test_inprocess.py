"""The grid in this process carries what the wire carries, and fails where the wire fails."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from in_process_grid import InProcessGrid, over_the_wire


@pytest.fixture
def app():
    app, seen = ClientApp(), []

    @app.train()
    def train(message, context):
        seen.append(message)
        calls = int(context.state.get("calls", ConfigRecord({"n": 0}))["n"]) + 1
        context.state["calls"] = ConfigRecord({"n": calls})
        return Message(
            RecordDict({"calls": ConfigRecord({"n": calls, "id": context.node_id})}), reply_to=message
        )

    @app.query()
    def broken(message, context):
        raise ArithmeticError("inside")

    app.seen = seen
    return app


def test_arrays_arrive_equal_and_are_not_the_senders(app):
    grid = InProcessGrid(app, {4: {}})
    array = np.linspace(0, 1, 7, dtype=np.float32).reshape(7, 1)
    content = RecordDict({"model": ArrayRecord([array])})
    grid.push_messages([Message(content, 4, "train")])
    (received,) = app.seen
    (taken,) = received.content["model"].to_numpy_ndarrays()
    assert received.content is not content
    assert taken.dtype == np.float32
    np.testing.assert_array_equal(taken, array)
    array[0] = 9
    assert received.content["model"].to_numpy_ndarrays()[0][0, 0] == 0


def test_a_message_keeps_its_addresses_and_gets_an_id(app):
    grid = InProcessGrid(app, {4: {}})
    sent = Message(RecordDict(), 4, "train", ttl=12.0, group_id="round 3")
    (name,) = grid.push_messages([sent])
    (received,) = app.seen
    assert received.metadata.message_id == name != ""
    assert (received.metadata.dst_node_id, received.metadata.ttl) == (4, 12.0)
    assert received.metadata.group_id == "round 3"


def test_replies_are_taken_once_by_the_id_of_their_message(app):
    grid = InProcessGrid(app, {4: {}, 5: {}})
    names = grid.push_messages([Message(RecordDict(), node, "train") for node in (4, 5)])
    (second,) = grid.pull_messages([names[1]])
    assert second.metadata.reply_to_message_id == names[1]
    assert second.content["calls"]["id"] == 5
    assert [reply.content["calls"]["id"] for reply in grid.pull_messages(names)] == [4]
    assert grid.pull_messages(names) == []


def test_each_node_remembers_its_own_calls(app):
    grid = InProcessGrid(app, {4: {}, 5: {}})
    replies = [
        reply.content["calls"]["n"]
        for node in (4, 4, 5)
        for reply in grid.send_and_receive([Message(RecordDict(), node, "train")])
    ]
    assert replies == [1, 2, 1]


def test_an_app_that_raises_is_answered_for_as_by_flower(app):
    (reply,) = InProcessGrid(app, {4: {}}).send_and_receive([Message(RecordDict(), 4, "query")])
    assert reply.error.code == 2
    assert "inside" in reply.error.reason


def test_a_node_that_is_not_there_is_unavailable(app):
    (reply,) = InProcessGrid(app, {4: {}}).send_and_receive([Message(RecordDict(), 9, "train")])
    assert reply.error.code == 5


def test_the_wire_has_no_place_for_objects():
    """A grid that passed them on would hide what a real one refuses."""
    with pytest.raises(TypeError):
        over_the_wire(Message(RecordDict({"x": ConfigRecord({"data": object()})}), 1, "train"))  # type: ignore
