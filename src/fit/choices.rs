//! Choices that have names in settings.

use crate::engine::OptimiserKind;
use crate::kernel::KernelKind;
use crate::model::PenaltyKind;
use crate::named::named;
use crate::{Error, Result};

/// The form of the drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// b(x) = W x + biases.
    Linear,
    /// One network of one hidden layer per variable.
    Mlp,
    /// Drift and noise are sums of given functions.
    Basis,
}

named!(ModelKind, "model", { Linear => "linear", Mlp => "mlp", Basis => "basis" });

/// What is penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyChoice {
    /// Nothing.
    None,
    /// Single effects.
    Ingoing,
    /// All effects of a variable together.
    Outgoing,
    /// Both.
    Both,
}

named!(PenaltyChoice, "penalty", { None => "none", Ingoing => "ingoing", Outgoing => "outgoing", Both => "both" });

impl PenaltyChoice {
    /// The groups, if there are any.
    pub fn kind(self) -> Option<PenaltyKind> {
        match self {
            PenaltyChoice::None => None,
            PenaltyChoice::Ingoing => Some(PenaltyKind::Ingoing),
            PenaltyChoice::Outgoing => Some(PenaltyKind::Outgoing),
            PenaltyChoice::Both => Some(PenaltyKind::Both),
        }
    }
}

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    /// A kernel that compares pairs of rows.
    Pairs(KernelKind),
    /// Polynomials of degree two: KDS then depends only on means and covariances.
    Quadratic,
}

impl KernelChoice {
    const QUADRATIC: &str = "quadratic";

    /// The name on the command line, in files and in reports.
    pub fn name(self) -> &'static str {
        match self {
            KernelChoice::Pairs(kind) => kind.name(),
            KernelChoice::Quadratic => Self::QUADRATIC,
        }
    }

    /// The kernel that compares pairs of rows; none if only moments count.
    pub fn kind(self) -> Option<KernelKind> {
        match self {
            KernelChoice::Pairs(kind) => Some(kind),
            KernelChoice::Quadratic => None,
        }
    }
}

impl std::fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for KernelChoice {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        if name == Self::QUADRATIC {
            return Ok(KernelChoice::Quadratic);
        }
        name.parse().map(KernelChoice::Pairs).map_err(|_| {
            let known: Vec<_> = KernelKind::ALL.iter().map(|kind| kind.name()).collect();
            crate::Error::invalid(format!(
                "unknown kernel '{name}', expected one of {}, {}",
                known.join(", "),
                Self::QUADRATIC
            ))
        })
    }
}

/// How the loss is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolverChoice {
    /// [`Exact`](SolverChoice::Exact) where it applies, unless an option of Adam is given.
    Auto,
    /// The convex minimum of a model that is linear in its parameters.
    Exact,
    /// Steps of Adam on batches.
    Adam,
}

named!(SolverChoice, "solver", { Auto => "auto", Exact => "exact", Adam => "adam" });

impl SolverChoice {
    /// The optimiser that takes the steps, if this is one.
    pub fn optimiser(self) -> Option<OptimiserKind> {
        match self {
            SolverChoice::Auto | SolverChoice::Exact => None,
            SolverChoice::Adam => Some(OptimiserKind::Adam),
        }
    }

    /// The choice of this optimiser.
    pub fn of(optimiser: OptimiserKind) -> Self {
        match optimiser {
            OptimiserKind::Adam => SolverChoice::Adam,
        }
    }
}

/// Which pairs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatorChoice {
    /// `v` for the exact solver, `linear` for Adam.
    Auto,
    /// Neighbouring rows.
    Linear,
    /// All pairs of different rows.
    U,
    /// All pairs.
    V,
}

named!(EstimatorChoice, "estimator", { Auto => "auto", Linear => "linear", U => "u", V => "v" });

/// Which variables an environment may intervene on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChoice {
    /// The targets that the data names.
    Known,
    /// Any, in every environment but the first.
    Unknown,
}

named!(TargetChoice, "targets", { Known => "known", Unknown => "unknown" });

/// How many environments a step sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentsPerStep {
    /// All of them.
    All,
    /// This many, drawn anew for every step.
    Some(usize),
}

impl std::fmt::Display for EnvironmentsPerStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EnvironmentsPerStep::All => f.write_str("all"),
            EnvironmentsPerStep::Some(count) => count.fmt(f),
        }
    }
}

impl std::str::FromStr for EnvironmentsPerStep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse()) {
            ("all", _) => Ok(EnvironmentsPerStep::All),
            (_, Ok(count)) if count > 0 => Ok(EnvironmentsPerStep::Some(count)),
            _ => Err(Error::invalid(format!(
                "environments per step is '{text}', expected 'all' or a number above 0"
            ))),
        }
    }
}
