//! A fit in sentences: what was fitted, what it found, and how it was computed.

use crate::fit::{DriftForm, ExactFit, PenaltyStrength, PreparedFit, Solver, Stability, Support, Tuning};
use crate::objective::Objective;

impl ExactFit {
    /// What was fitted.
    pub fn title(&self, problem: &PreparedFit) -> String {
        let recipe = &problem.recipe;
        let kind = recipe.form.kind();
        let penalty = match recipe.solver.strength().as_ref().and_then(PenaltyStrength::penalty) {
            Some(penalty) => format!("{} penalty {}", penalty.kind, penalty.lambda),
            None => "no penalty".into(),
        };
        match &recipe.solver {
            Solver::Chosen { .. } => format!("{kind} model, chosen by how well it predicts held-out data"),
            Solver::Rival(rival) => format!("{} ({})", rival.kind().label(), rival.kind()),
            Solver::Moments(_) => format!("KDS by moments, {kind} model, {penalty}"),
            Solver::Structural(_) => format!("structural equations, {kind} model, {penalty}"),
            _ => {
                let chosen = self.tuning.as_ref().map(|tuning| tuning.settings[tuning.leading].bandwidth);
                let bandwidth = chosen.unwrap_or_else(|| problem.spec.loss.kernel.bandwidth());
                let bandwidth = bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
                let objective = recipe.objective.name().to_uppercase();
                format!("{objective} {kind} model, {} kernel{bandwidth}", recipe.kernel)
            }
        }
    }

    /// What a person should know of the fit: warnings with what to do about them, then what the fit found and how far to trust it.
    pub fn findings(&self, problem: &PreparedFit, support: &Support) -> Vec<String> {
        let mut warnings = self.own_warnings(problem);
        let mut found = Vec::new();
        if let Some(tuning) = &self.tuning {
            warnings.extend(tuning.warning());
            found.extend(tuning.sentences());
        }
        // A model of structural equations alone has no dynamics that could be unstable.
        if problem.recipe.form != DriftForm::Linear || self.stability.spectral_abscissa.is_some() {
            warnings.extend(self.stability.warning());
            found.extend(self.stability.verdict());
        }
        in_order(problem, warnings, found, support)
    }

    /// Warnings about the loss that was minimised.
    fn own_warnings(&self, problem: &PreparedFit) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.fell_back {
            warnings.push(
                "The u estimator is not convex on this sample. The fit used the v estimator instead, which is always convex."
                    .into(),
            );
        }
        let skds = self.estimator.is_some() && problem.recipe.objective == Objective::Skds;
        if skds && problem.recipe.form == DriftForm::Linear {
            warnings.push(
                "The SKDS minimum is biased where effects form loops or cascades, because SKDS is zero only for reversible diffusions. \
                 Leave out bandwidth, penalty and lambda to choose a model by its predictions instead."
                    .into(),
            );
        }
        warnings
    }

    /// How the fit was computed: on which device, in how many seconds, and how precisely.
    pub fn computation(&self, problem: &PreparedFit, device: &str, seconds: f64) -> Vec<String> {
        let mut lines = vec![match (self.estimator, &problem.recipe.solver) {
            (Some(estimator), _) => {
                format!(
                    "Computed the exact minimum over all pairs ({estimator}) on {device} in {seconds:.3} s."
                )
            }
            (None, Solver::Chosen { .. }) => {
                format!("Fitted and compared all settings in {seconds:.3} s.")
            }
            (None, Solver::Rival(_)) => format!("Fitted in {seconds:.3} s."),
            (None, _) => format!("Computed the minimum from means and covariances in {seconds:.3} s."),
        }];
        if let (Some(loss), Some(penalty)) = (self.loss, self.penalty) {
            lines.push(format!(
                "Loss {loss:.6e}, penalty {penalty:.6e}; the optimality conditions hold to {:.0e}.",
                self.violation
            ));
        }
        lines
    }
}

impl PreparedFit {
    /// What a person should know of a model that Adam trained, in the order of [`ExactFit::findings`]. `tuning` is how the settings were
    /// chosen, if they were.
    pub fn findings(&self, tuning: Option<&Tuning>, stability: &Stability, support: &Support) -> Vec<String> {
        let mut found: Vec<String> = tuning.map_or_else(Vec::new, Tuning::sentences);
        found.extend(self.remarks().iter().cloned());
        found.extend(stability.repair());
        found.extend(stability.verdict());
        in_order(self, stability.warning().into_iter().collect(), found, support)
    }
}

/// Warnings first, then what was found, then what its effects rest on.
fn in_order(
    problem: &PreparedFit,
    mut warnings: Vec<String>,
    mut found: Vec<String>,
    support: &Support,
) -> Vec<String> {
    warnings.extend(constant_variables(problem.constant_variables()));
    found.extend(support.sentences());
    warnings.into_iter().map(|warning| format!("Warning: {warning}")).chain(found).collect()
}

/// Names the variables that are constant in the first environment, if there are any.
fn constant_variables(names: &[String]) -> Option<String> {
    const LISTED: usize = 10;
    let (first, more) = names.split_at(names.len().min(LISTED));
    let first = first.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    match (names.len(), more.len()) {
        (0, _) => None,
        (1, _) => Some(format!(
            "{first} is constant in the first environment, so its noise cannot be estimated there."
        )),
        (_, more) => {
            let more = if more == 0 { String::new() } else { format!(" and {more} more variables") };
            Some(format!(
                "{first}{more} are constant in the first environment, so their noise cannot be estimated there."
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use crate::fit::Settings;
    use crate::{Matrix, Progress};

    /// Two environments of three variables; the last one is constant in the first.
    fn data() -> Dataset {
        let part = |e: usize| {
            Matrix::from_fn(40, 3, |i, j| match (e, j) {
                (0, 2) => 7.25,
                _ => (0.7 * (i + 3 * e) as f64 + 2.0 * j as f64).sin(),
            })
        };
        Dataset::from_environments(vec![part(0), part(1)]).unwrap()
    }

    #[test]
    fn warnings_come_before_findings() {
        let settings = Settings { lambda: Some(0.3), ..Settings::default() };
        let problem = PreparedFit::new(&data(), &settings).unwrap();
        let fit = problem.solve(None, &Progress::default()).unwrap();
        let lines = fit.findings(&problem, &problem.support(&fit.model));
        let warnings = lines.iter().take_while(|line| line.starts_with("Warning: ")).count();
        assert_eq!(warnings, 2, "{lines:?}");
        assert!(lines[0].contains("The SKDS minimum is biased"), "{lines:?}");
        assert!(lines[1].contains("'x2' is constant in the first environment"), "{lines:?}");
        assert!(lines[2].starts_with("The model is stable (spectral abscissa "), "{lines:?}");
        assert!(lines[3..].iter().all(|line| !line.starts_with("Warning: ")), "{lines:?}");
    }

    #[test]
    fn many_constant_variables_are_counted() {
        let names = |count: usize| (0..count).map(|k| format!("v{k}")).collect::<Vec<_>>();
        assert_eq!(constant_variables(&[]), None);
        let two = constant_variables(&names(2)).unwrap();
        assert!(two.starts_with("'v0', 'v1' are constant in the first environment"), "{two}");
        let many = constant_variables(&names(13)).unwrap();
        assert!(many.contains("'v9' and 3 more variables are constant"), "{many}");
    }
}
