use super::{Profile, Rbf};
use crate::Scalar;

/// The profile of [`Rbf`], with the tilt.
#[derive(Clone, Copy, Debug)]
pub struct TiltedRbf<T>(Rbf<T>);

impl<T: Scalar> TiltedRbf<T> {
    /// With bandwidth h.
    pub fn new(bandwidth: f64) -> Self {
        TiltedRbf(Rbf::new(bandwidth))
    }
}

impl<T: Scalar> Profile<T> for TiltedRbf<T> {
    const TILTED: bool = true;
    const LINEAR: bool = false;
    const GAUSSIAN: bool = true;

    #[inline(always)]
    fn derivatives(&self, rho: T) -> [T; 5] {
        self.0.derivatives(rho)
    }

    #[inline(always)]
    fn decay(&self) -> T {
        self.0.decay()
    }
}
