//! The kernels of the paper, all of one form:
//!
//! ```text
//! k(x, y) = ω(x) ω(y) [ φ(ρ) + c (1 + ⟨x, y⟩) ],     ρ = |x − y|² / 2
//! ```
//!
//! | kernel | ω(x) | φ(ρ) | c |
//! |---|---|---|---|
//! | RBF | 1 | exp(−ρ/h²) | 0 |
//! | tilted RBF | (1 + \|x\|²)^−½ | exp(−ρ/h²) | 0 |
//! | IMQ+ | (1 + \|x\|²)^−½ | (1 + 2ρ)^−½ | 1 |
//!
//! The tilt ω depends on one point at a time, so both losses absorb it into the drift of each sample before
//! any pair is visited (see [`crate::objective`]). What is left for the pairs is the radial profile φ and its
//! derivatives with respect to ρ: up to the second for SKDS, up to the fourth for KDS.

mod bandwidth;
mod imq_plus;
mod rbf;
mod tilted_rbf;

pub use bandwidth::Bandwidth;
pub use imq_plus::ImqPlus;
pub use rbf::Rbf;
pub use tilted_rbf::TiltedRbf;

use crate::named::named;
use crate::{Error, Result, Scalar};

/// A kernel with its bandwidth: a value to configure an engine with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// exp(−|x − y|² / 2h²).
    Rbf {
        /// h.
        bandwidth: f64,
    },
    /// RBF divided by √(1 + |x|²) √(1 + |y|²).
    TiltedRbf {
        /// h.
        bandwidth: f64,
    },
    /// ((1 + |x − y|²)^−½ + 1 + ⟨x, y⟩) / (√(1 + |x|²) √(1 + |y|²)).
    ImqPlus,
}

/// The name of a kernel, before its bandwidth is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKind {
    /// [`Kernel::Rbf`].
    Rbf,
    /// [`Kernel::TiltedRbf`].
    TiltedRbf,
    /// [`Kernel::ImqPlus`].
    ImqPlus,
}

/// The arithmetic of one kernel, chosen at compile time so that inner loops have no branches.
pub trait Profile<T: Scalar>: Copy + Send + Sync {
    /// Whether ω is (1 + |x|²)^−½; otherwise it is 1.
    const TILTED: bool;
    /// Whether c is 1; otherwise it is 0. Only tilted kernels have it.
    const LINEAR: bool;
    /// Whether φ' = −η φ, so that every derivative of φ is a multiple of φ.
    const GAUSSIAN: bool;

    /// φ, φ', φ'', φ''' and φ'''' at ρ ≥ 0.
    fn derivatives(&self, rho: T) -> [T; 5];

    /// η = −φ'/φ where [`GAUSSIAN`](Self::GAUSSIAN); otherwise meaningless.
    fn decay(&self) -> T;
}

/// Runs an expression with the [`Profile`] of a [`Kernel`] in precision `$t`.
macro_rules! with_profile {
    ($kernel:expr, $t:ty, |$profile:ident| $body:expr) => {
        match $kernel {
            $crate::kernel::Kernel::Rbf { bandwidth } => {
                let $profile = $crate::kernel::Rbf::<$t>::new(bandwidth);
                $body
            }
            $crate::kernel::Kernel::TiltedRbf { bandwidth } => {
                let $profile = $crate::kernel::TiltedRbf::<$t>::new(bandwidth);
                $body
            }
            $crate::kernel::Kernel::ImqPlus => {
                let $profile = $crate::kernel::ImqPlus;
                $body
            }
        }
    };
}
pub(crate) use with_profile;

/// What a kernel's profile says of itself.
#[derive(Clone, Copy, Debug)]
pub struct KernelTraits {
    /// [`Profile::TILTED`].
    pub tilted: bool,
    /// [`Profile::LINEAR`].
    pub linear: bool,
    /// [`Profile::GAUSSIAN`].
    pub gaussian: bool,
}

impl KernelKind {
    /// What its profile says of itself, for code that is not compiled for one kernel.
    pub fn traits(self) -> KernelTraits {
        fn of<P: Profile<f32>>(_: P) -> KernelTraits {
            KernelTraits { tilted: P::TILTED, linear: P::LINEAR, gaussian: P::GAUSSIAN }
        }
        let kernel = match self {
            KernelKind::Rbf => Kernel::Rbf { bandwidth: 1.0 },
            KernelKind::TiltedRbf => Kernel::TiltedRbf { bandwidth: 1.0 },
            KernelKind::ImqPlus => Kernel::ImqPlus,
        };
        with_profile!(kernel, f32, |profile| of(profile))
    }

    /// This kernel with bandwidth `h`, which IMQ+ does not have and ignores.
    pub fn with_bandwidth(self, h: f64) -> Result<Kernel> {
        if !(h > 0.0 && h.is_finite()) {
            return Err(Error::invalid(format!(
                "bandwidth is {h}, expected a finite number above 0 or 'auto'"
            )));
        }
        Ok(match self {
            KernelKind::Rbf => Kernel::Rbf { bandwidth: h },
            KernelKind::TiltedRbf => Kernel::TiltedRbf { bandwidth: h },
            KernelKind::ImqPlus => Kernel::ImqPlus,
        })
    }
}

named!(KernelKind, "kernel", { Rbf => "rbf", TiltedRbf => "tilted-rbf", ImqPlus => "imq-plus" });

impl Kernel {
    /// Which kernel this is.
    pub fn kind(&self) -> KernelKind {
        match self {
            Kernel::Rbf { .. } => KernelKind::Rbf,
            Kernel::TiltedRbf { .. } => KernelKind::TiltedRbf,
            Kernel::ImqPlus => KernelKind::ImqPlus,
        }
    }

    /// h, where the kernel has one.
    pub fn bandwidth(&self) -> Option<f64> {
        match *self {
            Kernel::Rbf { bandwidth } | Kernel::TiltedRbf { bandwidth } => Some(bandwidth),
            Kernel::ImqPlus => None,
        }
    }

    /// k(x, y).
    ///
    /// ```
    /// let kernel = skds::kernel::Kernel::TiltedRbf { bandwidth: 1.0 };
    /// let expected = (-0.5f64).exp() / 2f64.sqrt();
    /// assert!((kernel.value(&[1.0], &[0.0]) - expected).abs() < 1e-15);
    /// ```
    pub fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        fn value<P: Profile<f64>>(profile: P, x: &[f64], y: &[f64]) -> f64 {
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let rho = 0.5 * x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
            let mut k = profile.derivatives(rho)[0];
            if P::LINEAR {
                k += 1.0 + dot(x, y);
            }
            if P::TILTED { k * tilt(dot(x, x)) * tilt(dot(y, y)) } else { k }
        }
        with_profile!(*self, f64, |profile| value(profile, x, y))
    }
}

/// ω as a function of s = |x|².
#[inline(always)]
pub fn tilt<T: Scalar>(s: T) -> T {
    T::ONE / (T::ONE + s).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each derivative is the slope of the one before, by central differences in f64.
    fn check_derivatives<P: Profile<f64>>(profile: P) {
        for rho in [0.3, 1.0, 4.0] {
            let step = 1e-5;
            let (low, high) = (profile.derivatives(rho - step), profile.derivatives(rho + step));
            let here = profile.derivatives(rho);
            for order in 0..4 {
                let slope = (high[order] - low[order]) / (2.0 * step);
                let error = (slope - here[order + 1]).abs();
                assert!(error < 1e-8 * (1.0 + here[order + 1].abs()), "order {order} at {rho}: {error}");
            }
        }
    }

    #[test]
    fn derivatives_are_slopes() {
        check_derivatives(Rbf::new(1.3));
        check_derivatives(TiltedRbf::new(0.8));
        check_derivatives(ImqPlus);
    }

    #[test]
    fn values_match_their_definitions() {
        let (x, y) = ([0.4, -1.2, 0.3], [1.1, 0.2, -0.5]);
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
        let difference: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
        let (gap, inner) = (norm(&difference), x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>());
        let weight = ((1.0 + norm(&x)) * (1.0 + norm(&y))).sqrt();
        let h = 1.7;
        let rbf = (-gap / (2.0 * h * h)).exp();
        let imq_plus = (1.0 / (1.0 + gap).sqrt() + 1.0 + inner) / weight;
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{a} {b}");
        close(Kernel::Rbf { bandwidth: h }.value(&x, &y), rbf);
        close(Kernel::TiltedRbf { bandwidth: h }.value(&x, &y), rbf / weight);
        close(Kernel::ImqPlus.value(&x, &y), imq_plus);
    }

    #[test]
    fn bandwidths_below_zero_and_unknown_names_are_refused() {
        for h in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let sentence = KernelKind::Rbf.with_bandwidth(h).unwrap_err().to_string();
            assert!(sentence.contains("expected a finite number above 0"), "{sentence}");
        }
        assert!("laplace".parse::<KernelKind>().unwrap_err().to_string().contains("tilted-rbf"));
    }
}
