"""Files, processes, signals and users' own code: what FedRT needs of the machine it runs on."""
