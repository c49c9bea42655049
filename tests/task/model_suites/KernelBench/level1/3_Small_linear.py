import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A linear layer, scaled.
    """

    def __init__(self, in_features, out_features, scale):
        super(Model, self).__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor, power: int) -> torch.Tensor:
        return (self.linear(x) * self.scale) ** power


batch = 6
in_features = 5
out_features = 4


def get_inputs():
    return [torch.rand(batch, in_features), 2]


def get_init_inputs():
    return [in_features, out_features, 0.5]
