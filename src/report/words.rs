//! What an exact fit was and what it found, in sentences: the same at the command line and from the service.

use crate::fit::{DriftForm, ExactFit, PenaltyStrength, PreparedFit, Solver, Support};
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
            Solver::Chosen { .. } => format!("{kind} model, chosen by what it predicts"),
            Solver::Moments(_) => format!("KDS by moments, {kind} model, {penalty}"),
            Solver::Structural(_) => format!("structural equations, {kind} model, {penalty}"),
            _ => {
                let chosen = self.tuning.as_ref().map(|tuning| tuning.cells[tuning.leading].bandwidth);
                let bandwidth = chosen.unwrap_or_else(|| problem.spec.loss.kernel.bandwidth());
                let bandwidth = bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
                let objective = recipe.objective.name().to_uppercase();
                format!("{objective} {kind} model, {} kernel{bandwidth}", recipe.kernel)
            }
        }
    }

    /// How it went: on which device, in so many seconds, to which loss.
    pub fn course(&self, problem: &PreparedFit, device: &str, seconds: f64) -> Vec<String> {
        let mut lines = Vec::new();
        lines.push(match (self.estimator, &problem.recipe.solver) {
            (Some(estimator), _) => {
                format!("exact minimum over all pairs ({estimator}) on {device} in {seconds:.3} s")
            }
            (None, Solver::Chosen { .. }) => format!("everything was fitted and compared in {seconds:.3} s"),
            (None, _) => format!("minimum from means and covariances in {seconds:.3} s"),
        });
        if self.fell_back {
            lines.push(
                "the u form is not convex on this sample: the v form, which always is, took its place".into(),
            );
        }
        if let (Some(loss), Some(penalty)) = (self.loss, self.penalty) {
            lines.push(format!(
                "loss {loss:.6e}, penalty {penalty:.6e}, optimality conditions to {:.0e}",
                self.violation
            ));
        }
        lines
    }

    /// What was found, what that rests on, and how far to trust it.
    pub fn findings(&self, problem: &PreparedFit, support: &Support) -> Vec<String> {
        let mut lines: Vec<String> = self.tuning.iter().flat_map(|tuning| tuning.explained()).collect();
        let is_linear = problem.recipe.form == DriftForm::Linear;
        // Structural equations alone have no dynamics to be stable.
        if !is_linear || self.stability.spectral_abscissa.is_some() {
            lines.push(self.stability.sentence());
        }
        let skds = self.estimator.is_some() && problem.recipe.objective == Objective::Skds;
        if skds && is_linear {
            lines.push(
                "SKDS vanishes only for reversible diffusions, so its minimum is biased where effects go in loops or \
                 cascades; without a given lambda, the fit chooses by what is predicted"
                    .into(),
            );
        }
        lines.extend(support.sentences());
        lines.extend(problem.constant_warning());
        lines
    }
}
