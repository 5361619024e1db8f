//! The candidates of a choice among linear models.

use crate::fit::CandidateSet;
use crate::model::LawKind;
use crate::named::named;

/// Penalties of fits by moments, descending.
const KDS: [f64; 6] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003];
/// Penalties of structural equations, descending.
const STRUCTURAL: [f64; 3] = [0.1, 0.03, 0.003];
/// Penalties of SKDS, descending, for [`USUAL_DIM`] variables or more; with fewer, proportionally smaller.
const SKDS: [f64; 4] = [0.3, 0.1, 0.03, 0.01];
/// The number of variables for which these were chosen, and the least factor for fewer variables.
const USUAL_DIM: f64 = 20.0;
const LEAST_FACTOR: f64 = 0.25;

/// The method that fits a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// KDS by moments.
    Kds,
    /// SKDS over all pairs.
    Skds,
    /// Structural equations.
    Structural,
    /// No effects.
    Nothing,
}

named!(Method, "method", {
    Kds => "kds",
    Skds => "skds",
    Structural => "structural",
    Nothing => "none",
});

impl Method {
    /// Its name in sentences.
    pub fn label(self) -> &'static str {
        match self {
            Method::Kds => "KDS by moments",
            Method::Skds => "SKDS",
            Method::Structural => "structural equations",
            Method::Nothing => "no effect",
        }
    }

    /// The prior weight of a method. SKDS is zero only for reversible diffusions, so it must predict clearly better than other
    /// methods. (On simulated gene networks, where no candidate predicts better than no effect, its many fits with almost no
    /// effects otherwise outvoted that one.)
    pub(super) fn prior(self) -> f64 {
        match self {
            Method::Skds => 0.1,
            Method::Kds | Method::Structural | Method::Nothing => 1.0,
        }
    }

    /// The method's path of penalties, descending, if it is the same for all data.
    pub(super) fn path(self) -> &'static [f64] {
        match self {
            Method::Kds => &KDS,
            Method::Structural => &STRUCTURAL,
            Method::Skds | Method::Nothing => &[],
        }
    }

    /// The law of the method's models.
    pub(in crate::fit) fn law(self) -> LawKind {
        match self {
            Method::Structural => LawKind::Structural,
            Method::Kds | Method::Skds | Method::Nothing => LawKind::Diffusion,
        }
    }
}

/// A method with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fit) struct Candidate {
    pub method: Method,
    /// The bandwidth of SKDS' kernel, if that has one.
    pub bandwidth: Option<f64>,
    /// The penalty; 0 where there is none.
    pub lambda: f64,
}

impl Candidate {
    /// The candidates that are fitted by moments, each method's path descending, and no effect last. `structural` says whether
    /// structural equations are allowed.
    pub(crate) fn by_moments(set: CandidateSet, structural: bool) -> Vec<Candidate> {
        let path = |method: Method| {
            method.path().iter().map(move |&lambda| Candidate { method, bandwidth: None, lambda })
        };
        let mut all = Vec::new();
        if matches!(set, CandidateSet::All | CandidateSet::Diffusions | CandidateSet::Kds) {
            all.extend(path(Method::Kds));
        }
        if matches!(set, CandidateSet::All | CandidateSet::Structural) && structural {
            all.extend(path(Method::Structural));
        }
        all.push(Candidate { method: Method::Nothing, bandwidth: None, lambda: 0.0 });
        all
    }

    /// The SKDS candidates for `d` variables: a path of penalties at each bandwidth.
    pub(crate) fn by_pairs(d: usize, bandwidths: &[Option<f64>]) -> Vec<Candidate> {
        let factor = (d as f64 / USUAL_DIM).clamp(LEAST_FACTOR, 1.0);
        let at = |&bandwidth: &Option<f64>| {
            SKDS.map(|lambda| Candidate { method: Method::Skds, bandwidth, lambda: factor * lambda })
        };
        bandwidths.iter().flat_map(at).collect()
    }
}
