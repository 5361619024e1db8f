//! Kernels, all of one form:
//!
//! ```text
//! k(x, y) = ω(x) ω(y) [ φ(ρ) + c (1 + ⟨x, y⟩) ],     ρ = |x − y|² / 2
//! ```
//!
//! with ω(x) = (1 + |x|²)^−½ for a tilted kernel and 1 for the others, and with c = 1 for a kernel with a linear part
//! and 0 for the others. [`Kernel`] lists them with their formulas.
//!
//! The tilt ω depends on one point at a time, so both losses absorb it into the drift of each sample before
//! any pair is visited (see [`crate::objective`]). What is left for the pairs is the radial profile φ and its
//! derivatives with respect to ρ: up to the second for SKDS, up to the fourth for KDS.
//!
//! **To add a kernel**, write its [`Profile`] in a file of this folder, write φ and its derivatives in
//! `shaders/kernel/`, and add it to the list below.

mod bandwidth;
mod list;

pub use bandwidth::Bandwidth;

use crate::{Error, Result, Scalar};

// The list of kernels: a file with the profile, and an entry of `kernels!`. Everything that goes through all kernels
// takes them from here. (The macro does not declare the files, because rustfmt would not find them.)
mod imq_plus;
mod rbf;
mod tilted_rbf;

list::kernels! { $
    /// exp(−|x − y|² / 2h²).
    rbf::Rbf { bandwidth } = "rbf", shader "rbf";
    /// RBF divided by √(1 + |x|²) √(1 + |y|²).
    tilted_rbf::TiltedRbf { bandwidth } = "tilted-rbf", shader "rbf";
    /// ((1 + |x − y|²)^−½ + 1 + ⟨x, y⟩) / (√(1 + |x|²) √(1 + |y|²)).
    imq_plus::ImqPlus = "imq-plus", shader "imq_plus";
}
pub(crate) use with_profile;

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

    /// What φ depends on besides ρ; shaders read it as `job.decay`. It is η where [`GAUSSIAN`](Self::GAUSSIAN), and 0 for
    /// a kernel without bandwidth.
    fn decay(&self) -> T;
}

/// A profile as it is, for [`with_profile!`] to fix its precision.
pub(crate) fn in_precision<T: Scalar, P: Profile<T>>(profile: P) -> P {
    profile
}

/// The constants of a kernel's [`Profile`], for code that is not compiled for one kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelTraits {
    /// [`Profile::TILTED`].
    pub tilted: bool,
    /// [`Profile::LINEAR`].
    pub linear: bool,
    /// [`Profile::GAUSSIAN`].
    pub gaussian: bool,
}

impl KernelTraits {
    fn of<P: Profile<f32>>(_: P) -> Self {
        KernelTraits { tilted: P::TILTED, linear: P::LINEAR, gaussian: P::GAUSSIAN }
    }
}

impl KernelKind {
    /// The constants of its profile.
    pub fn traits(self) -> KernelTraits {
        with_profile!(self.at_bandwidth(1.0), f32, |profile| KernelTraits::of(profile))
    }

    /// Whether there is a bandwidth to choose.
    pub fn has_bandwidth(self) -> bool {
        self.at_bandwidth(1.0).bandwidth().is_some()
    }

    /// This kernel with bandwidth `h`, which must be a finite number above 0 even where the kernel has none.
    pub fn with_bandwidth(self, h: f64) -> Result<Kernel> {
        if !(h > 0.0 && h.is_finite()) {
            return Err(Error::invalid(format!(
                "bandwidth is {h}, expected a finite number above 0 or 'auto'"
            )));
        }
        Ok(self.at_bandwidth(h))
    }
}

impl Kernel {
    /// φ and its four derivatives at ρ.
    pub fn derivatives(&self, rho: f64) -> [f64; 5] {
        with_profile!(*self, f64, |profile| profile.derivatives(rho))
    }

    /// [`Profile::decay`].
    pub fn decay(&self) -> f64 {
        with_profile!(*self, f64, |profile| profile.decay())
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
    fn check_derivatives<P: Profile<f64>>(kind: KernelKind, profile: P) {
        for rho in [0.3, 1.0, 4.0] {
            let step = 1e-5;
            let (low, high) = (profile.derivatives(rho - step), profile.derivatives(rho + step));
            let here = profile.derivatives(rho);
            for order in 0..4 {
                let slope = (high[order] - low[order]) / (2.0 * step);
                let error = (slope - here[order + 1]).abs();
                assert!(
                    error < 1e-8 * (1.0 + here[order + 1].abs()),
                    "{kind}, order {order} at {rho}: {error}"
                );
            }
            if P::GAUSSIAN {
                let error = (here[1] + profile.decay() * here[0]).abs();
                assert!(error < 1e-15, "{kind} is not Gaussian: φ' + η φ is {error} at {rho}");
            }
        }
    }

    #[test]
    fn derivatives_are_slopes() {
        for &kind in KernelKind::ALL {
            for h in [1.3, 0.8] {
                with_profile!(kind.at_bandwidth(h), f64, |profile| check_derivatives(kind, profile));
            }
        }
    }

    #[test]
    fn a_bandwidth_matters_to_the_kernels_that_have_one_and_to_no_other() {
        for &kind in KernelKind::ALL {
            let [narrow, wide] = [0.7, 1.4].map(|h| kind.with_bandwidth(h).unwrap());
            assert_eq!((narrow.kind(), wide.kind()), (kind, kind));
            let differ = narrow.value(&[0.4, -1.2], &[1.1, 0.2]) != wide.value(&[0.4, -1.2], &[1.1, 0.2]);
            assert_eq!(differ, kind.has_bandwidth(), "{kind}");
            assert_eq!(wide.bandwidth(), kind.has_bandwidth().then_some(1.4), "{kind}");
        }
        assert!(KernelKind::Rbf.has_bandwidth() && !KernelKind::ImqPlus.has_bandwidth());
    }

    #[test]
    fn a_linear_part_needs_a_tilt() {
        for &kind in KernelKind::ALL {
            let traits = kind.traits();
            assert!(traits.tilted || !traits.linear, "{kind}");
        }
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
