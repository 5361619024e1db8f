//! The measure of cycles, the test and the repair.

use super::super::acyclic::{Acyclicity, break_cycles, is_acyclic, likely_edges};
use super::rng;
use crate::Matrix;
use rand::RngExt;

#[test]
fn measure_of_known_graphs() {
    // A cycle through all n variables with edges p: Σ_m n pⁿᵐ / (nm)!.
    for n in 2..=9 {
        let p: f64 = 0.7;
        let a = Matrix::from_fn(n, n, |j, i| if (i + 1) % n == j { p } else { 0.0 });
        let factorial = |k: usize| (1..=k).map(|v| v as f64).product::<f64>();
        let cycle: f64 = (1..=12).map(|m| n as f64 * p.powi((n * m) as i32) / factorial(n * m)).sum();
        let most = ((n - 1) as f64).exp() + (n - 1) as f64 * (-1.0f64).exp() - n as f64;
        let h = Acyclicity::new(n).measure(&a);
        let error = (h - cycle / most).abs();
        // The second term: a power that the series leaves out comes in by squaring alone.
        assert!(error <= 1e-9 * cycle / most + 1e-13, "{n}: {h}, expected {}", cycle / most);
    }
    // All edges: 1, by the definition of the scale.
    for n in [2, 5, 20, 101, 500] {
        let h = Acyclicity::new(n).measure(&Matrix::from_fn(n, n, |j, i| f64::from(u8::from(i != j))));
        assert!((h - 1.0).abs() < 1e-7, "{n}: {h}");
    }
    // No cycle: exactly 0.
    let mut rng = rng(1);
    let below = Matrix::from_fn(13, 13, |j, i| if i < j { rng.random::<f64>() } else { 0.0 });
    assert_eq!(Acyclicity::new(13).measure(&below), 0.0);
    assert_eq!(Acyclicity::new(1).measure(&Matrix::full(1, 1, 0.0)), 0.0);
}

#[test]
fn cycles_open_at_their_least_probable_edge() {
    // 0 → 1 → 2 → 0 and 2 → 3.
    let mut p = Matrix::full(4, 4, 0.0);
    for (j, i, value) in [(1, 0, 0.9), (2, 1, 0.6), (0, 2, 0.8), (3, 2, 0.51), (0, 3, 0.4)] {
        p[(j, i)] = value;
    }
    let mut edges = likely_edges(&p);
    assert!(!is_acyclic(&edges));
    break_cycles(&mut edges, &p);
    assert!(is_acyclic(&edges));
    let kept: Vec<_> = (0..16).filter(|&n| edges.as_slice()[n]).map(|n| (n / 4, n % 4)).collect();
    assert_eq!(kept, [(0, 2), (1, 0), (3, 2)], "2 → 3 lies on no cycle and stays");
}

#[test]
fn repair_leaves_acyclic_graphs_alone_and_always_ends() {
    let mut rng = rng(2);
    for n in 1..12 {
        let p = Matrix::from_fn(n, n, |j, i| if i == j { 0.0 } else { rng.random::<f64>() });
        let mut edges = likely_edges(&p);
        break_cycles(&mut edges, &p);
        assert!(is_acyclic(&edges));
        let before = edges.clone();
        break_cycles(&mut edges, &p);
        assert_eq!(edges, before);
        let forest = Matrix::from_fn(n, n, |j, i| i < j);
        assert!(is_acyclic(&forest));
        // Equal probabilities.
        let mut full = Matrix::from_fn(n, n, |j, i| i != j);
        break_cycles(&mut full, &Matrix::full(n, n, 0.7));
        assert!(is_acyclic(&full));
        assert_eq!(full.as_slice().iter().filter(|&&e| e).count(), n * (n - 1) / 2);
    }
}
