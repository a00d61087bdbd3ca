"""The app of `digits_app` as it is, with FedRT's plans for its clients."""

from pathlib import Path

from digits_app.client_app import app as client_app
from digits_app.server_app import app as server_app

from fedrt.flower import with_plans, with_reports

server = with_plans(server_app, Path(__file__).with_name("fleet.json"))
client = with_reports(client_app)
