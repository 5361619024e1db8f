//! The least-squares parameters of a graph.

use super::*;

/// The residual of variable j over the rows of environments that do not act on it.
fn residuals(data: &Dataset, found: &LinearEquations, j: usize) -> Vec<(usize, f64)> {
    let rows = (0..data.environments()).filter(|&e| !data.targets()[(e, j)]).flat_map(|e| data.rows(e));
    rows.map(|row| {
        let x = data.samples().row(row);
        (row, x[j] - (0..data.dim()).map(|i| found.effects[(j, i)] * x[i]).sum::<f64>())
    })
    .collect()
}

#[test]
fn residuals_are_orthogonal_to_parents_where_the_variable_is_no_target() {
    let lists = [vec![], vec![1], vec![3, 4], vec![2], vec![]];
    let data = chain_data(5, &lists, 60, 0.9, 6);
    let parents = [vec![], vec![0], vec![1, 0], vec![2, 0, 1], vec![3]];
    let found = dag_equations(&data, &parents);
    for j in 0..5 {
        let left = residuals(&data, &found, j);
        let square: f64 = left.iter().map(|(_, r)| r * r).sum::<f64>() / left.len() as f64;
        assert!((found.variances[j] - square).abs() < 1e-12 * square);
        for i in 0..5 {
            let product: f64 = left.iter().map(|(row, r)| data.samples()[(*row, i)] * r).sum();
            let scale = square * left.len() as f64;
            if parents[j].contains(&i) {
                assert!(product.abs() < 1e-11 * scale, "{i} on {j}: {product}");
            } else {
                assert_eq!(found.effects[(j, i)], 0.0);
            }
        }
    }
    // The rows of environments that act on a variable would change its equation.
    let all = data.clone().with_targets(Matrix::full(5, 5, false)).unwrap();
    assert!((dag_equations(&all, &parents).effects[(3, 2)] - found.effects[(3, 2)]).abs() > 1e-3);
}

#[test]
fn dependent_parents_and_variables_without_an_equation_are_no_trouble() {
    let mut samples = Matrix::from_fn(30, 4, |i, j| ((i * (j + 2) + i * i) % 11) as f64 - 5.0);
    for i in 0..30 {
        samples[(i, 1)] = 2.0 * samples[(i, 0)];
        samples[(i, 3)] = samples[(i, 0)] - 3.0 * samples[(i, 2)];
    }
    let data = Dataset::from_environments(vec![samples]).unwrap();
    let parents = [vec![], vec![], vec![], vec![0, 1, 2]];
    let found = dag_equations(&data, &parents);
    assert_eq!(found.effects[(3, 1)], 0.0);
    assert!((found.effects[(3, 0)] - 1.0).abs() < 1e-12 && (found.effects[(3, 2)] + 3.0).abs() < 1e-12);
    assert!(found.variances[3] > 0.0 && found.variances[3] < 1e-7);
    let everywhere = data.with_targets(Matrix::full(1, 4, true)).unwrap();
    let none = dag_equations(&everywhere, &parents);
    assert!(none.effects.as_slice().iter().all(|b| *b == 0.0));
    let square = (0..30).map(|i| everywhere.samples()[(i, 0)].powi(2)).sum::<f64>() / 30.0;
    assert!((none.variances[0] - square).abs() < 1e-12 * square);
}
