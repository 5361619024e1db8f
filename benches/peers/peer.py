#!/usr/bin/env python3
"""The alternatives that a user has, in JAX, timed side by side with skds by `skds bench --peers`.

autodiff  both losses as their definitions read: nested derivatives of the kernel under vmap and jit
closed    SKDS with the RBF kernel by a formula without derivatives, under jit, with jax.grad for the parameters

Reads one JSON object a line from standard input and answers with one. `{"load": FILE, "id": ..., "peer": ..., "objective": ...,
"kernel": ..., "estimator": ..., "bandwidth": h}` compiles and compares with the value and gradients in FILE (npz: x, w, b, s, and
loss, grad_w, grad_b, grad_s); `{"run": id, "times": k}` evaluates value and gradients k times and answers with the seconds of each.
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def tilt(x):
    return 1.0 / jnp.sqrt(1.0 + x @ x)


def kernel_function(name, h):
    def rbf(x, y):
        r = x - y
        return jnp.exp(-(r @ r) / (2.0 * h * h))

    def imq(x, y):
        r = x - y
        return 1.0 / jnp.sqrt(1.0 + r @ r) + 1.0 + x @ y

    return {
        "rbf": rbf,
        "tilted-rbf": lambda x, y: tilt(x) * tilt(y) * rbf(x, y),
        "imq-plus": lambda x, y: tilt(x) * tilt(y) * imq(x, y),
    }[name]


def mean_over_pairs(term, x, estimator):
    """term(x, y) averaged over neighbouring rows, or over all pairs with (v) or without (u) equal ones."""
    if estimator == "linear":
        even = x.shape[0] // 2 * 2
        return jnp.mean(jax.vmap(term)(x[0:even:2], x[1:even:2]))
    n = x.shape[0]
    table = jax.vmap(lambda a: jax.vmap(lambda b: term(a, b))(x))(x)
    if estimator == "v":
        return jnp.mean(table)
    return (jnp.sum(table) - jnp.trace(table)) / (n * (n - 1))


def autodiff(objective, kernel, estimator, h):
    k = kernel_function(kernel, h)

    def loss(p, x):
        a = jnp.diag(jnp.exp(2.0 * p["s"]))
        drift = lambda z: p["w"] @ z + p["b"]

        def stein(u, v):
            """S applied to the first argument of k I, a vector."""
            return k(u, v) * drift(u) + 0.5 * a @ jax.grad(k, argnums=0)(u, v)

        def skds_term(u, v):
            jacobian = jax.jacfwd(lambda z: stein(u, z))(v)
            return drift(v) @ stein(u, v) + 0.5 * jnp.sum(a * jacobian.T)

        def generator(f, z):
            return drift(z) @ jax.grad(f)(z) + 0.5 * jnp.sum(a * jax.hessian(f)(z))

        def kds_term(u, v):
            return generator(lambda z: generator(lambda w: k(w, z), u), v)

        return mean_over_pairs(skds_term if objective == "skds" else kds_term, x, estimator)

    return loss


def closed(objective, kernel, estimator, h):
    if (objective, kernel) != ("skds", "rbf"):
        raise ValueError("closed has skds with rbf only")
    eta = 1.0 / (h * h)

    def loss(p, x):
        alpha = jnp.exp(2.0 * p["s"])
        b = x @ p["w"].T + p["b"]
        trace = jnp.sum(alpha * alpha)
        if estimator == "linear":
            even = x.shape[0] // 2 * 2
            r = x[0:even:2] - x[1:even:2]
            b0, b1 = b[0:even:2], b[1:even:2]
            ar = alpha * r
            inner = jnp.sum(b0 * b1, axis=1) + 0.5 * eta * jnp.sum(ar * (b0 - b1), axis=1)
            noise = 0.25 * eta * (trace - eta * jnp.sum(ar * ar, axis=1))
            return jnp.mean(jnp.exp(-0.5 * eta * jnp.sum(r * r, axis=1)) * (inner + noise))
        n = x.shape[0]
        ax = alpha * x
        gram = x @ x.T
        squares = jnp.diag(gram)
        weights = jnp.exp(-0.5 * eta * (squares[:, None] + squares[None, :] - 2.0 * gram))
        bax = b @ ax.T
        own = jnp.diag(bax)
        axax = ax @ ax.T
        lengths = jnp.diag(axax)
        table = weights * (
            b @ b.T
            + 0.5 * eta * (own[:, None] + own[None, :] - bax - bax.T)
            + 0.25 * eta * (trace - eta * (lengths[:, None] + lengths[None, :] - 2.0 * axax))
        )
        if estimator == "v":
            return jnp.mean(table)
        return (jnp.sum(table) - jnp.trace(table)) / (n * (n - 1))

    return loss


def relative(found, expected):
    scale = float(np.max(np.abs(expected)))
    return float(np.max(np.abs(np.asarray(found, dtype=np.float64) - expected))) / max(scale, 1e-30)


def load(order):
    file = np.load(order["load"])
    single = lambda name: jnp.asarray(file[name], dtype=jnp.float32)
    make = {"autodiff": autodiff, "closed": closed}[order["peer"]]
    loss = make(order["objective"], order["kernel"], order["estimator"], order["bandwidth"])
    parameters = {"w": single("w"), "b": single("b").reshape(-1), "s": single("s").reshape(-1)}
    x = single("x")
    function = jax.jit(jax.value_and_grad(loss))
    start = time.perf_counter()
    value, gradient = jax.block_until_ready(function(parameters, x))
    compiled = time.perf_counter() - start
    errors = [relative(value, file["loss"])]
    errors += [relative(gradient[name], file["grad_" + name].reshape(gradient[name].shape)) for name in ("w", "b", "s")]
    return (function, parameters, x), {"loss": float(value), "error": max(errors), "compile_seconds": compiled}


def run(function, parameters, x, times):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        jax.block_until_ready(function(parameters, x))
        seconds.append(time.perf_counter() - start)
    return seconds


def main():
    loaded = {}
    print(json.dumps({"jax": jax.__version__, "python": sys.version.split()[0], "device": str(jax.devices()[0])}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "load" in order:
                loaded[order["id"]], answer = load(order)
            elif "forget" in order:
                loaded.clear()
                answer = {}
            else:
                answer = {"seconds": run(*loaded[order["run"]], order["times"])}
        except Exception as error:  # whatever it is, the other side has to know
            answer = {"problem": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        print(json.dumps(answer), flush=True)


main()
