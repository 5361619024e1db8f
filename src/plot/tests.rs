use super::contour::{Grid, Vertex, level_lines, polygon};
use super::*;

fn lines(points: Vec<(f64, f64)>) -> Panel {
    Panel::Lines {
        title: "loss over steps".into(),
        x_label: "step".into(),
        y_label: "loss & more".into(),
        scales: (Scale::Linear, Scale::Linear),
        lines: vec![Line { label: "train < test".into(), colour: Colour::Blue, points }],
        points: vec![Point { label: "best".into(), colour: Colour::Red, at: (1.0, 0.5) }],
        verticals: vec![1.0],
        horizontals: vec![],
    }
}

fn contour(x: usize, y: usize, values: Matrix<f64>) -> Panel {
    Panel::Contour {
        title: "a bowl".into(),
        x_label: "α".into(),
        y_label: "σ".into(),
        x: (0..x).map(|i| i as f64).collect(),
        y: (0..y).map(|i| i as f64).collect(),
        values,
        levels: vec![1.0, 2.5],
        points: vec![Point { label: "truth".into(), colour: Colour::Black, at: (1.0, 1.0) }],
    }
}

fn bowl(rows: usize, cols: usize) -> Matrix<f64> {
    Matrix::from_fn(rows, cols, |i, j| (i as f64 - 1.0).powi(2) + (j as f64 - 1.0).powi(2))
}

fn heatmap(names: &[&str], values: Matrix<f64>) -> Panel {
    let names: Vec<String> = names.iter().map(|&n| n.into()).collect();
    Panel::Heatmap {
        title: "effects".into(),
        x_label: "source".into(),
        y_label: "target".into(),
        rows: names.clone(),
        columns: names,
        values,
    }
}

fn render(title: &str, panels: &[Panel]) -> Result<String> {
    let bytes = super::render(PictureFormat::Svg, title, panels.len(), panels)?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn problem(panels: &[Panel]) -> String {
    render("", panels).unwrap_err().to_string()
}

#[test]
fn svg_holds_every_label_escaped_and_is_the_same_each_time() {
    let panels = [lines(vec![(0.0, 1.0), (1.0, 0.5), (2.0, 0.25)]), contour(4, 3, bowl(3, 4))];
    let text = render("The title", &panels).unwrap();
    for label in
        ["The title", "loss over steps", "step", "loss &amp; more", "train &lt; test", "best", "a bowl"]
    {
        assert!(text.contains(&format!("\n{label}\n</text>")), "{label} in {text}");
    }
    for label in ["α", "σ", "truth", "2.5"] {
        assert!(text.contains(&format!("\n{label}\n")), "{label}");
    }
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    assert_eq!(text.matches("<svg").count(), 1);
    assert_eq!(text, render("The title", &panels).unwrap());
}

#[test]
fn a_heatmap_has_names_on_both_sides_and_a_scale_centred_at_0() {
    let nan = f64::NAN;
    let panel = heatmap(&["<x>", "y"], Matrix::from_rows(2, 2, vec![nan, 0.5, -2.0, nan]));
    let text = render("The title", std::slice::from_ref(&panel)).unwrap();
    assert_eq!(text.matches("\n&lt;x&gt;\n</text>").count(), 2);
    for label in ["source", "target", "effects", "−2", "0", "2"] {
        assert!(text.contains(&format!("\n{label}\n")), "{label} in {text}");
    }
    // The strongest, once as a square and not in the scale, whose strips lie a little within; and the absent ones.
    let [r, g, b] = colour::diverging(-1.0);
    assert_eq!(text.matches(&format!("fill=\"#{r:02X}{g:02X}{b:02X}\"")).count(), 1);
    assert_eq!(text.matches("fill=\"#D6D6D6\"").count(), 2);
    assert!(!text.contains("NaN"));
    assert_eq!(text, render("The title", &[panel]).unwrap());
    // Nothing to see, but no reason to fail.
    for value in [0.0, nan] {
        render("", &[heatmap(&["a"], Matrix::full(1, 1, value))]).unwrap();
    }
}

#[test]
fn write_replaces_the_file_and_a_refused_picture_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture.svg");
    write_picture(&path, "", &[contour(4, 3, bowl(3, 4))]).unwrap();
    let before = std::fs::read_to_string(&path).unwrap();
    assert!(write_picture(&path, "", &[]).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    let error = write_picture(&folder.path().join("absent/picture.svg"), "", &[contour(4, 3, bowl(3, 4))]);
    assert!(error.unwrap_err().to_string().starts_with("cannot write "));
}

#[test]
fn what_cannot_be_drawn_is_refused_in_a_sentence() {
    assert_eq!(problem(&[]), "the picture has no panels, expected at least one");
    assert_eq!(
        problem(&[contour(4, 3, bowl(4, 3))]),
        "panel 'a bowl' has values of shape [4, 3], expected [3, 4] like its axes"
    );
    assert!(problem(&[contour(1, 3, bowl(3, 1))]).contains("1 values in `x`, expected at least 2"));
    assert!(problem(&[contour(4, 3, Matrix::full(3, 4, f64::NAN))]).contains("no finite values"));
    let mut outside = contour(4, 3, bowl(3, 4));
    let Panel::Contour { points, .. } = &mut outside else { unreachable!() };
    points[0].at.0 = 7.0;
    assert!(problem(std::slice::from_ref(&outside)).contains("(7.0, 1.0) outside of its grid"));
    let Panel::Contour { levels, .. } = &mut outside else { unreachable!() };
    levels.reverse();
    assert!(problem(&[outside]).contains("`levels` out of order"));

    let mut empty = lines(vec![(f64::NAN, 1.0)]);
    let Panel::Lines { points, .. } = &mut empty else { unreachable!() };
    points.clear();
    assert!(problem(std::slice::from_ref(&empty)).contains("has no finite point"));
    let Panel::Lines { verticals, .. } = &mut empty else { unreachable!() };
    verticals[0] = f64::NAN;
    assert!(problem(&[empty]).contains("guide at NaN"));
    assert_eq!(
        problem(&[heatmap(&["a", "b"], Matrix::full(2, 3, 1.0))]),
        "panel 'effects' has values of shape [2, 3], expected [2, 2] like its names"
    );
    assert!(problem(&[heatmap(&[], Matrix::full(0, 0, 1.0))]).contains("expected at least one"));
    assert!(problem(&[heatmap(&["a"], Matrix::full(1, 1, f64::MAX))]).contains("more than a number"));
    assert!(problem(&[lines(vec![(0.0, -f64::MAX), (1.0, f64::MAX)])]).contains("more than a number"));
}

#[test]
fn values_that_are_not_finite_leave_gaps() {
    let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.5), (3.0, 0.25), (f64::INFINITY, 0.0), (4.0, 0.0)];
    let text = render("", &[lines(points)]).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let mut values = bowl(3, 4);
    values[(0, 0)] = f64::NAN;
    values[(2, 3)] = f64::INFINITY;
    render("", &[contour(4, 3, values)]).unwrap();
    // Labels are anybody's: none may break the file.
    let mut panel = lines(vec![(0.0, 1.0), (1.0, 1.0)]);
    let Panel::Lines { title, .. } = &mut panel else { unreachable!() };
    *title = "bell\u{7} and\nnewline".into();
    assert!(render("", &[panel]).unwrap().contains("bell  and newline"));
}

/// The area inside all loops by the shoelace formula, and its sign the side the region is on.
fn area(ring: &[(f64, f64)]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    0.5 * ring.iter().zip(next).map(|(p, q)| p.0 * q.1 - q.0 * p.1).sum::<f64>()
}

fn field(f: impl Fn(f64, f64) -> f64) -> (Vec<f64>, Matrix<f64>) {
    let axis: Vec<f64> = (0..=80).map(|i| -2.0 + 0.05 * f64::from(i)).collect();
    let values = Matrix::from_fn(axis.len(), axis.len(), |i, j| f(axis[j], axis[i]));
    (axis, values)
}

#[test]
fn the_outline_of_a_disc_is_a_circle() {
    let (axis, values) = field(|x, y| -(x * x + y * y));
    let outline = Grid { x: &axis, y: &axis, values: &values }.outline(-1.5 * 1.5);
    assert_eq!(outline.len(), 1);
    for Vertex { at: (x, y), crossing } in &outline[0] {
        assert!(*crossing && (x.hypot(*y) - 1.5).abs() < 1e-3, "{x} {y}");
    }
    assert!((area(&polygon(&outline)) - std::f64::consts::PI * 2.25).abs() < 0.01);
    let lines = level_lines(&outline);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].first(), lines[0].last());
}

#[test]
fn holes_and_borders_are_cut_out() {
    // Outside of a circle: the square with a hole, and only the hole's rim is a line.
    let (axis, values) = field(|x, y| x * x + y * y);
    let grid = Grid { x: &axis, y: &axis, values: &values };
    let outline = grid.outline(1.0);
    assert_eq!(outline.len(), 2);
    assert!((area(&polygon(&outline)) - (16.0 - std::f64::consts::PI)).abs() < 0.01);
    assert_eq!(level_lines(&outline).len(), 1);
    // Beyond radius 2 are the four corners, each with one arc.
    let arcs = level_lines(&grid.outline(5.0));
    assert_eq!(arcs.len(), 4);
    assert!(arcs.iter().flatten().all(|(x, y)| (x.hypot(*y) - 5f64.sqrt()).abs() < 1e-3));
    assert!(grid.outline(9.0).is_empty());
    assert!((area(&polygon(&grid.outline(f64::MIN))) - 16.0).abs() < 1e-9);
}

#[test]
fn a_saddle_is_joined_or_parted_by_its_mean() {
    let axis = [0.0, 1.0];
    for (high, regions) in [(3.0, 1), (1.5, 2)] {
        let values = Matrix::from_rows(2, 2, vec![high, 0.0, 0.0, high]);
        let outline = Grid { x: &axis, y: &axis, values: &values }.outline(1.0);
        assert_eq!(outline.len(), regions, "{high}");
    }
}

#[test]
fn a_missing_point_is_left_out_of_the_region() {
    let axis = [0.0, 1.0, 2.0];
    let mut values = Matrix::full(3, 3, 1.0);
    values[(0, 0)] = f64::NAN;
    let outline = Grid { x: &axis, y: &axis, values: &values }.outline(0.0);
    assert_eq!(area(&polygon(&outline)), 3.5);
    assert!(level_lines(&outline).is_empty());
}

fn boxes(values: Vec<f64>) -> Panel {
    let group = |name: &str, values: Vec<f64>, mark| BoxGroup {
        name: name.into(),
        colour: Colour::Green,
        values,
        mark,
        note: "a note".into(),
    };
    Panel::Boxes {
        title: "spread".into(),
        x_label: "distance".into(),
        scale: Scale::Log,
        groups: vec![group("ours", values, None), group("theirs", vec![], Some(3.0))],
        mark_label: "published".into(),
    }
}

#[test]
fn boxes_have_names_notes_and_a_legend() {
    let text = render("", &[boxes(vec![1.0, 2.0, 5.0, 40.0, f64::INFINITY])]).unwrap();
    for label in ["ours", "theirs", "a note", "distance", "spread", "published"] {
        assert!(text.contains(&format!("\n{label}\n")), "{label} in {text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let empty = Panel::Boxes {
        title: "none".into(),
        x_label: String::new(),
        scale: Scale::Log,
        groups: vec![],
        mark_label: String::new(),
    };
    assert!(problem(&[empty]).contains("has no groups"));
}

#[test]
fn a_grid_has_rows_of_panels() {
    let size = |columns: usize| {
        let panels: Vec<Panel> = (0..4).map(|_| lines(vec![(0.0, 1.0), (1.0, 0.5)])).collect();
        let text =
            String::from_utf8(super::render(PictureFormat::Svg, "", columns, &panels).unwrap()).unwrap();
        let number = |name: &str| -> f64 {
            let rest = text.split_once(&format!("{name}=\"")).unwrap().1;
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        (number("width"), number("height"))
    };
    let (row, square) = (size(4), size(2));
    assert!(square.0 < 0.6 * row.0 && square.1 > 1.7 * row.1, "{row:?} {square:?}");
}

/// The pixels of a PNG: width, height, and red, green, blue and opacity of each.
fn pixels(panels: &[Panel]) -> (u32, Vec<[u8; 4]>) {
    let bytes = super::render(PictureFormat::Png, "Title", panels.len(), panels).unwrap();
    assert_eq!(bytes, super::render(PictureFormat::Png, "Title", panels.len(), panels).unwrap());
    let image = resvg::tiny_skia::Pixmap::decode_png(&bytes).unwrap();
    let pixels = image.pixels().iter().map(|p| [p.red(), p.green(), p.blue(), p.alpha()]).collect();
    (image.width(), pixels)
}

#[test]
fn a_png_has_letters_lines_and_colours() {
    let panels = [lines(vec![(0.0, 1.0), (2.0, 0.25)]), contour(4, 3, bowl(3, 4)), boxes(vec![1.0, 9.0])];
    let (width, found) = pixels(&panels);
    assert!(found.iter().all(|p| p[3] == 255));
    let count = |[r, g, b]: [u8; 3]| found.iter().filter(|p| p[..3] == [r, g, b]).count();
    for colour in [Colour::Blue, Colour::Red, Colour::Green] {
        assert!(count(colour.rgb()) > 100, "{colour:?}");
    }
    // The title is near the top and in the middle, nothing is at the edges.
    let ink = |rows: std::ops::Range<u32>, columns: std::ops::Range<u32>| {
        let place = |y: u32, x: u32| found[(y * width + x) as usize];
        rows.flat_map(|y| columns.clone().map(move |x| place(y, x))).filter(|p| p[0] < 128).count()
    };
    assert!(ink(20..60, width / 2 - 60..width / 2 + 60) > 100);
    assert_eq!(ink(0..16, 0..width), 0);
}

#[test]
fn a_png_of_too_many_pixels_is_refused() {
    assert_eq!(raster::check_size((100.0, 50.5)).unwrap(), (200, 101));
    for size in [(1e5, 1e5), (0.0, 10.0)] {
        let error = raster::check_size(size).unwrap_err().to_string();
        assert!(error.contains("pixels, expected at least one and at most 1e8"), "{error}");
    }
}
