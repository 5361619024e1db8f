//! Lays out a picture and draws what goes into each frame.

use super::axes::{Frame, LETTER_WIDTH, LETTERS, Range, Scale, lone_number, numbers_width};
use super::boxes;
use super::canvas::{Anchor, Canvas, GREY, INK, svg};
use super::colour::{Colour, ramp};
use super::contour::{Grid, level_lines, polygon};
use super::heatmap::Heatmap;
use super::raster::{self, LETTER_SHARE};
use super::{Line, Panel, Point};
use crate::{Error, Result};

/// Width and height of a frame in points.
pub(super) const FRAME: (f64, f64) = (228.0, 228.0);
/// The height of a line of text.
pub(super) const TEXT_LINE: f64 = 1.45 * LETTERS;
/// The space around the picture and between panels.
const MARGIN: f64 = 14.0;
/// The colour scale beside a frame: its distance from the frame and its width.
pub(super) const SCALE: (f64, f64) = (10.0, 14.0);

/// The size of a panel's frame and of the space around it.
pub(super) struct PanelLayout {
    pub(super) frame: (f64, f64),
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) below: f64,
}

/// The symbol of a legend's entry.
enum Swatch {
    Line,
    Dot,
    Diamond,
}

/// A picture whose panels are placed.
pub(super) struct Picture<'a> {
    title: &'a str,
    size: (f64, f64),
    placed: Vec<PlacedPanel<'a>>,
}

struct PlacedPanel<'a> {
    panel: &'a Panel,
    heatmap: Option<Heatmap>,
    frame: Frame,
    /// The vertical centre of the panel's title.
    heading: f64,
    legend_top: f64,
}

impl<'a> Picture<'a> {
    /// Places panels in rows of `columns`. The caller has checked every panel.
    pub(super) fn new(title: &'a str, panels: &'a [Panel], columns: usize) -> Result<Self> {
        let mut parts = Vec::new();
        for panel in panels {
            let heatmap = heatmap(panel);
            let (x, y) = ranges(panel, heatmap.as_ref())?;
            let room = room(panel, heatmap.as_ref(), y);
            parts.push((panel, heatmap, x, y, room));
        }
        // Frames of a column begin at the same x.
        let of_column = |k: usize, part: &dyn Fn(&PanelLayout) -> f64| {
            parts.iter().skip(k).step_by(columns).map(|(.., room)| part(room)).fold(0.0, f64::max)
        };
        let mut lefts = Vec::new();
        let mut right = MARGIN;
        for k in 0..columns {
            lefts.push(right + of_column(k, &|room| room.left));
            right = lefts[k] + of_column(k, &|room| room.frame.0 + room.right) + 1.5 * MARGIN;
        }
        let mut top = MARGIN + if title.is_empty() { 0.0 } else { 1.9 * LETTERS };
        let mut placed: Vec<PlacedPanel<'a>> = Vec::new();
        let mut parts = parts.into_iter().peekable();
        while parts.peek().is_some() {
            let row: Vec<_> = parts.by_ref().take(columns).collect();
            let frame_top = top + TEXT_LINE + 4.0;
            let height = row.iter().map(|(.., room)| room.frame.1 + room.below).fold(0.0, f64::max);
            let entries = row.iter().map(|(panel, ..)| legend(panel).len()).max().unwrap_or(0);
            let heading = top + 0.5 * TEXT_LINE;
            let legend_top = frame_top + height;
            for ((panel, heatmap, x, y, room), &left) in row.into_iter().zip(&lefts) {
                let frame = Frame { left, top: frame_top, width: room.frame.0, height: room.frame.1, x, y };
                placed.push(PlacedPanel { panel, heatmap, frame, heading, legend_top });
            }
            top = legend_top + TEXT_LINE * entries as f64 + 0.5 * MARGIN;
        }
        Ok(Picture { title, size: (right.ceil(), top.ceil()), placed })
    }

    /// The text of an SVG file.
    pub(super) fn svg(&self) -> Result<String> {
        svg(self.size, 1.0, |canvas| self.draw(canvas))
    }

    /// The bytes of a PNG file.
    pub(super) fn png(&self) -> Result<Vec<u8>> {
        raster::check_size(self.size)?;
        let svg = svg(self.size, LETTER_SHARE, |canvas| self.draw(canvas))?;
        raster::png(&svg, self.size)
    }

    fn draw(&self, canvas: &mut Canvas<'_>) -> Result<()> {
        if !self.title.is_empty() {
            let place = (0.5 * self.size.0, MARGIN + 0.7 * LETTERS);
            canvas.bold(self.title, place, 1.2 * LETTERS, Anchor::Middle)?;
        }
        self.placed.iter().try_for_each(|placed| placed.draw(canvas))
    }
}

impl PlacedPanel<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>) -> Result<()> {
        let PlacedPanel { panel, heatmap, frame, heading, legend_top } = self;
        let heading = (frame.left + 0.5 * frame.width, *heading);
        let title = heatmap.as_ref().map_or(panel.title().into(), |h| h.heading(panel.title()));
        canvas.text(&title, heading, 1.1 * LETTERS, Anchor::Middle)?;
        match (panel, heatmap) {
            (Panel::Lines { lines, scales, verticals, horizontals, .. }, _) => {
                verticals.iter().try_for_each(|&x| frame.vertical(canvas, x))?;
                horizontals.iter().try_for_each(|&y| frame.horizontal(canvas, y))?;
                lines.iter().try_for_each(|line| curve(canvas, frame, line, *scales))?;
                frame.draw(canvas, panel.labels())?;
            }
            (Panel::Contour { x, y, values, levels, .. }, _) => {
                bands(canvas, frame, &Grid { x, y, values }, levels)?;
                scale(canvas, frame, levels)?;
                frame.draw(canvas, panel.labels())?;
            }
            (Panel::Boxes { groups, x_label, scale, .. }, _) => {
                boxes::axis(canvas, frame, x_label)?;
                boxes::draw(canvas, frame, groups, *scale)?;
            }
            // At whole points, so that squares end where pixels do.
            (Panel::Heatmap { .. }, heatmap) => {
                let place = (frame.left.round(), frame.top.round());
                let heatmap = heatmap.as_ref().expect("a panel of squares has them");
                heatmap.draw(canvas, place, frame.y, panel.labels())?;
            }
        }
        for point in panel.points() {
            canvas.dot(frame.place(point.at), point.colour.rgb())?;
        }
        for (row, (swatch, colour, label)) in legend(panel).into_iter().enumerate() {
            let at = (frame.left, legend_top + TEXT_LINE * (row as f64 + 0.5));
            match swatch {
                Swatch::Line => canvas.curve(&[at, (at.0 + 22.0, at.1)], colour.rgb(), 2.2)?,
                Swatch::Dot => canvas.dot((at.0 + 11.0, at.1), colour.rgb())?,
                Swatch::Diamond => boxes::diamond(canvas, (at.0 + 11.0, at.1))?,
            }
            canvas.text(label, (at.0 + 30.0, at.1), LETTERS, Anchor::Left)?;
        }
        Ok(())
    }
}

/// The squares of a heatmap panel.
fn heatmap(panel: &Panel) -> Option<Heatmap> {
    match panel {
        Panel::Heatmap { rows, columns, values, .. } => Some(Heatmap::new(rows, columns, values)),
        _ => None,
    }
}

fn room(panel: &Panel, heatmap: Option<&Heatmap>, y: Range) -> PanelLayout {
    match (panel, heatmap) {
        (_, Some(heatmap)) => heatmap.room(panel.title(), y),
        (Panel::Boxes { groups, title, .. }, _) => boxes::room(groups, title),
        _ => PanelLayout {
            frame: FRAME,
            left: numbers_width(y) + 2.5 * LETTERS,
            right: scale_width(panel),
            below: 3.9 * LETTERS,
        },
    }
}

/// The intervals of a panel's axes; for a heatmap, those of its colour scale.
fn ranges(panel: &Panel, heatmap: Option<&Heatmap>) -> Result<(Range, Range)> {
    let found = match panel {
        Panel::Lines { lines, scales, points, verticals, horizontals, .. } => {
            let drawn = |(x, y): (f64, f64)| scales.0.has(x) && scales.1.has(y);
            let places: Vec<_> = (lines.iter().flat_map(|l| &l.points).copied())
                .chain(points.iter().map(|p| p.at))
                .filter(|&p| drawn(p))
                .collect();
            // A panel with guides alone would look empty.
            let shown = !places.is_empty();
            let x = Range::on(scales.0, places.iter().map(|p| p.0).chain(verticals.iter().copied()));
            let y = Range::on(scales.1, places.iter().map(|p| p.1).chain(horizontals.iter().copied()));
            shown.then_some((x, y.map(Range::padded)))
        }
        Panel::Contour { x, y, .. } => Some((Range::of(x.iter().copied()), Range::of(y.iter().copied()))),
        Panel::Heatmap { .. } => heatmap.map(|heatmap| (heatmap.range(), heatmap.range())),
        // One row of boxes below the other: the vertical axis has no numbers.
        Panel::Boxes { groups, scale, .. } => {
            boxes::range(groups, *scale).map(|x| (Some(x), Range::of([0.0, 1.0].into_iter())))
        }
    };
    let problem = |what| Error::invalid(format!("panel '{}' {what}", panel.title()));
    match found {
        Some((Some(x), Some(y))) => Ok((x, y)),
        Some(_) => Err(problem("spans more than a number can hold")),
        None => Err(problem("has no finite point, expected at least one")),
    }
}

fn legend(panel: &Panel) -> Vec<(Swatch, Colour, &str)> {
    let lines: &[Line] = match panel {
        Panel::Lines { lines, .. } => lines,
        Panel::Boxes { mark_label, .. } if !mark_label.is_empty() => {
            return vec![(Swatch::Diamond, Colour::Black, mark_label)];
        }
        _ => &[],
    };
    let lines = lines.iter().map(|line| (Swatch::Line, line.colour, line.label.as_str()));
    let dots = |p: &Point| !p.label.is_empty();
    let points = panel.points().iter().filter(|p| dots(p)).map(|p| (Swatch::Dot, p.colour, p.label.as_str()));
    lines.filter(|(_, _, label)| !label.is_empty()).chain(points).collect()
}

fn curve(canvas: &mut Canvas<'_>, frame: &Frame, line: &Line, scales: (Scale, Scale)) -> Result<()> {
    for part in line.points.split(|(x, y)| !(scales.0.has(*x) && scales.1.has(*y))) {
        let places: Vec<_> = part.iter().map(|&p| frame.place(p)).collect();
        match places.as_slice() {
            [] => {}
            // A single point between two gaps is drawn as a short line.
            &[(x, y)] => canvas.curve(&[(x, y), (x + 0.1, y)], line.colour.rgb(), 2.2)?,
            places => canvas.curve(places, line.colour.rgb(), 2.2)?,
        }
    }
    Ok(())
}

/// The colour of the band below level `index`, or above all levels.
fn band_colour(index: usize, levels: usize) -> [u8; 3] {
    ramp(index as f64 / levels as f64)
}

/// Paints from the lowest band up, each region over the larger one below it, then the lines between.
fn bands(canvas: &mut Canvas<'_>, frame: &Frame, grid: &Grid<'_>, levels: &[f64]) -> Result<()> {
    let mut lines = Vec::new();
    // The least number: the lowest band is wherever the function is finite.
    for (index, &level) in [f64::MIN].iter().chain(levels).enumerate() {
        let outline = grid.outline(level);
        if outline.is_empty() {
            continue;
        }
        let ring: Vec<_> = polygon(&outline).into_iter().map(|p| frame.place(p)).collect();
        canvas.polygon(&ring, band_colour(index, levels.len()))?;
        lines.extend(level_lines(&outline));
    }
    for line in lines {
        let places: Vec<_> = line.into_iter().map(|p| frame.place(p)).collect();
        canvas.curve(&places, INK, 0.5)?;
    }
    Ok(())
}

fn scale_width(panel: &Panel) -> f64 {
    match panel {
        Panel::Lines { .. } | Panel::Heatmap { .. } | Panel::Boxes { .. } => 0.0,
        Panel::Contour { levels, .. } => {
            let longest = levels.iter().map(|&v| lone_number(v).chars().count()).max().unwrap_or(0);
            SCALE.0 + SCALE.1 + 4.0 + LETTER_WIDTH * longest as f64
        }
    }
}

/// The colours of all bands, lowest at the bottom, with the levels between them. Bands are equally high,
/// whatever the distance between levels: it is a key to the colours, not an axis.
fn scale(canvas: &mut Canvas<'_>, frame: &Frame, levels: &[f64]) -> Result<()> {
    let (left, right) = (frame.left + frame.width + SCALE.0, frame.left + frame.width + SCALE.0 + SCALE.1);
    let (bottom, height) = (frame.top + frame.height, frame.height / (levels.len() + 1) as f64);
    for index in 0..=levels.len() {
        let low = bottom - height * index as f64;
        let corners = [(left, low), (right, low), (right, low - height), (left, low - height)];
        canvas.polygon(&corners, band_colour(index, levels.len()))?;
    }
    let corners = [(left, bottom), (right, bottom), (right, frame.top), (left, frame.top), (left, bottom)];
    canvas.curve(&corners, GREY, 1.0)?;
    // Only every second, third … number is written where they would touch.
    let stride = (TEXT_LINE / height).ceil() as usize;
    for (index, &level) in levels.iter().enumerate() {
        let at = bottom - height * (index + 1) as f64;
        canvas.curve(&[(left, at), (right, at)], INK, 0.5)?;
        if index % stride == 0 {
            canvas.text(&lone_number(level), (right + 4.0, at), LETTERS, Anchor::Left)?;
        }
    }
    Ok(())
}
