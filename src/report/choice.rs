//! How a fit chose its settings, and how well its model is expected to predict.

use super::list;
use crate::fit::{ENOUGH_INTERVENTIONS, ExpectedError, Method, ScoredSetting, Tuning};

impl ScoredSetting {
    /// The method and its settings.
    fn label(&self) -> String {
        let bandwidth = self.bandwidth.map_or(String::new(), |h| format!("bandwidth {h:.2}, "));
        match self.method {
            Method::Nothing => self.method.label().into(),
            // Over pairs, with a bandwidth.
            Method::Kds if self.bandwidth.is_some() => format!("KDS ({bandwidth}λ {})", self.lambda),
            method => format!("{} ({bandwidth}λ {})", method.label(), self.lambda),
        }
    }
}

impl Tuning {
    /// What the fit chose and why, how well the model should predict, and what was left out of the choice.
    pub fn sentences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.is_by_loss() {
            lines.push(self.chosen_by_loss());
        } else {
            lines.push(self.chosen());
            // Without this there is a warning.
            lines.extend(self.expected_error.and(self.expectation()));
            lines.extend(self.best_of_methods());
        }
        lines.extend(self.remarks.iter().cloned());
        lines
    }

    /// Too few interventions to test predictions of interventions, if that is so.
    pub(super) fn warning(&self) -> Option<String> {
        match (self.is_by_loss(), self.expected_error) {
            (false, None) => self.expectation(),
            _ => None,
        }
    }

    fn chosen_by_loss(&self) -> String {
        let first = &self.settings[self.leading];
        let bandwidth = first.bandwidth.map_or(String::new(), |h| format!("bandwidth {h:.2} and "));
        let judges = match self.held_out {
            "rows" => format!("the loss on held-out rows ({}-fold cross-validation)", self.folds),
            environments => format!("the loss on {} held-out {environments}", self.folds),
        };
        format!(
            "Chosen among {} settings by {judges}: {bandwidth}{} penalty {:.4}, the largest penalty that is not clearly worse than the \
             best.",
            self.settings.len(),
            first.penalty,
            first.lambda,
        )
    }

    fn chosen(&self) -> String {
        let judges = match self.held_out {
            "rows" => format!("the held-out rows of {} bootstrap samples", self.folds),
            _ => format!("the {} left-out interventions", self.interventions),
        };
        let all = self.settings.len();
        let members = self.members();
        match members[..] {
            [only] if only.method == Method::Nothing => {
                format!(
                    "None of {all} settings predicts {judges} better than no effect. The model has no effects."
                )
            }
            [only] => format!("Of {all} settings, {} predicts {judges} best.", only.label()),
            _ => {
                let shares: Vec<String> = members
                    .iter()
                    .map(|setting| format!("{:.0} % {}", 100.0 * setting.weight, setting.label()))
                    .collect();
                format!(
                    "{} of {all} settings predict {judges} about equally well. The model is their weighted average: {}.",
                    members.len(),
                    list(&shares)
                )
            }
        }
    }

    /// The best of every method, compared with no effect.
    fn best_of_methods(&self) -> Option<String> {
        self.no_effect()?.score?;
        let mut parts = Vec::new();
        for &method in Method::ALL.iter().filter(|method| **method != Method::Nothing) {
            let of_method = self.settings.iter().filter(|setting| setting.method == method);
            let best = of_method
                .filter_map(|setting| Some((setting, setting.score?)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((setting, ratio)) =
                best.and_then(|(setting, _)| Some((setting, self.over_no_effect(setting)?)))
            {
                parts.push(format!("{ratio:.2} for {}", setting.label()));
            }
        }
        let error = if self.held_out == "rows" { "distance to the held-out rows" } else { "squared error" };
        let error_of = format!("Best {error} of each method, relative to no effect");
        (!parts.is_empty()).then(|| format!("{error_of}: {}.", list(&parts)))
    }

    /// How well the model should predict a new intervention, or why that is unknown; none of a model that was chosen by its loss.
    pub fn expectation(&self) -> Option<String> {
        if self.is_by_loss() {
            return None;
        }
        let Some(ExpectedError { ratio, low, high }) = self.expected_error else {
            let known = match self.interventions {
                0 => "No interventions are".into(),
                1 => "Only 1 intervention is".into(),
                count => format!("Only {count} interventions are"),
            };
            return Some(format!(
                "{known} known; testing predictions of interventions takes at least {ENOUGH_INTERVENTIONS}. The settings were chosen on \
                 held-out rows instead. These show how well the model fits the observed distribution, not what an intervention does."
            ));
        };
        if self.has_no_effects() {
            return Some(
                "With this data, no model is known to predict a new intervention better than predicting no effect."
                    .into(),
            );
        }
        let expected = format!(
            "On a new intervention, expect {ratio:.2} times the squared error of predicting no effect (95 % interval {low:.2} to \
             {high:.2})."
        );
        Some(match high < 1.0 {
            true => expected,
            false => format!("{expected} Predicting no effect may do as well."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PenaltyKind;

    fn setting(method: Method, lambda: f64, score: f64, weight: f64) -> ScoredSetting {
        ScoredSetting {
            method,
            bandwidth: (method == Method::Skds).then_some(3.15),
            penalty: PenaltyKind::Ingoing,
            lambda,
            score: Some(score),
            error: Some(0.1),
            ratio: None,
            weight,
            scores: vec![score],
        }
    }

    fn tuning(settings: Vec<ScoredSetting>, expected_error: Option<ExpectedError>) -> Tuning {
        let held_out = if expected_error.is_some() { "environments" } else { "rows" };
        Tuning {
            held_out,
            folds: 6,
            interventions: 4,
            settings,
            leading: 0,
            expected_error,
            remarks: vec!["Last.".into()],
        }
    }

    #[test]
    fn a_choice_says_what_was_chosen_and_what_to_expect() {
        let error = ExpectedError { ratio: 0.1, low: 0.03, high: 0.34 };
        let settings = vec![
            setting(Method::Kds, 0.1, -2.0, 0.2),
            setting(Method::Skds, 0.3, -3.0, 0.8),
            setting(Method::Nothing, 0.0, 0.0, 0.0),
        ];
        let several = tuning(settings.clone(), Some(error));
        assert_eq!(several.warning(), None);
        assert_eq!(
            several.sentences(),
            [
                "2 of 3 settings predict the 4 left-out interventions about equally well. The model is their weighted average: 80 % SKDS \
                 (bandwidth 3.15, λ 0.3) and 20 % KDS by moments (λ 0.1).",
                "On a new intervention, expect 0.10 times the squared error of predicting no effect (95 % interval 0.03 to 0.34).",
                "Best squared error of each method, relative to no effect: 0.14 for KDS by moments (λ 0.1) and 0.05 for SKDS (bandwidth \
                 3.15, λ 0.3).",
                "Last."
            ]
        );
        let unsure = tuning(settings.clone(), Some(ExpectedError { high: 1.2, ..error }));
        assert!(unsure.expectation().unwrap().ends_with("1.20). Predicting no effect may do as well."));
        let mut none = settings.clone();
        (none[0].weight, none[1].weight, none[2].weight) = (0.0, 0.0, 1.0);
        let none = tuning(none, Some(error)).sentences();
        assert!(none[0].ends_with("better than no effect. The model has no effects."), "{none:?}");
        assert!(none[1].starts_with("With this data, no model is known to predict"), "{none:?}");
        let mut rows = tuning(settings, None);
        rows.interventions = 1;
        assert!(rows.sentences()[0].contains("predict the held-out rows of 6 bootstrap samples"));
        assert!(rows.warning().unwrap().starts_with("Only 1 intervention is known; testing"));
        let by_loss = tuning(vec![setting(Method::Skds, 0.3, -3.0, 1.0)], None);
        assert_eq!((by_loss.expectation(), by_loss.warning()), (None, None));
        assert!(
            by_loss.sentences()[0]
                .contains("held-out rows (6-fold cross-validation): bandwidth 3.15 and ingoing penalty 0.3")
        );
    }
}
