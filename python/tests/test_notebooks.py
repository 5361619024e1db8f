"""What notebooks show of a model."""

import html.parser
import sys
import xml.etree.ElementTree as xml

import numpy as np
import pandas as pd
import pytest

import skds

WITHOUT_END = {"br", "hr", "img", "meta", "input", "link"}


class Reader(html.parser.HTMLParser):
    """Finds the elements and the text, and checks that all are closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def test_before_a_fit_the_parameters_are_shown():
    shown = Reader(skds.StationaryDiffusion(model="<i>mlp</i>", seed=3)._repr_html_())
    assert shown.elements == ["pre"]
    assert shown.text == "StationaryDiffusion(model='<i>mlp</i>', seed=3)"


def test_after_a_fit_findings_notes_and_effects_are_shown(fitted):
    shown = Reader(fitted._repr_html_())
    assert shown.elements.count("li") == len(fitted.notes_) + len(fitted.findings_) > 3
    assert all(sentence in shown.text for sentence in fitted.notes_ + fitted.findings_)
    assert f"of {len(fitted.names_)} variables with {len(fitted.effects_)} effects" in shown.text
    assert "an average of " in shown.text and "table" in shown.elements and "svg" in shown.elements
    assert fitted.effects_["source"][0] in shown.text


def test_a_single_model_and_one_from_a_file_are_shown(quick, simulated, tmp_path):
    shown = Reader(quick.fit(simulated.train)._repr_html_())
    assert "a linear model of 4 variables" in shown.text
    quick.save(tmp_path / "model.safetensors")
    loaded = Reader(skds.load(tmp_path / "model.safetensors")._repr_html_())
    assert "a linear model of 4 variables" in loaded.text and "li" not in loaded.elements


def test_names_of_variables_are_no_markup(quick):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    x[:, 1] += x[:, 0]
    names = ["<b>", "<script>alert(1)</script>", "a&b\"'"]
    model = quick.set_params(lambda_=0.01).fit(pd.DataFrame(x, columns=names))
    shown = Reader(model._repr_html_())
    assert "script" not in shown.elements
    # One stands around the name of the estimator.
    assert shown.elements.count("b") == 1
    assert "<b>" in shown.text and "alert(1)" in shown.text
    words = {text.strip() for text in xml.fromstring(model.plot_effects()._repr_svg_()).itertext()}
    assert "<b>" in words


def test_a_model_without_effects_is_shown(quick):
    model = quick.set_params(lambda_=1e6).fit(np.random.default_rng(0).normal(size=(50, 3)))
    assert len(model.effects_) == 0
    shown = Reader(model._repr_html_())
    assert "with 0 effects" in shown.text and "table" not in shown.elements
    assert xml.fromstring(model.plot_effects().text) is not None
    assert model.to_networkx().number_of_edges() == 0 and list(model.to_networkx().nodes) == model.names_


def test_pictures_are_saved_as_svg_only(fitted, tmp_path):
    picture = fitted.plot_effects()
    with pytest.raises(ValueError, match="expected one that ends in .svg"):
        picture.save(tmp_path / "effects.png")
    picture.save(str(tmp_path / "effects.SVG"))
    assert [path.name for path in tmp_path.iterdir()] == ["effects.SVG"]


def test_the_graph_needs_networkx_only_when_it_is_asked_for(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="to_networkx needs the package networkx, which is not installed"):
        fitted.to_networkx()
