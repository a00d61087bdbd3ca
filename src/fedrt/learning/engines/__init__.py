"""Engines: who carries out local training, one device after the other or many at once."""
