"""Pictures and models in notebooks."""

from __future__ import annotations

import html
import os
from typing import Any

#: Effects in the picture of a model, and in its table.
DRAWN, LISTED = 24, 8


class Svg:
    """A picture that notebooks show."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_svg_(self) -> str:
        return self.text

    def save(self, path: str | os.PathLike) -> None:
        """Writes the picture to an ``.svg`` file."""
        path = os.fspath(path)
        if not path.lower().endswith(".svg"):
            raise ValueError(f"{path} is no name for the picture, expected one that ends in .svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __repr__(self) -> str:
        return f"<skds picture, {len(self.text)} bytes of SVG: show it in a notebook, or save(path)>"


def model_to_html(model: Any) -> str:
    """What was chosen, how far to trust it, the strongest effects, and a picture."""
    if not hasattr(model, "model_"):
        return f"<pre>{html.escape(repr(model))}</pre>"
    kind, members = model.model_.kind
    what = f"an average of {members} {kind} models" if members else f"a {kind} model"
    effects = model.effects_
    parts = [
        "<div class='skds'>",
        f"<p><b>{html.escape(repr(model))}</b>: {what} of {len(model.names_)} variables with {len(effects)} effects</p>",
    ]
    sentences = [*model.notes_, *model.findings_]
    if sentences:
        parts.append("<ul>" + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences) + "</ul>")
    if len(effects):
        columns = ["source", "target", "strength", "standard"]
        if effects["low"].notna().any():
            columns += ["low", "high"]
        parts.append(effects.head(LISTED)[columns].to_html(index=False, float_format="{:.3g}".format, border=0))
        parts.append(f"<div style='max-width:40em'>{model.plot_effects(DRAWN).text}</div>")
    parts.append("</div>")
    return "".join(parts)
