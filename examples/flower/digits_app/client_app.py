"""The clients: each trains and evaluates the model on digits of its own."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import Net, evaluate_model, load_data, train_model

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    model, (images, labels), _ = prepare(msg, context)
    loss = train_model(
        model,
        images,
        labels,
        epochs=context.run_config["local-epochs"],
        rate=msg.content["config"]["lr"],
        batch=context.run_config["batch-size"],
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(labels)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    model, _, (images, labels) = prepare(msg, context)
    loss, accuracy = evaluate_model(model, images, labels)
    metrics = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(labels)}
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)


def prepare(msg: Message, context: Context) -> tuple:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    config = context.node_config
    return model, *load_data(config["partition-id"], config["num-partitions"])
