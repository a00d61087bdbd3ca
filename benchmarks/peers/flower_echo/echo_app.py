"""Clients that send back the model at once; FedAvg notes when every round begins."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the model that came."""
    content = RecordDict(
        {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})}
    )
    return Message(content=content, reply_to=message)


class Timed(FedAvg):
    """FedAvg that notes when each round begins, and how many clients answered."""

    def __init__(self, clients: int) -> None:
        super().__init__(
            fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients
        )
        self.began, self.answers = [], []

    def configure_train(self, *given):
        self.began.append(time.time())
        return super().configure_train(*given)

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        self.answers.append(sum(not reply.has_error() for reply in replies))
        return super().aggregate_train(server_round, replies)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds and write down when each began."""
    config = context.run_config
    strategy = Timed(int(config["clients"]))
    first = ArrayRecord({"model": Array(np.zeros(int(config["numbers"]), dtype=np.float32))})
    strategy.start(grid=grid, initial_arrays=first, num_rounds=int(config["rounds"]))
    found = {"began": [*strategy.began, time.time()], "answers": strategy.answers}
    Path(str(config["out"])).write_text(json.dumps(found))
