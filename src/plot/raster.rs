//! The drawing surface of pixels, for PNG files. Letters come from a font that is part of the program, so that the same panels
//! give the same bytes on every machine.

use super::canvas::{Anchor, INK};
use crate::{Error, Result};
use tiny_skia::{Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Pixels per point: letters stay sharp on fine screens.
const PIXELS: f32 = 2.0;
/// Larger pictures are refused: their pixels would take gigabytes.
const MOST_PIXELS: f64 = 1e8;

const REGULAR: &[u8] = include_bytes!("font/DejaVuSans.ttf");
const BOLD: &[u8] = include_bytes!("font/DejaVuSans-Bold.ttf");
/// The font's letters are wide; drawn a little smaller they take the room that the layout leaves for them.
const LETTER_SHARE: f32 = 0.9;

/// An image in memory.
pub(super) struct Raster {
    pixels: Pixmap,
    scale: Transform,
}

fn path_of(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    let (first, rest) = points.split_first()?;
    builder.move_to(first.0 as f32, first.1 as f32);
    rest.iter().for_each(|p| builder.line_to(p.0 as f32, p.1 as f32));
    if closed {
        builder.close();
    }
    builder.finish()
}

fn paint([r, g, b]: [u8; 3]) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(Color::from_rgba8(r, g, b, 255));
    paint
}

impl Raster {
    /// A transparent image of the given size in points.
    pub(super) fn new(size: (f64, f64)) -> Result<Self> {
        let pixels = f64::from(PIXELS);
        let (width, height) = ((pixels * size.0).ceil(), (pixels * size.1).ceil());
        let pixels = (width * height <= MOST_PIXELS)
            .then(|| Pixmap::new(width as u32, height as u32))
            .flatten()
            .ok_or_else(|| {
                Error::invalid(format!(
                    "the picture would have {width} × {height} pixels, expected at least one and at most {MOST_PIXELS:.0e}: write .svg"
                ))
            })?;
        Ok(Raster { pixels, scale: Transform::from_scale(PIXELS, PIXELS) })
    }

    /// A line through points. A path with no length is nothing to see.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], colour: [u8; 3], width: f64) {
        let stroke = Stroke {
            width: width as f32,
            line_cap: LineCap::Round,
            line_join: LineJoin::Round,
            ..Stroke::default()
        };
        if let Some(path) = path_of(points, false) {
            self.pixels.stroke_path(&path, &paint(colour), &stroke, self.scale, None);
        }
    }

    pub(super) fn polygon(&mut self, points: &[(f64, f64)], colour: [u8; 3]) {
        if let Some(path) = path_of(points, true) {
            self.pixels.fill_path(&path, &paint(colour), FillRule::Winding, self.scale, None);
        }
    }

    pub(super) fn circle(&mut self, at: (f64, f64), radius: f64, colour: [u8; 3]) {
        if let Some(path) = PathBuilder::from_circle(at.0 as f32, at.1 as f32, radius as f32) {
            self.pixels.fill_path(&path, &paint(colour), FillRule::Winding, self.scale, None);
        }
    }

    /// Letters of `size` points, centred vertically at `at`.
    pub(super) fn text(&mut self, text: &str, at: (f64, f64), size: f64, anchor: Anchor, bold: bool) {
        let face = Face::parse(if bold { BOLD } else { REGULAR }, 0).expect("the font that ships is valid");
        let unit = LETTER_SHARE * size as f32 / f32::from(face.units_per_em());
        let glyphs: Vec<GlyphId> = text.chars().map(|c| face.glyph_index(c).unwrap_or_default()).collect();
        let advance = |glyph: GlyphId| unit * f32::from(face.glyph_hor_advance(glyph).unwrap_or(0));
        let width: f32 = glyphs.iter().map(|&glyph| advance(glyph)).sum();
        let start = match anchor {
            Anchor::Left => 0.0,
            Anchor::Middle | Anchor::Upwards => -0.5 * width,
            Anchor::Right | Anchor::UpwardsTo => -width,
        };
        let turn = match anchor {
            Anchor::Upwards | Anchor::UpwardsTo => -90.0,
            Anchor::Left | Anchor::Middle | Anchor::Right => 0.0,
        };
        // Half the height of capitals lies above and below.
        let capital = face.glyph_index('H').and_then(|glyph| face.glyph_bounding_box(glyph));
        let rise = 0.5 * unit * capital.map_or(0.0, |capital| f32::from(capital.y_max));
        let mut outline = Outline { builder: PathBuilder::new(), left: start, rise, unit };
        for glyph in glyphs {
            face.outline_glyph(glyph, &mut outline);
            outline.left += advance(glyph);
        }
        if let Some(path) = outline.builder.finish() {
            let place =
                self.scale.pre_translate(at.0 as f32, at.1 as f32).pre_concat(Transform::from_rotate(turn));
            self.pixels.fill_path(&path, &paint(INK), FillRule::Winding, place, None);
        }
    }

    /// The image as a PNG file's bytes.
    pub(super) fn png(&self) -> Result<Vec<u8>> {
        self.pixels
            .encode_png()
            .map_err(|error| Error::invalid(format!("the picture could not be drawn: {error}")))
    }
}

/// Puts glyphs, whose y points up and whose unit is the font's, side by side on a line.
struct Outline {
    builder: PathBuilder,
    left: f32,
    rise: f32,
    unit: f32,
}

impl Outline {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        (self.left + self.unit * x, self.rise - self.unit * y)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.builder.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.builder.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}
