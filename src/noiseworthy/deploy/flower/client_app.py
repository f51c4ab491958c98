"""The Flower app of an owner's node: passes a message to the gateway and its reply back, and reads neither.

It imports as little as it can: where Flower starts a process for every message, each loads it anew.
"""

from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from noiseworthy.deploy.flower.envelope import APP_FAILED, NO_GATEWAY, enclosed, failed, opened
from noiseworthy.deploy.gateway.forwarding import forward
from noiseworthy.errors import GatewayError

app = ClientApp()


@app.query()
def pass_on(message: Message, context: Context) -> Message:
    """The gateway's reply, or one fixed sentence: the text of an error could tell of data.

    Args:
        message: that the server sent; nobody waits for a reply when its time to live is over.
        context: of the node, whose configuration names the gateway's `socket`.
    """
    return Message(_answer(message, context), reply_to=message)


def _answer(message: Message, context: Context) -> RecordDict:
    try:
        socket = Path(str(context.node_config["socket"]))
        return enclosed(forward(socket, opened(message), message.metadata.ttl))
    except GatewayError:
        return failed(NO_GATEWAY)
    except Exception:
        return failed(APP_FAILED)
