//! The product a v of the diffusion with the vectors v of a stage, and its adjoint.

use crate::Scalar;
use crate::numeric::simd::{Group, LANES, add_product, groups, groups_mut};

/// Computes a v and takes the derivative with respect to it. `i` is the vector's number in its run, `k` the group of
/// coordinates.
pub(super) trait DiffusionProduct<T> {
    /// A group of a v.
    fn product(&self, i: usize, k: usize, v: &Group<T>) -> Group<T>;
    /// Takes a group of the derivative with respect to a v.
    fn add_adjoint(&mut self, i: usize, k: usize, v: &Group<T>, bar: &Group<T>);
}

/// a = diag(α): multiplies; sums ∂/∂α.
pub(super) struct DiagonalProduct<'a, T> {
    alpha: &'a [Group<T>],
    alpha_bar: &'a mut [Group<T>],
}

impl<'a, T: Scalar> DiagonalProduct<'a, T> {
    pub(super) fn new(alpha: &'a [T], alpha_bar: &'a mut [T]) -> Self {
        DiagonalProduct { alpha: groups(alpha), alpha_bar: groups_mut(alpha_bar) }
    }
}

impl<T: Scalar> DiffusionProduct<T> for DiagonalProduct<'_, T> {
    #[inline(always)]
    fn product(&self, _: usize, k: usize, v: &Group<T>) -> Group<T> {
        let mut product = [T::ZERO; LANES];
        for l in 0..LANES {
            product[l] = v[l] * self.alpha[k][l];
        }
        product
    }

    #[inline(always)]
    fn add_adjoint(&mut self, _: usize, k: usize, v: &Group<T>, bar: &Group<T>) {
        add_product(&mut self.alpha_bar[k], v, bar);
    }
}

/// A full a: the products of the run were computed at once; stores their derivatives.
pub(super) struct FullProduct<'a, T> {
    products: &'a [Group<T>],
    bars: &'a mut [Group<T>],
    groups: usize,
}

impl<'a, T: Scalar> FullProduct<'a, T> {
    pub(super) fn new(products: &'a [T], bars: &'a mut [T], stride: usize) -> Self {
        FullProduct { products: groups(products), bars: groups_mut(bars), groups: stride / LANES }
    }
}

impl<T: Scalar> DiffusionProduct<T> for FullProduct<'_, T> {
    #[inline(always)]
    fn product(&self, i: usize, k: usize, _: &Group<T>) -> Group<T> {
        self.products[i * self.groups + k]
    }

    #[inline(always)]
    fn add_adjoint(&mut self, i: usize, k: usize, _: &Group<T>, bar: &Group<T>) {
        self.bars[i * self.groups + k] = *bar;
    }
}
