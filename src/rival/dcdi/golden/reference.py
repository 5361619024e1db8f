"""Writes networks.json: networks, rows and their log densities, in float64 with numpy alone."""

import json

import numpy as np


def problem(rng, d, hidden, layers, rows):
    first = rng.uniform(-1, 1, (d, hidden, d)) * (rng.uniform(size=(d, 1, d)) < 0.6)
    first[np.arange(d), :, np.arange(d)] = 0
    first_biases = rng.uniform(-1, 1, (d, hidden))
    inner = [(rng.uniform(-1, 1, (d, hidden, hidden)), rng.uniform(-1, 1, (d, hidden))) for _ in range(layers - 1)]
    mean = rng.uniform(-1, 1, (d, hidden)), rng.uniform(-1, 1, d)
    scale = 0.3 * rng.uniform(-1, 1, (d, hidden)), rng.uniform(-1, 1, d)
    x = rng.standard_normal((rows, d))
    units = np.einsum("jki,si->sjk", first, x) + first_biases
    units = np.where(units > 0, units, 0.01 * units)
    for weights, biases in inner:
        units = np.einsum("jkl,sjl->sjk", weights, units) + biases
        units = np.where(units > 0, units, 0.01 * units)
    means = np.einsum("jk,sjk->sj", mean[0], units) + mean[1]
    deviations = np.exp(np.einsum("jk,sjk->sj", scale[0], units) + scale[1])
    densities = np.log(np.exp(-((x - means) ** 2) / (2 * deviations**2)) / (deviations * np.sqrt(2 * np.pi)))
    flat = lambda a: a.ravel().tolist()
    return dict(
        d=d, hidden=hidden, first_weights=flat(first), first_biases=flat(first_biases),
        inner=[(flat(w), flat(b)) for w, b in inner], mean_weights=flat(mean[0]), mean_biases=flat(mean[1]),
        scale_weights=flat(scale[0]), scale_biases=flat(scale[1]), x=flat(x), log_densities=flat(densities),
    )


rng = np.random.default_rng(1)
networks = [problem(rng, 3, 4, 1, 10), problem(rng, 4, 8, 2, 10), problem(rng, 5, 3, 3, 10)]
assert all(np.isfinite(n["log_densities"]).all() for n in networks)
with open("networks.json", "w") as file:
    json.dump(dict(networks=networks), file)
