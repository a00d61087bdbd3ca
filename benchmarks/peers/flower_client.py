"""What a Flower client does: plain torch training on the job's batches of its device."""

from __future__ import annotations

from functools import lru_cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from job import LeNet5, load_job
from torch.nn import functional as fn

client = ClientApp()


@lru_cache(maxsize=1)
def worker_model(path: str, dtype: str, channels_last: bool) -> LeNet5:
    """One model a worker: making it anew for each device would only cost time."""
    model = load_job(path, dtype).model()
    return model.to(memory_format=torch.channels_last) if channels_last else model


@client.train()
def train(message: Message, context: Context) -> Message:
    """The device's model after its local steps."""
    config = message.content["config"]
    job = load_job(config["job"], config["dtype"])
    model = worker_model(config["job"], config["dtype"], config["channels-last"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    inputs, labels = job.samples(context.node_config["partition-id"])
    if config["channels-last"]:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), job.learning_rate, job.momentum)
    for x, y in zip(inputs.split(job.batch_size), labels.split(job.batch_size), strict=True):
        optimiser.zero_grad()
        fn.cross_entropy(model(x), y).backward()
        optimiser.step()
    metrics = {"num-examples": len(labels), "threads": torch.get_num_threads()}
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(RecordDict(content), reply_to=message)
