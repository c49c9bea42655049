import torch


def peak(x: torch.Tensor, dim: int):
    found = torch.max(x.float(), dim=dim, keepdim=True)
    return found.values.to(x.dtype), found.indices


def peak_oracle(x: torch.Tensor, dim: int):
    return tuple(torch.max(x, dim=dim, keepdim=True))
