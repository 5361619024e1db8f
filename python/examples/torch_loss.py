"""SKDS as a loss of PyTorch: the value and the gradient come from skds, the optimiser from PyTorch.

    python python/examples/torch_loss.py

Needs PyTorch. skds computes on the CPU in double precision, so the parameters are tensors in double precision on the CPU.
"""

import numpy as np
import torch
from torch.autograd.function import once_differentiable

import skds


class SkdsLoss(torch.autograd.Function):
    """SKDS of a linear drift on given samples, as a function of its parameters."""

    @staticmethod
    def forward(ctx, weights, biases, log_noise, samples, options):
        params = {"weights": weights, "biases": biases, "log_noise": log_noise}
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in params.items()}
        # The gradient comes with the value, from closed forms: nothing is computed twice.
        value, gradient = skds.loss(samples, arrays, **options)
        ctx.save_for_backward(*(torch.from_numpy(gradient[name]).to(weights) for name in params))
        return weights.new_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        # One gradient per argument of forward; samples and options have none.
        return *(upstream * slope for slope in ctx.saved_tensors), None, None


def main() -> None:
    # A linear diffusion with feedback: 5 variables, 500 samples at rest, standardised.
    system = skds.simulate(dim=5, rows=500, train_envs=1, test_envs=1, edges=1, seed=3)
    samples = system.train.x[system.train.env == 0]
    d = samples.shape[1]

    off_diagonal = torch.zeros(d, d, dtype=torch.float64, requires_grad=True)
    biases = torch.zeros(d, dtype=torch.float64, requires_grad=True)
    log_noise = torch.zeros(d, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([off_diagonal, biases, log_noise], lr=0.03)
    options = {"objective": "skds", "kernel": "rbf", "estimator": "v", "bandwidth": 3.0}
    eye = torch.eye(d, dtype=torch.float64)

    for step in range(101):
        # The speed of a diffusion does not change its stationary law: the diagonal stays at -1.
        weights = off_diagonal * (1 - eye) - eye
        loss = SkdsLoss.apply(weights, biases, log_noise, samples, options)
        if step % 20 == 0:
            print(f"step {step:3d}: SKDS {loss.item():.6f}")
        # Anything differentiable can be added to the loss: here a lasso on the effects.
        total = loss + 1e-3 * off_diagonal.abs().sum()
        optimiser.zero_grad()
        total.backward()
        optimiser.step()

    found = (off_diagonal.detach() * (1 - eye)).numpy()
    target, source = np.unravel_index(np.abs(found).argmax(), found.shape)
    print(f"strongest effect: x{source} -> x{target}, {found[target, source]:+.3f}")


if __name__ == "__main__":
    main()
