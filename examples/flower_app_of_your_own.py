"""A Flower app of your own whose updates leave noised and paid for: which digits are even?

A hundred owners, in one process, each hide all of their 14 digits from the server and each other (epsilon 8).
"""

import logging
import tempfile
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from sklearn.datasets import load_digits

from in_process_grid import InProcessGrid
from noiseworthy.deploy.flower.mod import pay_and_noise

OWNERS, ROUNDS = 100, 2
images, labels = load_digits(return_X_y=True)
halves = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16  # 4 x 4 pixels
features, even = np.hstack([halves - 0.3, np.ones((len(halves), 1))]), np.eye(2)[labels % 2]
train, test = np.arange(1440), np.arange(1440, len(labels))

app = ClientApp(mods=[pay_and_noise])  # the one line that is new


@app.train()
def fit(message, context):
    """Ten steps on the owner's own digits, as anybody would write them."""
    mine = train[context.node_id - 1 :: OWNERS]
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    for _ in range(10):
        scores = features[mine] @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        wrong = odds / odds.sum(axis=1, keepdims=True) - even[mine]
        weights = weights - 2.0 * features[mine].T @ wrong / len(mine)
    return Message(RecordDict({"arrays": ArrayRecord([weights])}), reply_to=message)


def accuracy(weights):
    return np.mean(np.argmax(features[test] @ weights, axis=1) == labels[test] % 2)


with tempfile.TemporaryDirectory() as folder:
    nodes = {}
    for owner in range(1, OWNERS + 1):
        terms = Path(folder) / f"owner {owner}.toml"  # every owner writes its own
        terms.write_text(
            f'client = "owner {owner}"\ndata_set = "digits"\nledger = "owner {owner}.sqlite"\n'
            'mechanism = "gaussian"\nepsilon = 8.0\ndelta = 1e-5\nclip_norm = 1.0\nnoise = 1.7\n'
        )
        nodes[owner] = {"terms": str(terms)}
    logging.getLogger("flwr").setLevel(logging.WARNING)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=OWNERS, min_available_nodes=OWNERS)
    start = ArrayRecord([np.zeros((17, 2))])
    result = strategy.start(InProcessGrid(app, nodes), start, num_rounds=ROUNDS + 1)

(weights,) = result.arrays.to_numpy_ndarrays()
print(f"test accuracy {accuracy(weights):.2f} after {ROUNDS} rounds; the third was refused, its budget spent")
