# %% [markdown]
# Protein signalling in single cells (Sachs et al. 2005): which protein acts on which, and can we predict an intervention?
#
#     python python/examples/sachs.py            # prints a report
#     python python/examples/sachs.py pictures   # also writes pictures to this folder
#
# The data is examples/data/sachs.npz, a file of the benchmark slachapelle/dcdi under the MIT licence; see
# examples/data/README.md. It has 1755 cells at rest, and 723 to 911 cells under each of five interventions.

# %%
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import skds

FILE = Path(__file__).resolve().parents[2] / "examples" / "data" / "sachs.npz"

#: What biologists agree on, (source, target): the network of Sachs et al. (2005), Figures 2 and 3. These are the effects that
#: they found and the literature knows, the three that they missed, and PIP3 -> PLCg, which they found reversed.
CONSENSUS = [
    ("PKC", "Raf"), ("PKC", "Mek"), ("PKC", "JNK"), ("PKC", "p38"), ("PKC", "PKA"),
    ("PKA", "Raf"), ("PKA", "Mek"), ("PKA", "Erk"), ("PKA", "Akt"), ("PKA", "JNK"), ("PKA", "p38"),
    ("Raf", "Mek"), ("Mek", "Erk"), ("Erk", "Akt"),
    ("PLCg", "PIP2"), ("PLCg", "PKC"), ("PIP2", "PKC"), ("PIP3", "PIP2"), ("PIP3", "PLCg"), ("PIP3", "Akt"),
]  # fmt: skip

# %% [markdown]
# The data: rows of cells, the environment of each cell, and the targets of each environment.

# %%
with np.load(FILE) as file:
    x, env, targets = file["x"], file["env"], file["targets"]
    names = [str(name) for name in file["names"]]
assert {name for edge in CONSENSUS for name in edge} == set(names)

# %% [markdown]
# The default fit compares several kinds of model by interventions that it leaves out. The intervals come from fits to 200
# resamples of the cells.

# %%
model = skds.StationaryDiffusion(seed=1, bootstrap=200).fit(x, env=env, targets=targets, names=names)
print("What the fit found")
for sentence in model.findings_:
    print(f"  {sentence}")

# %% [markdown]
# The strongest effects beside the consensus network. An interval says how far an effect depends on the sample of cells. It does
# not say whether the effect is causal: most intervals exclude 0, also those of effects that the consensus network does not have.


# %%
def judged(effect: pd.Series) -> str:
    """What the consensus network says about an effect."""
    edge = (effect["source"], effect["target"])
    return "yes" if edge in CONSENSUS else "reversed" if edge[::-1] in CONSENSUS else "no"


effects = model.effects_.assign(consensus=model.effects_.apply(judged, axis=1))
print("\nThe 10 strongest effects, with 95 % intervals, in the units of the data")
print(effects.head(10)[["source", "target", "strength", "low", "high", "consensus"]].round(2).to_string(index=False))
excluding = int(((effects["low"] > 0) | (effects["high"] < 0)).sum())
print(f"{excluding} of {len(effects)} intervals exclude 0. The consensus network has {len(CONSENSUS)} edges.")

share = len(CONSENSUS) / (len(names) * (len(names) - 1))
rows = []
for k in (5, 10, 15, 20):
    counts = effects.head(k)["consensus"].value_counts()
    directed = int(counts.get("yes", 0))
    rows.append((k, directed + int(counts.get("reversed", 0)), 2 * k * share, directed, k * share))
print("\nConsensus edges among the k strongest effects, beside what k random effects would give")
columns = ["k", "either direction", "by chance", "right direction", "by chance "]
print(pd.DataFrame(rows, columns=columns).to_string(index=False, float_format="{:.1f}".format))
k, found, _, right, _ = rows[-1]
print(f"Of the {found} effects in either direction among the first {k}, {right} point the right way. A coin gives {found / 2:g}.")

# %% [markdown]
# Now the test that counts. Each intervention is left out in turn. A model that was fitted without it predicts it from the cells
# at rest, given the target and the target's mean. The floor is no effect: the target moves, and nothing else.

# %%
scores = []
for left_out in range(1, len(targets)):
    rest = [k for k in range(len(targets)) if k != left_out]
    fitted = skds.StationaryDiffusion(seed=1).fit([x[env == k] for k in rest], targets=targets[rest], names=names)
    scores.append(fitted.evaluate([x[env == left_out]], targets=targets[[left_out]], names=names))
table = pd.concat(scores).pivot(index="perturbation", columns="method", values=["mse", "w2"])
print("\nEach intervention, predicted by a model that was fitted without it (standard deviations at rest)")
summary = pd.DataFrame(
    {
        "mse, no effect": table["mse", "no effect"],
        "mse, skds": table["mse", "skds"],
        "w2, no effect": table["w2", "no effect"],
        "w2, skds": table["w2", "skds"],
    }
)
print(summary.round(3).to_string())
for score in ("mse", "w2"):
    ratios = table[score, "skds"] / table[score, "no effect"]
    worse = ", ".join(ratios.index[ratios >= 1]) or "none"
    mean = np.exp(np.log(ratios).mean())
    print(f"{score}: {mean:.2f} times that of no effect (geometric mean of {len(ratios)}). Not better: {worse}.")
better = int((table["mse", "skds"] < table["mse", "no effect"]).sum())
print(f"By mse, {better} of {len(table)} interventions are predicted better than by no effect. So few can be chance.")

# %% [markdown]
# Pictures, if a folder is named.

# %%
if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model.plot_effects().save(folder / "effects.svg")
    model.plot_choice().save(folder / "choice.svg")
    print(f"\nThe pictures effects.svg and choice.svg are in {folder}.")
