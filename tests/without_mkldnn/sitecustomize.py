"""Every Python process that finds this folder on its path trains without mkldnn.

torch has a switch for it but no environment variable, and tests start processes of their own.
`tools/other_processors.sh` puts the folder on PYTHONPATH; torch itself is loaded by nobody but
those who import it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys

NAME = "torch.backends.mkldnn"


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        sys.modules[NAME].enabled = False


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader)
        return found


sys.meta_path.insert(0, _Finder())
