"""Tables of settings: the rules that read them, layers of them, and TOML text."""
