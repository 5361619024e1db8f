//! Whether a model is stable, and what its effects rest on.

use crate::fit::{Evidence, Stability, Support, WidestVariable};

/// A larger share of a law outside of the data gets a warning.
const MUCH_OUTSIDE: f64 = 0.02;
/// Names and pairs in a sentence.
const LISTED: usize = 10;

impl Stability {
    /// What is wrong with the stationary law of the fitted drift and what to do about it, if anything is wrong.
    pub(super) fn warning(&self) -> Option<String> {
        let abscissa =
            self.spectral_abscissa.map_or(String::new(), |a| format!(" (spectral abscissa {a:.4})"));
        if let Some(factor) = self.factor {
            let fitted = if self.stable { "barely stable" } else { "unstable" };
            let repaired = format!(
                "The fitted drift is {fitted}{abscissa}. To stabilize it, the fit multiplied the effects between variables by {factor:.4}."
            );
            return Some(match self.loss_before.zip(self.loss_after) {
                Some((before, after)) => format!(
                    "{repaired} This changes the loss on all data from {before:.4e} to {after:.4e}. A larger penalty weight lambda may give a stable drift \
                     directly."
                ),
                None => repaired,
            });
        }
        if !self.stable {
            let remedy = match self.spectral_abscissa {
                Some(_) => "Set a larger penalty weight lambda, or set stabilize.",
                None => "Set a larger penalty weight lambda, or use the linear model.",
            };
            return Some(format!("The model is unstable{abscissa} and has no stationary law. {remedy}"));
        }
        if let Some(share) = self.outside.filter(|share| *share > MUCH_OUTSIDE) {
            return Some(format!(
                "{:.0} % of the model's stationary law lies outside the range of the data. Use functions that are bounded or of odd \
                 degree, or a larger penalty weight lambda.",
                100.0 * share
            ));
        }
        let WidestVariable { variable, ratio } = self.much_wider()?;
        Some(format!(
            "In the model's stationary law, '{variable}' has {ratio:.1} times the standard deviation of the data. Loops of effects hold \
             it where there is no data. Set a larger penalty weight lambda, or use the linear model."
        ))
    }

    /// What the fit did about a law that was much wider than the data.
    pub(super) fn repair(&self) -> Option<String> {
        let lambda = self.raised?;
        Some(format!(
            "The stationary law was much wider than the data, so the fit raised the penalty weight lambda to {lambda:.3} and trained on."
        ))
    }

    /// That the model is stable as fitted; none where there is a warning.
    pub(super) fn verdict(&self) -> Option<String> {
        let abscissa =
            self.spectral_abscissa.map_or(String::new(), |a| format!(" (spectral abscissa {a:.4})"));
        self.warning().is_none().then(|| format!("The model is stable{abscissa}."))
    }
}

impl Support {
    /// What the effects of how many variables rest on, and which loops the data cannot resolve.
    pub fn sentences(&self) -> Vec<String> {
        let all = self.variables.len();
        let supported_by = |evidence: Evidence, words: &str| {
            let of = self.variables.iter().filter(|variable| variable.by == evidence);
            let names: Vec<&str> = of.map(|variable| variable.name.as_str()).collect();
            let count = names.len();
            (count > 0).then(|| match evidence {
                Evidence::Covariances => (count, format!("{words} ({})", listed(names.into_iter(), count))),
                _ => (count, words.to_owned()),
            })
        };
        let mut parts = [
            (Evidence::Intervention, "an intervention on them"),
            (Evidence::Elsewhere, "interventions elsewhere"),
            (Evidence::Covariances, "covariances alone"),
        ]
        .into_iter()
        .filter_map(|(evidence, words)| supported_by(evidence, words));
        let first = parts.next().map_or(String::new(), |(count, words)| {
            format!("The effects of {count} of {all} variables are supported by {words}")
        });
        let rest: String = parts.map(|(count, words)| format!(", of {count} by {words}")).collect();
        let mut sentences = vec![format!("{first}{rest}.")];
        if self.unidentified_count > 0 {
            let pairs = self.unidentified_pairs.iter().map(|(a, b)| format!("{a} <-> {b}"));
            sentences.push(format!(
                "The data does not identify both effects of {}. Intervene on one variable of a pair to tell its two effects apart.",
                listed(pairs, self.unidentified_count)
            ));
        }
        sentences
    }
}

/// The first few of so many things.
fn listed(all: impl Iterator<Item = impl Into<String>>, count: usize) -> String {
    let first = all.take(LISTED).map(Into::into).collect::<Vec<String>>().join(", ");
    match count.saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::VariableSupport;

    fn stability(stable: bool, spectral_abscissa: Option<f64>) -> Stability {
        Stability {
            spectral_abscissa,
            stable,
            factor: None,
            loss_before: None,
            loss_after: None,
            outside: None,
            widest: None,
            raised: None,
        }
    }

    #[test]
    fn a_stable_model_has_a_verdict_and_any_other_a_warning() {
        let calm = stability(true, Some(-0.25));
        assert_eq!(calm.verdict().unwrap(), "The model is stable (spectral abscissa -0.2500).");
        assert_eq!((calm.warning(), calm.repair()), (None, None));
        let calmed = Stability { raised: Some(0.0316), ..stability(true, None) };
        assert!(calmed.repair().unwrap().contains("raised the penalty weight lambda to 0.032 and"));
        let widest = |ratio| Some(WidestVariable { variable: "x1".into(), ratio });
        let narrow = Stability { widest: widest(2.0), outside: Some(0.02), ..stability(true, None) };
        assert_eq!((narrow.warning(), narrow.verdict().unwrap().as_str()), (None, "The model is stable."));
        let repaired = Stability { factor: Some(0.59375), ..stability(false, Some(0.6)) };
        let loss = Stability { loss_before: Some(0.5), loss_after: Some(0.75), ..repaired.clone() };
        for (warned, piece) in [
            (
                stability(false, Some(0.6)),
                "The model is unstable (spectral abscissa 0.6000) and has no stationary law.",
            ),
            (stability(false, None), "use the linear model"),
            (
                repaired,
                "The fitted drift is unstable (spectral abscissa 0.6000). To stabilize it, the fit multiplied",
            ),
            (loss, "This changes the loss on all data from 5.0000e-1 to 7.5000e-1."),
            (
                Stability { outside: Some(0.12), ..stability(true, None) },
                "12 % of the model's stationary law lies outside",
            ),
            (
                Stability { widest: widest(8.3), ..stability(true, None) },
                "'x1' has 8.3 times the standard deviation",
            ),
        ] {
            let sentence = warned.warning().unwrap();
            assert!(sentence.contains(piece), "{sentence}");
            assert_eq!(warned.verdict(), None);
        }
    }

    fn variables(evidence: &[Evidence]) -> Vec<VariableSupport> {
        let named = |(k, by): (usize, &Evidence)| VariableSupport { name: format!("v{k}"), by: *by };
        evidence.iter().enumerate().map(named).collect()
    }

    #[test]
    fn evidence_is_counted_and_loops_without_interventions_are_named() {
        use Evidence::{Covariances, Elsewhere, Intervention};
        let mut support = Support {
            variables: variables(&[Intervention, Elsewhere, Covariances]),
            unidentified_count: 1,
            unidentified_pairs: vec![("v1".into(), "v2".into())],
        };
        assert_eq!(
            support.sentences(),
            [
                "The effects of 1 of 3 variables are supported by an intervention on them, of 1 by interventions elsewhere, of 1 by \
                 covariances alone (v2).",
                "The data does not identify both effects of v1 <-> v2. Intervene on one variable of a pair to tell its two effects apart."
            ]
        );
        support.variables = variables(&[Intervention, Covariances, Covariances]);
        (support.unidentified_count, support.unidentified_pairs) = (0, Vec::new());
        let both = "The effects of 1 of 3 variables are supported by an intervention on them, of 2 by covariances alone (v1, v2).";
        assert_eq!(support.sentences(), [both]);
    }

    #[test]
    fn long_lists_are_cut() {
        let pairs: Vec<_> = (0..12).map(|k| (format!("v{k}"), format!("v{}", k + 1))).collect();
        let support = Support {
            variables: variables(&[Evidence::Covariances; 13]),
            unidentified_count: pairs.len(),
            unidentified_pairs: pairs,
        };
        let sentences = support.clone().with_pairs_up_to(11).sentences();
        assert_eq!(sentences, support.sentences());
        let beginning = "The effects of 13 of 13 variables are supported by covariances alone (v0, ";
        assert!(sentences[0].starts_with(beginning), "{sentences:?}");
        assert!(sentences[0].ends_with("v9 and 3 more)."), "{sentences:?}");
        assert!(sentences[1].contains("v9 <-> v10 and 2 more. "), "{sentences:?}");
    }
}
