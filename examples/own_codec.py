"""An update codec of your own: the greatest changes are sent, the rest waits its turn.
cd examples && fedrt run --set learning.upload=own_codec:TopK
"""

import numpy as np
import torch


class TopK:
    """The share of an update that changed most; what was left out is added to the next one."""

    def __init__(self, share=0.1):
        self.share = share

    def init(self, size):  # what each device remembers from one message to the next
        return torch.zeros(size)

    def message_bytes(self, size):  # of every message, whatever is in it: plans count on it
        return 8 + 12 * max(1, int(self.share * size))  # a place of 8 bytes and a value of 4

    def encode(self, update, state):
        whole = update + state
        kept = whole.abs().topk(self.message_bytes(len(whole)) // 12).indices
        parts = (np.array([len(whole)]), kept.numpy(), whole[kept].float().numpy())
        message = b"".join(part.tobytes() for part in parts)
        return message, whole - self.decode(message)

    def decode(self, message):
        size, *places = np.frombuffer(message, np.int64, len(message) // 12 + 1)
        update = np.zeros(size, np.float32)
        update[places] = np.frombuffer(message, np.float32)[-len(places) :]
        return torch.from_numpy(update)
