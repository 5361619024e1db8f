"""What a model answers, as data frames and AnnData."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

#: Methods of predictions, as tables name them.
ANCHORED, LAW, NO_EFFECT, ADDITIVE = "skds", "skds, samples of its law", "no effect", "additive"


def effects(model: Any) -> pd.DataFrame:
    """The effects of a model, strongest first."""
    columns = ["source", "target", "strength", "standard", "low", "high", "in_members", "members"]
    frame = pd.DataFrame(model.effects(), columns=columns)
    numbers = ["strength", "standard", "low", "high"]
    frame[numbers] = frame[numbers].astype(float)
    frame[["in_members", "members"]] = frame[["in_members", "members"]].astype("Int64")
    return frame[["source", "target", "strength", "low", "high", "standard", "in_members", "members"]]


def levels(names: list[str], levels: list[list[dict[str, Any]]]) -> pd.DataFrame:
    """The mean that each target of each prediction reaches."""
    rows = [{"prediction": name, **level} for name, reached in zip(names, levels) for level in reached]
    return pd.DataFrame(rows, columns=["prediction", "variable", "mean", "observed"])


def to_anndata(values: Any, names: list[str], labels: Any, origin: list[str], genes: list[str], levels: pd.DataFrame) -> Any:
    """Moved cells, one group per prediction."""
    import anndata

    obs = pd.DataFrame(
        {
            "prediction": pd.Categorical.from_codes(labels, names),
            "cell": np.tile(np.asarray(origin, dtype=object), len(names)),
        },
        index=[f"{name}:{cell}" for name in names for cell in origin],
    )
    var = pd.DataFrame(index=pd.Index(genes, dtype=object))
    return anndata.AnnData(values, obs=obs, var=var, uns={"skds": {"levels": levels}})


def scores(found: dict[str, Any]) -> pd.DataFrame:
    """A row per perturbation and method."""
    kinds = {ANCHORED: found.get("anchored"), NO_EFFECT: (found.get("floors") or {}).get("none"), ADDITIVE: (found.get("floors") or {}).get("additive")}
    rows = []
    for place, prediction in enumerate(found["predictions"]):
        label = "+".join(prediction["targets"])
        scores = {name: kind["scores"][place] for name, kind in kinds.items() if kind is not None}
        of_law = {name: prediction[name] for name in ("mse", "w2", "sinkhorn") if name in prediction}
        for method, score in {**scores, LAW: of_law or None}.items():
            if score is None and method == ADDITIVE:
                continue
            rows.append({"perturbation": label, "method": method, **(score or {})})
    return pd.DataFrame(rows, columns=["perturbation", "method", "mse", "w2", "sinkhorn"])
