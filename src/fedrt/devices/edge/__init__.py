"""The edge server: holds its model, orders its devices, averages, and gossips with neighbours."""
