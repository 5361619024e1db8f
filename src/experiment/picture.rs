//! The paper's box plots: the distance of each method's predictions from the truth, system by system.

use super::plan::ExperimentPlan;
use super::run::{MethodRun, names};
use super::table::Measure;
use crate::plot::{BoxGroup, Colour, Panel, Scale};

/// Two panels for every system with cells: mean squared errors and squared Wasserstein distances.
///
/// A panel has a box per method, over all test interventions of all datasets, and a diamond at each published median.
pub(crate) fn box_panels(plan: &ExperimentPlan, cells: &[MethodRun]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for system in names(cells, |cell| &cell.system) {
        for measure in Measure::ALL {
            panels.push(panel(plan, cells, system, measure));
        }
    }
    // One legend explains the marks, below the last panel that has any.
    let last = panels.iter_mut().rev().find_map(|panel| match panel {
        Panel::Boxes { groups, mark_label, .. } if groups.iter().any(|group| group.mark.is_some()) => {
            Some(mark_label)
        }
        _ => None,
    });
    if let Some(label) = last {
        *label = "median as published".into();
    }
    panels
}

fn panel(plan: &ExperimentPlan, cells: &[MethodRun], system: &str, measure: Measure) -> Panel {
    // A method has the same colour in all panels.
    let methods = names(cells, |cell| &cell.method);
    let published = |method: &str| {
        let of = plan.published.iter().find(|published| published.method == method)?;
        measure.published(of).get(system).copied()
    };
    let mut groups: Vec<BoxGroup> = Vec::new();
    for (method, colour) in methods.iter().zip(Colour::ALL.into_iter().cycle()) {
        let own = cells.iter().filter(|cell| cell.system == system && cell.method == *method);
        let values: Vec<f64> =
            own.flat_map(|cell| cell.rows.iter().map(|row| measure.of(&row.scores))).collect();
        if values.is_empty() {
            continue;
        }
        let lawless = values.iter().filter(|value| value.is_infinite()).count();
        groups.push(BoxGroup {
            name: (*method).into(),
            colour,
            values,
            mark: published(method),
            note: if lawless > 0 { format!("{lawless} without a law") } else { String::new() },
        });
    }
    for other in plan.published.iter().filter(|other| !methods.contains(&other.method.as_str())) {
        if let Some(mark) = published(&other.method) {
            let (name, note) = (other.method.clone(), String::new());
            groups.push(BoxGroup { name, colour: Colour::Black, values: vec![], mark: Some(mark), note });
        }
    }
    Panel::Boxes {
        title: format!("{system}, {}", measure.name()),
        x_label: match measure {
            Measure::Mse => "mean squared error of means".into(),
            Measure::W2 => "squared 2-Wasserstein distance".into(),
            Measure::Sinkhorn => "Sinkhorn divergence".into(),
        },
        scale: Scale::Log,
        groups,
        mark_label: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::InterventionResult;
    use super::*;
    use crate::evaluate::Scores;

    #[test]
    fn every_system_has_two_panels_with_a_box_per_method() {
        let text = "datasets = 1
            [[system]]\nname = \"S\"\nsettings = { system = \"sde\" }
            [[method]]\nname = \"a\"\nkind = \"observational\"
            [[method]]\nname = \"b\"\nkind = \"diagonal\"
            [[published]]\nmethod = \"b\"\nw2 = { S = 3.5 }
            [[published]]\nmethod = \"c\"\nmse = { S = 0.5 }\nw2 = { S = 9 }";
        let plan: ExperimentPlan = toml::from_str(text).unwrap();
        let cell = |method: &str, none: bool| MethodRun {
            system: "S".into(),
            seed: 0,
            method: method.into(),
            made_of: String::new(),
            fit_seconds: 0.0,
            predict_seconds: 0.0,
            rows: (0..3)
                .map(|environment| InterventionResult {
                    environment,
                    target: "x".into(),
                    scores: (!none || environment > 0).then_some(Scores { mse: 1.0, w2: 2.0, sinkhorn: 2.0 }),
                    unstable: None,
                    failed: None,
                })
                .collect(),
        };
        let panels = box_panels(&plan, &[cell("a", false), cell("b", true)]);
        let [Panel::Boxes { title, groups, .. }, Panel::Boxes { groups: w2, mark_label, .. }] = &panels[..]
        else {
            panic!("{panels:?}")
        };
        assert_eq!((title.as_str(), mark_label.as_str()), ("S, MSE", "median as published"));
        let shown = |groups: &[BoxGroup]| -> Vec<(String, usize, Option<f64>, String)> {
            groups.iter().map(|g| (g.name.clone(), g.values.len(), g.mark, g.note.clone())).collect()
        };
        let note = "1 without a law".to_string();
        let none = String::new();
        assert_eq!(
            shown(groups),
            [
                ("a".into(), 3, None, none.clone()),
                ("b".into(), 3, None, note.clone()),
                ("c".into(), 0, Some(0.5), none.clone())
            ]
        );
        assert_eq!(
            shown(w2),
            [
                ("a".into(), 3, None, none.clone()),
                ("b".into(), 3, Some(3.5), note),
                ("c".into(), 0, Some(9.0), none)
            ]
        );
    }
}
