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

    def message_bytes(self, size):  # a message is as long whatever is in it: plans count on that
        return 8 + 12 * max(1, int(self.share * size))

    def encode(self, update, state):
        whole = update + state
        kept = whole.abs().topk(max(1, int(self.share * len(whole)))).indices
        parts = (np.array([len(whole)]), kept.numpy(), whole[kept].float().numpy())
        message = b"".join(part.tobytes() for part in parts)
        return message, whole - self.decode(message)

    def decode(self, message):
        count = (len(message) - 8) // 12  # a place of 8 bytes and a value of 4 for each
        size, *places = np.frombuffer(message, np.int64, count + 1)
        update = np.zeros(size, np.float32)
        update[places] = np.frombuffer(message, np.float32, offset=8 * (count + 1))
        return torch.from_numpy(update)
