//! The augmented Lagrangian's rules.

use super::super::lagrangian::Lagrangian;

fn settled(values: [f64; 3]) -> bool {
    let mut lagrangian = Lagrangian::new();
    values.iter().for_each(|&value| lagrangian.record(value));
    lagrangian.is_settled()
}

#[test]
fn a_problem_is_solved_when_its_loss_stops_falling() {
    assert!(!settled([1.0, 0.9, 0.8]), "falls by 2e-3 per step");
    assert!(settled([1.0, 0.998, 0.995]), "falls by 5e-5 per step");
    assert!(settled([1.0, 1.2, 1.5]), "rises");
    assert!(!settled([1.0, 0.99, 1.0]), "turned");
    assert!(!settled([1.0, 1.001, 1.0005]), "turned");
    let mut early = Lagrangian::new();
    early.record(1.0);
    early.record(1.0001);
    assert!(!early.is_settled(), "two values are not enough");
}

#[test]
fn weights_rise() {
    let mut lagrangian = Lagrangian::new();
    let first = lagrangian.mu;
    [3.0, 2.0, 1.0].iter().for_each(|&value| lagrangian.record(value));
    lagrangian.tighten(0.5);
    assert_eq!((lagrangian.mu, lagrangian.gamma), (first, 0.5 * first), "the first time, only gamma rises");
    lagrangian.tighten(0.4);
    assert_eq!((lagrangian.mu, lagrangian.gamma), (first, 0.9 * first), "h fell enough");
    lagrangian.tighten(0.37);
    assert_eq!(lagrangian.mu, 2.0 * first, "h fell too little");
    // 1 was recorded without the new weights; the next value is compared with what it would have been.
    let expected = 1.0 + first * (0.5 * 0.5 + 0.4 * 0.4 + (0.37 + 0.5 * 0.37) * 0.37);
    assert!((lagrangian.last() - expected).abs() < 1e-15);
    let h = 0.3;
    let slope = (lagrangian.penalty(h + 1e-6) - lagrangian.penalty(h - 1e-6)) / 2e-6;
    assert!((lagrangian.slope(h) - slope).abs() < 1e-12);
}
