//! Pictures of models and fits, as SVG.

use super::Fitted;
use crate::Result;
use crate::model::Model;
use crate::plot;
use crate::report::picture;

/// More variables would not be legible.
const MOST_VARIABLES: usize = 60;

impl Model {
    /// A heat map of the effects in standard units, as SVG: rows are targets, columns are sources. Of many variables it shows the
    /// `most` with the strongest effects, at most 60.
    pub fn effects_svg(&self, most: usize) -> Result<String> {
        let part = self.effects()?.part(most.clamp(2, MOST_VARIABLES));
        plot::to_svg("Effects in standard units", &[picture::heatmap(&part, String::new())])
    }
}

impl Fitted {
    /// What was compared to choose the model, as SVG; none if the settings were given.
    pub fn choice_svg(&self) -> Result<Option<String>> {
        self.tuning.as_ref().map(picture::tuning_svg).transpose()
    }
}
