"""SKDS as a loss of JAX: the value and the gradient come from skds, everything else from JAX.

    python python/examples/jax_loss.py

Needs JAX. ``jax.pure_callback`` calls skds from compiled code, and ``jax.custom_vjp`` says what the gradient is.
"""

import jax
import jax.numpy as jnp
import numpy as np

import skds

jax.config.update("jax_enable_x64", True)

NAMES = ("weights", "biases", "log_noise")


def skds_loss(samples, **options):
    """SKDS of a linear drift on given samples, as a differentiable function of a dictionary of parameters."""

    def on_host(params):
        arrays = {name: np.asarray(params[name]) for name in NAMES}
        value, gradient = skds.loss(samples, arrays, **options)
        return np.float64(value), {name: gradient[name] for name in NAMES}

    def value_and_slopes(params):
        shapes = {name: jax.ShapeDtypeStruct(params[name].shape, jnp.float64) for name in NAMES}
        result = (jax.ShapeDtypeStruct((), jnp.float64), shapes)
        # With vmap, skds is called once for each set of parameters.
        return jax.pure_callback(on_host, result, params, vmap_method="sequential")

    @jax.custom_vjp
    def loss(params):
        return value_and_slopes(params)[0]

    def backward(slopes, upstream):
        return (jax.tree.map(lambda slope: upstream * slope, slopes),)

    # The gradient comes with the value, from closed forms: nothing is computed twice.
    loss.defvjp(value_and_slopes, backward)
    return loss


def main() -> None:
    # A linear diffusion with feedback: 5 variables, 500 samples at rest, standardised.
    system = skds.simulate(dim=5, rows=500, train_envs=1, test_envs=1, edges=1, seed=3)
    samples = system.train.x[system.train.env == 0]
    d = samples.shape[1]
    loss = skds_loss(samples, objective="skds", kernel="rbf", estimator="v", bandwidth=3.0)

    def smooth(free):
        # The speed of a diffusion does not change its stationary law: the diagonal stays at -1.
        weights = free["effects"] * (1 - jnp.eye(d)) - jnp.eye(d)
        return loss({"weights": weights, "biases": free["biases"], "log_noise": free["log_noise"]})

    def objective(free):
        # Anything differentiable can be added to the loss: here a lasso on the effects.
        value = smooth(free)
        return value + 1e-3 * jnp.abs(free["effects"]).sum(), value

    @jax.jit
    def adam(free, first, second, step):
        (_, value), slope = jax.value_and_grad(objective, has_aux=True)(free)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, slope)

        def moved(x, m, v):
            return x - 0.03 * (m / (1 - 0.9**step)) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8)

        return jax.tree.map(moved, free, first, second), first, second, value

    free = {"effects": jnp.zeros((d, d)), "biases": jnp.zeros(d), "log_noise": jnp.zeros(d)}
    first = second = jax.tree.map(jnp.zeros_like, free)
    for step in range(101):
        free, first, second, value = adam(free, first, second, step + 1)
        if step % 20 == 0:
            print(f"step {step:3d}: SKDS {value:.6f}")

    found = np.asarray(free["effects"] * (1 - jnp.eye(d)))
    target, source = np.unravel_index(np.abs(found).argmax(), found.shape)
    print(f"strongest effect: x{source} -> x{target}, {found[target, source]:+.3f}")


if __name__ == "__main__":
    main()
